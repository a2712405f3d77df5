"""The GPT-2-Small-Lite benchmark: roots from seeds of their own, what became of each, and students that only imitate.

Every model is a checkpoint as transformers saves them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Self

from transformers import GPT2LMHeadModel
from transformers.utils import logging

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.language import (
    Corpus,
    Likeness,
    Model,
    Schedule,
    Shape,
    distillation,
    documentation,
    edited,
    fresh,
    likeness,
    lora_merged,
    permuted,
    train,
)
from benchmarks.paper.parts.models import pruned, quantized

VERSION = 2  # raised when the code below or that of the language models comes to mean something else


@dataclass(frozen=True)
class Plan:
    """How the benchmark is made. Roots see the text for three epochs, descendants for one, students for two."""

    shape: Shape
    root: Schedule
    tuning_rate: float = 1e-4
    roots: int = 8
    test: tuple[int, ...] = (5, 6, 7)  # roots 0 and 1 are for calibration, 2 to 4 for development
    held_out: int = 64  # windows of the text that nobody was trained on

    @property
    def tuning(self) -> Schedule:
        return replace(self.root, steps=self.root.steps // 3, rate=self.tuning_rate)

    @property
    def distilling(self) -> Schedule:
        return replace(self.root, steps=2 * self.root.steps // 3)


LITE = Plan(Shape(6, 64, 4, 64, initial=0.1), Schedule(2000, 5e-3, 16, decay=0.5), tuning_rate=5e-4)
"""Enough steps and decay for traces to pair the layers; after 300 steps lineage scores separate as well."""
SMOKE = Plan(
    Shape(3, 32, 2, 32, initial=0.1), Schedule(90, 1e-2, 8), tuning_rate=1e-3, roots=3, test=(1, 2), held_out=16
)


class Pair(NamedTuple):
    """A root beside one of its suspects."""

    kind: str
    related: bool
    root: int
    reference: Path
    suspect: Path


Make = Callable[[], Model]


@dataclass(frozen=True)
class Benchmark:
    """The models, each made when it is first asked for."""

    plan: Plan
    corpus: Corpus
    cache: Cache

    @classmethod
    def of(cls, bench: Bench) -> Self:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        return cls(bench.sized(SMOKE, LITE), documentation(), bench.cache)

    def root(self, number: int) -> Path:
        return self._kept("root", number, lambda: self._trained(fresh(self.plan.shape, number), self.plan.root, number))

    def untrained(self, number: int) -> Path:
        return self._kept("untrained", number, lambda: fresh(self.plan.shape, number))

    def student(self, number: int) -> Path:
        """Return a model of fresh weights that has learned from a root's answers."""

        def made() -> Model:
            loss = distillation(load(self.root(number)))
            seed = 300 + number
            return train(fresh(self.plan.shape, seed), self.corpus, self.plan.distilling, seed, loss)

        return self._kept("student", number, made)

    def descendants(self, number: int) -> dict[str, Path]:
        """Return the seven models that inherit a root's weights, by what was done to them."""
        made: dict[str, Callable[[Model], Model]] = {
            "fine-tuned": lambda model: self._trained(model, self.plan.tuning, 100 + number),
            "LoRA merged": lambda model: lora_merged(model, self.corpus, self.plan.tuning, 200 + number),
        }
        for share in (30, 50, 70):
            made[f"pruned {share} %"] = partial(edited, change=partial(pruned, share=share / 100))
        for levels in (256, 64):
            made[f"quantized {levels}"] = partial(edited, change=partial(quantized, levels=levels))

        def inherited(make: Callable[[Model], Model]) -> Model:
            return make(load(self.root(number)))

        return {kind: self._kept(kind, number, partial(inherited, make)) for kind, make in made.items()}

    def laundered(self, pair: Pair) -> Path:
        """Return a suspect with the hidden units of its MLPs in another order."""
        seed, windows = 400 + pair.root, self.corpus.windows(4, self.plan.shape.context)
        return self._kept(f"{pair.kind}, laundered", pair.root, lambda: permuted(load(pair.suspect), seed, windows))

    def pairs(self, roots: tuple[int, ...] | None = None) -> Iterator[Pair]:
        """Yield every root, or those for the test, beside its descendants, its student and all other roots."""
        for number in self.plan.test if roots is None else roots:
            reference = self.root(number)
            for kind, suspect in self.descendants(number).items():
                yield Pair(kind, True, number, reference, suspect)
            yield Pair("distilled student", False, number, reference, self.student(number))
            for other in set(range(self.plan.roots)) - {number}:
                yield Pair("independent", False, number, reference, self.root(other))

    def likeness(self, teacher: Path, student: Path) -> Likeness:
        """Return how alike two models behave on held-out text."""
        plan = self.plan
        windows = self.corpus.windows(plan.held_out, plan.shape.context)
        found: Mapping[str, float] = self.cache.kept(
            "gpt2-likeness",
            [VERSION, teacher.name, student.name, plan.held_out],
            lambda: asdict(likeness(load(teacher), load(student), windows)),
        )
        return Likeness(**found)

    @cached_property
    def everything(self) -> tuple[int, ...]:
        return tuple(range(self.plan.roots))

    def _trained(self, model: Model, schedule: Schedule, seed: int) -> Model:
        return train(model, self.corpus, schedule, seed)

    def _kept(self, what: str, number: int, make: Make) -> Path:
        depends = [VERSION, self.plan, self.corpus.name, what, number]
        return self.cache.kept_folder("gpt2", depends, lambda folder: make().save_pretrained(folder))


def load(folder: Path) -> Model:
    return GPT2LMHeadModel.from_pretrained(folder, local_files_only=True).eval()
