"""`ours:reshaped`: a Llama narrowed, pruned, widened, cut, repeated or stacked, as it is and retrained.

Is it found, and is it said which layers come from where?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.cache import digest
from benchmarks.paper.parts.language import Model, Schedule, next_token, train
from benchmarks.paper.parts.pools import LLAMA
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.rated import SHARED, verdict
from benchmarks.paper.parts.reshaping import (
    Reshape,
    fewer_units,
    more_units,
    narrowed,
    one_after_the_other,
    stacked,
    twice_as_wide,
    with_layers,
)
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.text import Corpus, documentation
from hf_lineage.evidence.evaluate import CHANCE
from hf_lineage.evidence.inherited import Inherited
from hf_lineage.evidence.verdict import Verdict

VERSION = 1
"""Raised when a shape or its training comes to mean something else."""
TUNED = "fern/llama-finetune-a", "fern/llama-finetune-b"
OTHER = "otter/llama-independent"
RIGHT = 0.95
"""The least share of layers of which the origin is to be right."""
LAYERS = range(6)
UPSCALED = (0, 1, 2, 3, 4, 2, 3, 4, 5)
REPEATED = (0, 1, 2, 2, 3, 5)


@dataclass(frozen=True)
class Shape:
    """What was done to a model, and from which layer of the base each of its layers comes, by their numbers."""

    name: str
    change: Reshape
    origins: Mapping[int, int]
    of: str = LLAMA


def on(other: str, lower: Sequence[int], upper: Sequence[int]) -> Reshape:
    """Return what puts some layers of another model on some of a model's own."""
    return lambda model: stacked(model, loaded(HUB / other), lower, upper)


SAME = {number: number for number in LAYERS}
HALVES = dict(enumerate((0, 1, 2, 3, 2, 3, 4, 5)))
SHAPES = (
    Shape("narrowed by 1/8", narrowed(1 / 8), SAME),
    Shape("narrowed by 1/4", narrowed(1 / 4), SAME),
    Shape("narrowed by 1/2", narrowed(1 / 2), SAME),
    Shape("narrowed by 1/2, hidden units pruned to 60 %", one_after_the_other(narrowed(1 / 2), fewer_units(0.6)), SAME),
    Shape("hidden units half as many again", more_units, SAME),
    Shape("stream twice as wide", twice_as_wide, SAME),
    Shape("a third of the layers dropped", with_layers(0, 1, 4, 5), dict(enumerate((0, 1, 4, 5)))),
    Shape("half of the layers dropped", with_layers(0, 2, 5), dict(enumerate((0, 2, 5)))),
    Shape("6 layers up-scaled to 9", with_layers(*UPSCALED), dict(enumerate(UPSCALED))),
    Shape("a layer repeated in place of another", with_layers(*REPEATED), dict(enumerate(REPEATED))),
    Shape("two fine-tunes stacked", on(TUNED[1], range(4), range(2, 6)), HALVES, TUNED[0]),
    Shape("an independent model stacked on it", on(OTHER, LAYERS, LAYERS), SAME),
)
STRANGERS = (
    Shape("narrowed by 1/4", narrowed(1 / 4), {}, OTHER),
    Shape("6 layers up-scaled to 9", with_layers(*UPSCALED), {}, OTHER),
)
"""Of an independent model: nothing is to be found."""
COLUMNS = ("What was done", "Loss", "Units inherited", "Layers whose origin is right", "Verdict")
FEW = ("narrowed by 1/8", "6 layers up-scaled to 9")


