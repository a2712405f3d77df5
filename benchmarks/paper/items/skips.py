"""`fig:hero` b, and the second experiment of the section on mechanism: the same network with and without its skips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.coupling import VERSION, Course, course, held_out, milder, pairing
from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.plots import matrix, panels

MOMENTS = 4
"""How many score matrices are drawn of each network, the first before and the last after training."""
CHANCE = (
    "24 blocks, mean of three seeds; wrong pairs find 1/24 = 4.2 % of the partners on average, a single network often "
    "two or three"
)
SIGN = "86 % in the paper's GPT-2, each of which normalises what a branch reads; these networks have no norms"
BEGINNING = (
    "xavier-normal with skips, kaiming-normal without: in 24 blocks the second explodes with skips, the signal of the "
    "first vanishes without, and it stays at chance in its task; the paper does not say what it did"
)


@dataclass(frozen=True)
class Film:
    """Networks after training, and the score matrices of the first on the way, (L, L) each, by epoch."""

    name: str
    networks: Networks
    scores: Mapping[int, Tensor]

    def mean(self, figure: str) -> float:
        """Return the mean of a figure of the pairing after training over all networks."""
        pairings = [pairing(network.blocks) for network in self.networks]
        return float(np.mean([getattr(found, figure) for found in pairings]))

    @property
    def negative(self) -> float:
        """The share of blocks with a negative trace."""
        return float(np.mean([pairing(network.blocks).signs < 0 for network in self.networks]))


def film(cache: Cache, name: str, plan: Course) -> Film:
    """Return a training, filmed now or before."""

    def made() -> dict[str, Any]:
        epochs = np.linspace(0, plan.schedule.epochs, MOMENTS).round().astype(int).tolist()
        scores: dict[int, Tensor] = {}

        def step(number: int, networks: Networks) -> None:
            epoch, within = divmod(number, plan.steps)
            if not within and epoch in epochs:
                scores[epoch] = torch.from_numpy(pairing(networks[0].blocks).scores)

        networks = plan.run(step)
        scores[plan.schedule.epochs] = torch.from_numpy(pairing(networks[0].blocks).scores)
        return {"weights": dict(networks.weights), "scores": scores}

    kept = cache.kept("films", [VERSION, plan, MOMENTS], made)
    return Film(name, Networks(plan.shape, kept["weights"]), kept["scores"])


def films(bench: Bench) -> tuple[Film, Film]:
    """Return the network with skips and the one without, after the same schedule; a stronger decay kills the second."""
    residual = milder(bench, course(bench, seeds=bench.sized((0,), (0, 1, 2))))
    plain = replace(residual, shape=replace(residual.shape, skip=False), schemes=("kaiming-normal",))
    return film(bench.cache, "ResNet", residual), film(bench.cache, "PlainNet", plain)


def rows(bench: Bench) -> Sequence[Row]:
    """Return what both find and how well they learned, and draw their score matrices through training."""
    both = films(bench)
    bench.draw("hero-b", drawn(both))
    found = []
    for film, paper in zip(both, (1.0, 0.03), strict=True):
        loss, right = (float(figure.mean()) for figure in held_out(film.networks))
        found += [
            Row(f"b, {film.name}: pair accuracy", paper, film.mean("accuracy"), CHANCE),
            Row(f"b, {film.name}: AUC", None, film.mean("auc"), "in figures/hero-b.svg"),
            Row(f"b, {film.name}: mean s of a block", None, film.mean("concentration")),
            Row(f"b, {film.name}: share of negative traces", None, film.negative, SIGN),
            Row(f"b, {film.name}: held-out loss", None, loss, "the paper: similar loss, without a figure"),
            Row(f"b, {film.name}: told right", None, right, f"digits held out; {BEGINNING}"),
        ]
    return found


def drawn(both: Sequence[Film]) -> Figure:
    """Draw the score matrices, one network in each row."""
    figure, axes = panels(MOMENTS, len(both), size=(2.5, 2.3))
    most = max(float(scores.max()) for film in both for scores in film.scores.values())
    moments = [(film.name, epoch, scores) for film in both for epoch, scores in film.scores.items()]
    for panel, (name, epoch, scores) in zip(axes, moments, strict=True):
        matrix(panel, scores.numpy(), f"{name}, epoch {epoch}", most)
    return figure


def holds(rows: Mapping[str, Row]) -> None:
    """With skips the blocks find their partners, without them they do not, though the network has learned."""
    residual, plain = (rows[f"b, {name}: pair accuracy"].number for name in ("ResNet", "PlainNet"))
    claim(residual >= 0.9, f"with skips {residual:.0%} of the pairs are found")
    claim(plain <= 0.25, f"without skips {plain:.0%} of the pairs are found")
    learned, best = (rows[f"b, {name}: told right"].number for name in ("PlainNet", "ResNet"))
    claim(learned > best / 2, f"without skips only {learned:.0%} of the pictures are told right, so little was learned")


EXPERIMENTS = (Experiment("fig:hero", "b: score matrices through training, with and without skips", rows, holds),)
