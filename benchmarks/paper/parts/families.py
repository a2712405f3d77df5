"""Families of residual MLPs: a reference, what became of it, and models that only do the same."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.models import Networks, Shape, each_matrix, initial, joined, noisy, pruned, quantized
from benchmarks.paper.parts.training import Schedule, Task, soft_targets, train

VERSION = 1  # raised when the code below, of the models or of the training comes to mean something else


@dataclass(frozen=True)
class Edits:
    """How strong the edits are that need no training; one model for each."""

    noises: Sequence[float] = (0.01, 0.03, 0.06, 0.1, 0.15)
    prunings: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.85)
    levels: Sequence[int] = (16, 32, 64, 128, 256)


EDITS, TRAINING, TUNING, DISTILLATION = Edits(), Schedule(120), Schedule(30, rate=3e-4), Schedule(60)


@dataclass(frozen=True)
class Plan:
    """How a family is made; the seed of the reference fixes all others."""

    shape: Shape
    samples: int = 1024
    schedule: Schedule = TRAINING
    tuning: Schedule = TUNING  # a third of the rate, as the paper has it for GPT-2
    distillation: Schedule = DISTILLATION
    tuned: int = 5  # fine-tuned models on the same task, and as many on another one
    edits: Edits = EDITS
    independent: int = 15
    other_task: int = 5
    untrained: int = 5
    students: int = 3

    def task(self, number: int) -> Task:
        """Return a task by number; a family's own has that of its reference."""
        return Task(seed=number, samples=self.samples, inputs=self.shape.inputs, outputs=self.shape.outputs)


class Pair(NamedTuple):
    """A reference beside one of its suspects."""

    kind: str
    related: bool
    suspect: Networks


@dataclass(frozen=True)
class Family:
    """One reference and the suspects of every kind, those of a kind side by side."""

    plan: Plan
    root: int
    reference: Networks
    related: Mapping[str, Networks]
    unrelated: Mapping[str, Networks]

    @property
    def task(self) -> Task:
        """What the reference has learned."""
        return self.plan.task(self.root)

    @property
    def pairs(self) -> Iterator[Pair]:
        for related, kinds in ((True, self.related), (False, self.unrelated)):
            for kind, networks in kinds.items():
                yield from (Pair(kind, related, suspect) for suspect in networks)


def family(cache: Cache, plan: Plan, root: int) -> Family:
    """Return a family, trained now or before."""
    reference, related, unrelated = _trained(cache, plan, root)
    related |= {
        "noise": variants(reference, plan.edits.noises, noise(seed(root, 9))),
        "pruned": variants(reference, plan.edits.prunings, pruned),
        "quantized": variants(reference, plan.edits.levels, quantized),
    }
    if plan.untrained:
        chosen = [seed(root, 8) + number for number in range(plan.untrained)]
        unrelated["untrained"] = initial(plan.shape, chosen)
    return Family(plan, root, reference, related, unrelated)


def seed(root: int, kind: int) -> int:
    """Return the first of a thousand seeds that only models of one kind in one family use."""
    return 10_000 * (root + 1) + 1000 * kind


@dataclass(frozen=True)
class Trainer:
    """Trains the models of one family, or finds them trained."""

    cache: Cache
    plan: Plan
    root: int

    def fresh(self, kind: int, count: int, targets: Tensor, schedule: Schedule) -> Networks:
        """Return models from initial weights of their own."""

        def start(seeds: Sequence[int]) -> Networks:
            return initial(self.plan.shape, seeds)

        return self._kept(kind, count, start, targets, schedule)

    def tuned(self, kind: int, reference: Networks, targets: Tensor) -> Networks:
        """Return models that go on from the reference."""

        def start(seeds: Sequence[int]) -> Networks:
            return reference.repeated(len(seeds))

        return self._kept(kind, self.plan.tuned, start, targets, self.plan.tuning)

    def _kept(
        self, kind: int, count: int, start: Callable[[Sequence[int]], Networks], targets: Tensor, schedule: Schedule
    ) -> Networks:
        plan, seeds = self.plan, [seed(self.root, kind) + number for number in range(count)]
        depends = [VERSION, plan.shape, plan.samples, plan.schedule, schedule, seeds]

        def make() -> dict[str, Tensor]:
            inputs, _ = plan.task(self.root).data()
            return dict(train(start(seeds), (inputs, targets), schedule, seeds).weights)

        return Networks(plan.shape, self.cache.kept("mlp", depends, make))


Kinds = dict[str, Networks]


def _trained(cache: Cache, plan: Plan, root: int) -> tuple[Networks, Kinds, Kinds]:
    """Return the reference and all that training makes besides, related and unrelated."""
    inputs, targets = plan.task(root).data()
    trainer = Trainer(cache, plan, root)
    reference = trainer.fresh(0, 1, targets, plan.schedule)
    related = {
        "fine-tuned": trainer.tuned(1, reference, targets),
        "fine-tuned to another target": trainer.tuned(2, reference, plan.task(200 + root).function(inputs)),
    }
    taught = soft_targets(reference, inputs, targets)
    unrelated = {
        "independent": trainer.fresh(3, plan.independent, targets, plan.schedule),
        "distilled": trainer.fresh(4, plan.students, taught, plan.distillation),
    }
    if plan.other_task:
        tasks = [plan.task(1000 * (root + 1) + number) for number in range(plan.other_task)]
        others = torch.stack([task.function(inputs) for task in tasks])
        unrelated["independent, another task"] = trainer.fresh(5, plan.other_task, others, plan.schedule)
    return reference, related, unrelated


def noise(seed: int) -> Callable[[Tensor, float], Tensor]:
    """Return a way to add noise of a relative σ to a matrix, other noise every time."""
    random = torch.Generator().manual_seed(seed)
    return lambda matrix, relative: noisy(matrix, relative, random)


def variants(reference: Networks, strengths: Sequence[float], change: Callable[[Tensor, float], Tensor]) -> Networks:
    """Return the reference changed by every strength."""

    def changed(by: float) -> Networks:
        return each_matrix(reference, lambda matrix: change(matrix, by))

    return joined([changed(by) for by in strengths])