def loaded(folder: Path) -> Model:
    """Return a saved model in float32."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


def rows(bench: Bench) -> Sequence[Row]:
    """Return by shape, as it is and retrained, the verdict, the share inherited, the layers right, the loss."""
    corpus = documentation()
    schedule = Schedule(bench.sized(10, 200, 200), 1e-3, bench.sized(4, 16, 16), decay=0.1)
    shapes = [shape for shape in SHAPES if bench.scale != "smoke" or shape.name in FEW]
    found = [Row("base: loss", None, loss(loaded(HUB / LLAMA), corpus), "nats a byte of held-out text")]
    for shape in shapes:
        for steps in (0, schedule.steps):
            folder = made(bench, shape, steps, corpus, schedule)
            state = f"retrained for {steps} steps" if steps else "as it is"
            found += figures(f"{shape.name}, {state}", shape, verdict(HUB / LLAMA, folder), folder, corpus)
    for shape in STRANGERS:
        said = verdict(HUB / LLAMA, made(bench, shape, 0, corpus, schedule))
        found.append(Row(f"independent, {shape.name}: verdict", None, said.label, said.reason))
    return found


def made(bench: Bench, shape: Shape, steps: int, corpus: Corpus, schedule: Schedule) -> Path:
    """Return a model of a shape, retrained where there are steps."""
    depends = [VERSION, shape.name, shape.of, digest(HUB / shape.of), steps, schedule]

    @torch.no_grad()
    def reshaped() -> Model:
        torch.manual_seed(0)
        return shape.change(loaded(HUB / shape.of))

    def make(into: Path) -> None:
        model = reshaped()
        (train(model, corpus, schedule, seed=5) if steps else model).save_pretrained(into)

    return bench.cache.kept_folder("reshaped", depends, make)


@torch.no_grad()
def loss(model: Model, corpus: Corpus) -> float:
    """Return the mean loss on held-out text."""
    return float(next_token(model, corpus.windows(32, model.config.max_position_embeddings)))


def figures(where: str, shape: Shape, said: Verdict, folder: Path, corpus: Corpus) -> Iterator[Row]:
    """Yield the rows of one model."""
    origins, share = origins_of(said)
    right = sum(origins.get(number) == origin for number, origin in shape.origins.items())
    wrong = len(set(origins) - set(shape.origins))
    note = f"{wrong} more said to be inherited" if wrong else ""
    yield Row(f"{where}: verdict", None, said.label, said.reason)
    yield Row(f"{where}: share inherited", None, share)
    yield Row(f"{where}: layers right", None, (right - wrong) / len(shape.origins), note)
    yield Row(f"{where}: loss", None, loss(loaded(folder), corpus))


def origins_of(said: Verdict) -> tuple[Mapping[int, int], float]:
    """Return which layer of the base each layer comes from of which more than CHANCE is, and the share inherited."""
    inherited: Inherited | None
    if said.framed is not None:
        inherited, (_, numbers) = said.framed.inherited, said.framed.layers
        partners = said.framed.partners
    else:
        measured = min(said.evidence.values(), key=lambda path: path.inherited.share if path.inherited else 0.0)
        base, numbers = measured.layers
        inherited = measured.inherited
        partners = tuple(base[row] for row in inherited.partners) if inherited else ()
    if inherited is None:
        return {}, 0.0
    return {
        number: partner
        for number, partner, share in zip(numbers, partners, inherited.by_layer, strict=True)
        if share > CHANCE
    }, inherited.share


def holds(rows: Mapping[str, Row]) -> None:
    """Every shape is related, its layers are where they come from, and an independent model is neither."""
    for name, row in rows.items():
        where, _, what = name.partition(": ")
        if what == "verdict":
            related = str(row.ours).startswith(SHARED)
            claim(related != where.startswith("independent"), f"{where}: the verdict is {row.ours}")
    shares = [row.number for name, row in rows.items() if name.endswith(": layers right")]
    least = sum(shares) / len(shares)
    claim(least >= RIGHT, f"the origin of {least:.0%} of the layers is right")


def summary(rows: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for name in [row.partition(": ")[0] for row in rows if row.endswith(": share inherited")]:
        share, right = (f"{rows[f'{name}: {what}'].number:.0%}" for what in ("share inherited", "layers right"))
        yield name, f"{rows[f'{name}: loss'].number:.2f}", share, right, str(rows[f"{name}: verdict"].ours)


EXPERIMENTS = (Experiment("ours:reshaped", "other sizes than the base's", rows, holds),)
