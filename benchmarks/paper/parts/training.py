"""Training of residual MLPs: synthetic targets, fine-tuning, distillation. The same seeds give the same weights.

The paper says how many epochs and little else; what was chosen here stands in `Schedule` and `Task`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.paper.parts.models import Networks, outputs

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
    optimizer: str = "Adam"
    """Its name in torch.optim."""


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
    """Return the mean squared error of every network."""
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
