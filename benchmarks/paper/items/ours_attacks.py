"""`ours:attacks`: what an attacker who knows the method does to a Llama, what it costs, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.items.ours_reshaped import loaded, loss, origins_of
from benchmarks.paper.parts import attacking, hiding
from benchmarks.paper.parts.cases import doubles
from benchmarks.paper.parts.disguises import digest
from benchmarks.paper.parts.folders import folder, write_tokenizer
from benchmarks.paper.parts.pools import LLAMA
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.rated import SHARED
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.text import Corpus, documentation
from hf_lineage import Options, compare
from hf_lineage.architecture.paths import ALL
from hf_lineage.checking.stages import judge_models
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import resolve
from hf_lineage.source.model import open_model

VERSION = 1
"""Raised when an attack comes to mean something else."""
Attack = Callable[[Any, Corpus, int], Any]
"""Of a model, text and a number of training steps the model that is released."""
ORDER = torch.randperm(256, generator=torch.Generator().manual_seed(3))
COLUMNS = ("What is done", "Loss", "Score", "Units inherited", "Verdict", "with `--paths all`", "if declared")
VERDICTS = ("verdict", "verdict over all paths", "verdict if declared")


@dataclass(frozen=True)
class Case:
    """One attack."""

    name: str
    attack: Attack
    tokenizer: bool = True
    """Whether the tokenizer beside it says what the tokens are called."""
    renumbered: bool = False


def edit(*names: str) -> Attack:
    """Return edits that keep the function, one after the other."""

    def attack(model: Any, _: Corpus, __: int) -> Any:
        with doubles(), torch.no_grad():
            model = model.double()
            for name in names:
                hiding.LLAMA[name](model)
        return model.float()

    return attack


def trained(seen: attacking.Likeness, price: float = 3.0) -> Attack:
    """Return training against a likeness at a price."""
    return lambda model, corpus, steps: attacking.suppressed(model, corpus, seen, steps, price)


def then(*attacks: Attack) -> Attack:
    """Return several attacks as one."""

    def attack(model: Any, corpus: Corpus, steps: int) -> Any:
        for each in attacks:
            model = each(model, corpus, steps)
        return model

    return attack


def noise(relative: float) -> Attack:
    """Return noise of a relative size."""
    return lambda model, _, __: attacking.noisy(model, relative)


def anew(model: Any, corpus: Corpus, steps: int) -> Any:
    """Train a fresh embedding and unembedding."""
    return attacking.embedded_anew(model, corpus, steps)


def renumbered(model: Any, _: Corpus, __: int) -> Any:
    """Give the tokens other numbers."""
    return attacking.renumbered(model, ORDER)


DEARLY = trained(attacking.of_units, 300.0)
ROTATED, EVERYTHING = edit("stream rotated"), edit("all at once")
CASES = (
    Case("nothing", edit()),
    Case("units split and doubled", edit("units split and doubled")),
    Case("heads reordered and mapped", edit("heads reordered", "heads mapped")),
    Case("identity layers inserted", edit("identity layers inserted")),
    Case("rotated, units reordered, dead units, gains moved", EVERYTHING),
    Case("noise of 10 %", noise(0.1)),
    Case("noise of 30 %", noise(0.3)),
    Case("embedding trained anew", anew),
    Case("rotated, embedding trained anew", then(ROTATED, anew)),
    Case("everything at once, embedding trained anew", then(EVERYTHING, anew)),
    Case("rotated, tokens renumbered", then(ROTATED, renumbered), renumbered=True),
    Case("rotated, tokens renumbered, tokenizer left out", then(ROTATED, renumbered), tokenizer=False),
    Case("trained on, against nothing", trained(attacking.of_mlp, 0.0)),
    Case("trained against one path", trained(attacking.of_mlp)),
    Case("trained against all paths", trained(attacking.of_all_paths)),
    Case("trained against its units", trained(attacking.of_units)),
    Case("trained against its units, rotated", then(trained(attacking.of_units), ROTATED)),
    Case("trained against its units, everything at once", then(trained(attacking.of_units), EVERYTHING)),
    Case("trained against its units, at a hundred times the price", DEARLY),
    Case("the same, everything at once", then(DEARLY, EVERYTHING)),
)
FEW = ("rotated, units reordered, dead units, gains moved", "trained against one path")


def rows(bench: Bench) -> Sequence[Row]:
    """Return by attack the loss, the score, the share inherited, and the verdicts."""
    corpus, base = documentation(), folder(bench.cache, LLAMA)
    found = [Row("an independent model: loss", None, loss(loaded(HUB / "otter/llama-independent"), corpus))]
    for case in CASES:
        if bench.scale != "smoke" or case.name in FEW:
            found += figures(case, base, made(bench, case, corpus), corpus)
    return found


def made(bench: Bench, case: Case, corpus: Corpus) -> Path:
    """Return a released model with what stands beside it."""
    steps = bench.sized(5, 200, 200)

    def make(into: Path) -> None:
        torch.manual_seed(0)
        case.attack(loaded(HUB / LLAMA), corpus, steps).save_pretrained(into)
        if case.tokenizer:
            write_tokenizer(into)
        if case.renumbered:
            attacking.renumber_tokenizer(into, ORDER)

    return bench.cache.kept_folder("attacks", [VERSION, case.name, digest(HUB / LLAMA), steps], make)


def said(base: Path, released: Path, **settings: Any) -> Verdict:
    """Return the verdict on a released model."""
    return compare(str(base), str(released), Options(seed=0, **settings)).rows[0].verdict


def declared(base: Path, released: Path) -> Verdict:
    """Return the verdict of a plain check where the released model itself declares the base."""
    options = Options(seed=0)
    ours, theirs = (open_model(resolve(str(folder)), options) for folder in (base, released))
    return judge_models(ours, theirs, options, True)


def figures(case: Case, base: Path, released: Path, corpus: Corpus) -> Iterator[Row]:
    """Yield the rows of one attack."""
    verdict, everywhere, quick = said(base, released), said(base, released, paths=ALL), declared(base, released)
    measured = min(verdict.evidence.values(), key=lambda path: path.comparison.score)
    model = loaded(released)
    if case.renumbered or not case.tokenizer:
        attacking.renumbered(model, ORDER.argsort())
    yield Row(f"{case.name}: loss", None, loss(model, corpus), "nats a byte of held-out text")
    yield Row(f"{case.name}: score", None, measured.comparison.score, f"p = {measured.p_value:.3g}")
    yield Row(f"{case.name}: units inherited", None, origins_of(verdict)[1])
    yield Row(f"{case.name}: verdict", None, verdict.label, verdict.reason)
    yield Row(f"{case.name}: verdict over all paths", None, everywhere.label, everywhere.reason)
    yield Row(f"{case.name}: verdict if declared", None, quick.label, quick.reason)


def summary(rows: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for name in dict.fromkeys(row.partition(": ")[0] for row in rows if row.endswith(": score")):
        cells = [rows[f"{name}: {what}"] for what in ("loss", "score", "units inherited")]
        words = [
            str(rows[f"{name}: {what}"].ours) for what in ("verdict", "verdict over all paths", "verdict if declared")
        ]
        yield name, f"{cells[0].number:.3f}", f"{cells[1].number:.3f}", f"{cells[2].number:.0%}", *words


FREE = ("units split", "heads reordered", "identity layers", "rotated, units")


def holds(rows: Mapping[str, Row]) -> None:
    """What costs nothing hides nothing; noise and training against one path do not either while all paths are read."""
    base = rows["rotated, units reordered, dead units, gains moved: loss"].number
    for name, row in rows.items():
        if name.endswith(": verdict") and name.startswith(FREE):
            claim(str(row.ours).startswith(SHARED), f"{name.removesuffix(': verdict')}: {row.ours}")
    strangers = rows["an independent model: loss"].number
    claim(base < strangers + 1, f"the model has a loss of {base:.2f} before any attack, another one {strangers:.2f}")


EXPERIMENTS = (Experiment("ours:attacks", "what an attacker can do", rows, holds),)
