"""Line-ups: references beside what comes from them and what does not, and the disguises that suspects may wear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.disguises import EDITS, Edit
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judging import RELATED, UNRELATED
from benchmarks.paper.parts.pools import LLAMA, LLAMAS
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.steps import STEPS, recipes
from hf_lineage import Recipe

Pair = tuple[Path, Path]


@dataclass(frozen=True)
class Family:
    """A line-up of models of one architecture."""

    name: str
    descendants: Sequence[Pair]
    strangers: Sequence[Pair]
    edits: Sequence[Edit] = ()
    """What is done to the suspects."""
    steps: Sequence[str] = tuple(STEPS)
    tokens: Tensor | None = None
    """Held-out text (b, t) on which an edit may not move a logit."""

    def looked_at(self, edit: Edit) -> dict[str, Recipe]:
        """Return the recipes that an edit is seen through, by name; `paper` and `robust` are always among them."""
        return recipes(
            [step for step in self.steps if step in edit.steps], removed=bool(edit.changes) or not self.edits
        )


def language_models(bench: Bench) -> tuple[Family, Family]:
    """Return the Llamas of the example Hub and a GPT-2 of the paper's benchmark; smoke has one suspect of each kind."""
    benchmark = Benchmark.of(bench)
    tokens, few = benchmark.corpus.windows(4, 32), bench.sized(1, None, None)

    def beside(reference: Path, suspects: Sequence[Path]) -> list[Pair]:
        return [(reference, suspect) for suspect in suspects][:few]

    related, strangers = (beside(HUB / LLAMA, [HUB / name for name in LLAMAS[kind]]) for kind in (RELATED, UNRELATED))
    number, *_ = benchmark.plan.test
    root, student = benchmark.root(number), benchmark.student(number)
    others = [benchmark.root(other) for other in benchmark.everything if other != number]
    descendants = beside(root, list(benchmark.descendants(number).values()))
    independent = beside(root, [*others, student])
    return (
        Family("Llama", related, strangers, EDITS["llama"], ("gains", "cap", "ones"), tokens),
        Family("GPT-2", descendants, independent, EDITS["gpt2"], tuple(STEPS), tokens),
    )
