"""Deep residual MLPs that learn from pictures, and the pairing experiment: does W_out of a block find its W_in?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.models import Networks, Shape, initial, joined, outputs
from benchmarks.paper.parts.scores import Block, paired
from benchmarks.paper.parts.training import Schedule, Step, entropy, train
from benchmarks.paper.parts.vision import digits
from hf_lineage.checking.inspect import Pairing

VERSION = 1
"""Raised when the code below, of the models or of the training comes to mean something else."""


@torch.no_grad()
def pairing(blocks: Sequence[Block]) -> Pairing:
    """Return S_ij = |tr(W_out,i W_in,j)| / ‖W_out,i W_in,j‖_F over all pairs of blocks, and what follows from it."""
    w_in, w_out = (torch.stack(side).double() for side in zip(*blocks, strict=True))
    traces = w_out.flatten(1) @ w_in.mT.flatten(1).mT
    scores = (traces.abs() / norms(w_in, w_out)).numpy()
    return paired(scores, traces.diagonal().sign().numpy())


def norms(w_in: Tensor, w_out: Tensor) -> Tensor:
    """Return ‖W_out,i W_in,j‖_F (L, L), by way of the Gram matrices: ‖A B‖² = ⟨AᵀA, B Bᵀ⟩."""
    read, written = w_in @ w_in.mT, w_out.mT @ w_out
    return (written.flatten(1) @ read.flatten(1).mT).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Course:
    """How deep residual MLPs learn pictures, with what the paper leaves open: AdamW, small batches, strong decay.

    Over the steps decay leaves e^(-rate · decay · steps) of the initial weights: e^(-14) in 80 epochs. That share, not
    the number of epochs, decides how much of a product is what training made.
    """

    shape: Shape
    schedule: Schedule
    schemes: Sequence[str] = ("xavier-normal",)
    seeds: Sequence[int] = (0,)
    """Of the networks of each scheme; all are trained side by side."""

    @property
    def steps(self) -> int:
        """How many updates an epoch has."""
        return math.ceil(len(digits().training.classes) / self.schedule.batch)

    def start(self) -> Networks:
        """Return the untrained networks, those of a scheme beside each other."""
        return joined([initial(self.shape, self.seeds, scheme) for scheme in self.schemes])

    def run(self, step: Step | None = None) -> Networks:
        """Return the trained networks."""
        data = digits().training
        orders = [*self.seeds] * len(self.schemes)
        return train(self.start(), (data.flat, data.targets), self.schedule, orders, step, entropy)

    def trained(self, cache: Cache) -> Networks:
        """Return the trained networks, trained now or before."""
        weights = cache.kept("courses", [VERSION, self], lambda: dict(self.run().weights))
        return Networks(self.shape, weights)


DEEP = Course(
    Shape(inputs=64, width=48, hidden=48, layers=24, outputs=10),
    Schedule(80, rate=2e-3, batch=16, decay=1.0, optimizer="AdamW"),
)
MILDER: Mapping[str, Any] = {"rate": 1e-3, "decay": 0.2, "epochs": 50}
"""A schedule that leaves e^(-0.9) of the initial weights, and does not kill networks without skips."""
SHORT: Mapping[str, Any] = {"rate": 3e-3, "decay": 0.4, "epochs": 15}
"""The same for a small one."""
SMOKE = Course(
    Shape(inputs=64, width=24, hidden=24, layers=8, outputs=10),
    Schedule(8, rate=4e-3, batch=16, decay=1.0, optimizer="AdamW"),
)
"""A small one, which shows the same."""


def course(bench: Bench, **changes: Any) -> Course:
    """Return the course of the size asked for, with some fields changed."""
    found, _ = _size(bench)
    return replace(found, **changes)


def milder(bench: Bench, plan: Course) -> Course:
    """Return a course with weaker decay, of the size asked for."""
    _, changes = _size(bench)
    return replace(plan, schedule=replace(plan.schedule, **changes))


def _size(bench: Bench) -> tuple[Course, Mapping[str, Any]]:
    """A course, and what makes it milder."""
    return bench.sized((SMOKE, SHORT), (DEEP, MILDER))


@torch.no_grad()
def held_out(networks: Networks) -> tuple[Tensor, Tensor]:
    """Return every network's cross-entropy and share of right answers on pictures not seen, (n,) each."""
    data = digits().held_out
    said = outputs(networks, data.flat)
    return entropy(said, data.targets), (said.argmax(dim=2) == data.classes).float().mean(dim=1)
