"""Training of residual MLPs: synthetic targets, fine-tuning, distillation, the digits; same seeds give same weights.

The paper says how many epochs and little else; what was chosen here stands in `Schedule`, `Task` and `Course`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.models import Networks, Shape, initial, joined, outputs
from benchmarks.paper.parts.scores import Block, paired
from benchmarks.paper.parts.vision import digits
from hf_lineage.checking.inspect import Pairing

Gradients = dict[str, Tensor]
Step = Callable[[int, Networks], None]
"""Called with the number of the step before its update; the gradients are in the weights, and may be changed there."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of every network (n,), given what each says (n, b, out) and should (n, b, out)."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: a constant rate, batches in an order of their own for every seed."""

    epochs: int
    rate: float = 1e-3
    batch: int = 128
    decay: float = 1e-3
    """In the gradient, as Adam has it: enough to make the weights more than the initial ones with a correction."""
    optimizer: str = "Adam"  # its name in torch.optim


@dataclass(frozen=True)
class Task:
    """A synthetic regression task: random sums of waves Σ c_k sin(w_k·x + b_k), of variance about 1.

    The seed fixes the functions and the data. Inputs are normal.
    """

    seed: int = 0
    samples: int = 1024
    inputs: int = 16
    outputs: int = 1
    waves: int = 8
    frequency: float = 1.0

    def data(self, samples: int | None = None, stream: int = 0) -> tuple[Tensor, Tensor]:
        """Return inputs (b, in) and targets (b, out); another stream gives other data of the same function."""
        random = torch.Generator().manual_seed(1_000_003 * (stream + 1) + self.seed)
        inputs = torch.randn(samples or self.samples, self.inputs, generator=random)
        return inputs, self.function(inputs)

    def function(self, inputs: Tensor) -> Tensor:
        """Return the targets of some inputs (b, out)."""
        random = torch.Generator().manual_seed(self.seed)
        directions = torch.randn(self.inputs, self.waves, generator=random) * self.frequency / self.inputs**0.5
        phases = 2 * math.pi * torch.rand(self.waves, generator=random)
        mixing = torch.randn(self.waves, self.outputs, generator=random)
        waves = torch.sin(inputs @ directions + phases)
        targets: Tensor = waves @ mixing * (2 / self.waves) ** 0.5
        return targets


def squared(said: Tensor, targets: Tensor) -> Tensor:
    return (said - targets).square().mean(dim=(1, 2))


def entropy(said: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of every network; targets are one-hot."""
    return -(functional.log_softmax(said, dim=2) * targets).sum(dim=2).mean(dim=1)


def train(
    networks: Networks,
    data: tuple[Tensor, Tensor],
    schedule: Schedule,
    seeds: Sequence[int],
    step: Step | None = None,
    loss: Loss = squared,
) -> Networks:
    """Return the networks after training, each with an order of the data of its own.

    Data are inputs (b, in) and targets, common (b, out) or one for each network (n, b, out); an order is fixed by the
    network's seed alone.
    """
    inputs, targets = data
    trained = networks.changed(lambda tensor: tensor.detach().clone().requires_grad_())
    method = getattr(torch.optim, schedule.optimizer)
    optimizer = method(list(trained.weights.values()), lr=schedule.rate, weight_decay=schedule.decay, foreach=True)
    targets = targets.expand(len(networks), -1, -1)
    rows = torch.arange(len(networks))[:, None]
    orders = [torch.Generator().manual_seed(7_654_321 + seed) for seed in seeds]
    number = 0
    for _ in range(schedule.epochs):
        shuffled = torch.stack([torch.randperm(len(inputs), generator=order) for order in orders])
        for chosen in torch.split(shuffled, schedule.batch, dim=1):
            optimizer.zero_grad()
            torch.autograd.backward(loss(outputs(trained, inputs[chosen]), targets[rows, chosen]).sum())
            if step is not None:
                step(number, trained)
            optimizer.step()
            number += 1
    return trained.changed(torch.Tensor.detach)


@torch.no_grad()
def losses(networks: Networks, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of every network (n,)."""
    return squared(outputs(networks, inputs), targets)


@torch.no_grad()
def soft_targets(teacher: Networks, inputs: Tensor, targets: Tensor, share: float = 0.5) -> Tensor:
    """Return what students of a single teacher learn from: `share` parts of the data's targets, the rest its answers.

    The mean squared error to this mixture has the gradient of α MSE(y) + (1 - α) T² MSE(teacher / T, student / T) for
    every temperature T: in regression the temperature of the paper's distillation cancels.
    """
    mixed: Tensor = share * targets + (1 - share) * outputs(teacher, inputs)[0]
    return mixed


VERSION = 1  # raised when the code below, of the models or of the training comes to mean something else


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
    seeds: Sequence[int] = (0,)  # of the networks of each scheme; all are trained side by side

    @property
    def steps(self) -> int:
        """How many updates an epoch has."""
        return math.ceil(len(digits().training.classes) / self.schedule.batch)

    def start(self) -> Networks:
        return joined([initial(self.shape, self.seeds, scheme) for scheme in self.schemes])

    def run(self, step: Step | None = None) -> Networks:
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
SHORT: Mapping[str, Any] = {"rate": 3e-3, "decay": 0.4, "epochs": 15}  # the same for a small one
SMOKE = Course(
    Shape(inputs=64, width=24, hidden=24, layers=8, outputs=10),
    Schedule(8, rate=4e-3, batch=16, decay=1.0, optimizer="AdamW"),
)
"""A small one, which shows the same."""


def course(bench: Bench, **changes: Any) -> Course:
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
