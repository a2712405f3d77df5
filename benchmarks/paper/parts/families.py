"""Families of residual MLPs: a reference, what became of it, and models that only do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.models import Networks, Shape, initial, joined
from benchmarks.paper.parts.training import Schedule, Task, soft_targets, train
from benchmarks.paper.parts.transformations import each_matrix, noisy, pruned, quantized

VERSION = 1
"""Raised when the code below, of the models or of the training comes to mean something else."""


@dataclass(frozen=True)
class Edits:
    """How strong the edits are that need no training; one model for each."""

    noises: Sequence[float] = (0.01, 0.03, 0.06, 0.1, 0.15)
    prunings: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.85)
    levels: Sequence[int] = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Plan:
    """How a family is made; the seed of the reference fixes all others."""

    shape: Shape
    samples: int = 1024
    epochs: int = 120
    tuning_epochs: int = 30
    student_epochs: int = 60
    tuned: int = 5
    """Fine-tuned models on the same task, and as many on another one."""
    edits: Edits = Edits()
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
        """Every suspect, the related ones first."""
        for related, kinds in ((True, self.related), (False, self.unrelated)):
            for kind, networks in kinds.items():
                yield from (Pair(kind, related, suspect) for suspect in networks)


def family(cache: Cache, plan: Plan, root: int) -> Family:
    """Return a family, trained now or before."""
    depends = [VERSION, replace(plan, edits=Edits()), root]
    stored = cache.kept(
        "families", depends, lambda: {kind: dict(n.weights) for kind, n in _trained(plan, root).items()}
    )
    trained = {kind: Networks(plan.shape, weights) for kind, weights in stored.items()}
    reference = trained["reference"]
    related = {kind: networks for kind, networks in trained.items() if kind.startswith("fine-tuned")}
    related |= {
        "noise": variants(reference, plan.edits.noises, noise(seed(root, 9))),
        "pruned": variants(reference, plan.edits.prunings, pruned),
        "quantized": variants(reference, plan.edits.levels, quantized),
    }
    unrelated = {kind: networks for kind, networks in trained.items() if kind not in {"reference", *related}}
    if plan.untrained:
        chosen = [seed(root, 8) + number for number in range(plan.untrained)]
        unrelated["untrained"] = initial(plan.shape, chosen)
    return Family(plan, root, reference, related, unrelated)


def seed(root: int, kind: int) -> int:
    """Return the first of a thousand seeds that only models of one kind in one family use."""
    return 10_000 * (root + 1) + 1000 * kind


def _trained(plan: Plan, root: int) -> dict[str, Networks]:
    """Return the reference and all that training makes besides, by kind."""
    inputs, targets = plan.task(root).data()

    def fresh(kind: int, targets: Tensor, count: int, epochs: int) -> Networks:
        seeds = [seed(root, kind) + number for number in range(count)]
        return train(initial(plan.shape, seeds), inputs, targets, Schedule(epochs), seeds)

    def tuned(kind: int, targets: Tensor) -> Networks:
        seeds = [seed(root, kind) + number for number in range(plan.tuned)]
        return train(reference.repeated(plan.tuned), inputs, targets, Schedule(plan.tuning_epochs), seeds)

    reference = fresh(0, targets, 1, plan.epochs)
    found = {
        "reference": reference,
        "fine-tuned": tuned(1, targets),
        "fine-tuned to another target": tuned(2, plan.task(200 + root).function(inputs)),
        "independent": fresh(3, targets, plan.independent, plan.epochs),
        "distilled": fresh(4, soft_targets(reference, inputs, targets), plan.students, plan.student_epochs),
    }
    if plan.other_task:
        tasks = [plan.task(1000 * (root + 1) + number) for number in range(plan.other_task)]
        others = torch.stack([task.function(inputs) for task in tasks])
        found["independent, another task"] = fresh(5, others, plan.other_task, plan.epochs)
    return found


def noise(seed: int) -> Callable[[Tensor, float], Tensor]:
    """Return a way to add noise of a relative σ to a matrix, other noise every time."""
    random = torch.Generator().manual_seed(seed)
    return lambda matrix, relative: noisy(matrix, relative, random)


def variants(reference: Networks, strengths: Sequence[float], change: Callable[[Tensor, float], Tensor]) -> Networks:
    """Return the reference changed by every strength."""
    return joined([each_matrix(reference, lambda matrix, by=by: change(matrix, by)) for by in strengths])  # type: ignore[misc]
