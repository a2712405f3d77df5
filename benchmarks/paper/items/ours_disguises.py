"""`ours:disguises`: every edit that leaves a model's function where it was, on every descendant, beside three rivals.

What is not related is disguised as well: nobody is to become related by an edit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.examples import DESCENDANTS, HUB, LLAMA, STRANGERS
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.hiding import FAMILIES, ROUNDING, TURNED, Case, Change, hidden
from benchmarks.paper.parts.rated import RIVALS, Rated, separation

CLEAN = "clean"
NUMBER = re.compile(r"\d\.\de[-+]\d+")
FEW = ("hidden units reordered", "heads mapped", "stream rotated")  # edits at the smallest scale
FALSE = 0.03
"""The largest share of verdicts on others that may be related; α is 0.01, and edits of one model go together."""
GPT2, TUNED = HUB / "acme" / "gpt2-base", HUB / "fern" / "gpt2-finetune-a"


@dataclass(frozen=True)
class Lineup:
    """References of one family beside what comes from them and what does not."""

    name: str
    edits: Mapping[str, Change]
    related: Sequence[tuple[Path, Path]]
    others: Sequence[tuple[Path, Path]]
    tokens: Tensor  # held-out text (b, t) on which an edit may not move a logit


def llamas(bench: Bench, tokens: Tensor) -> Lineup:
    """Return the Llamas of the example Hub: the base itself, its descendants, and what is independent or distilled."""
    few, base = bench.sized(1, None), HUB / LLAMA
    related = [(base, suspect) for suspect in (base, *(HUB / name for name in DESCENDANTS))]
    others = [(base, HUB / name) for name in STRANGERS]
    return Lineup("Llama", FAMILIES["llama"], related[:few], others[:few], tokens)


def gpt2s(bench: Bench, benchmark: Benchmark, tokens: Tensor) -> Lineup:
    """Return a GPT-2 root with its descendants, its student and other roots, and the GPT-2 of the Hub."""
    number, *rest = benchmark.plan.test
    root, few = benchmark.root(number), bench.sized(1, None)
    related = [(root, suspect) for suspect in (root, *benchmark.descendants(number).values())]
    others = [(root, suspect) for suspect in (benchmark.student(number), *map(benchmark.root, rest))]
    related += [(GPT2, suspect) for suspect in (GPT2, TUNED)]
    return Lineup("GPT-2", FAMILIES["gpt2"], related[:few], others[:few], tokens)


def lineups(bench: Bench) -> Iterator[Lineup]:
    """Yield both families."""
    benchmark = Benchmark.of(bench)
    tokens = benchmark.corpus.windows(4, 32)
    yield llamas(bench, tokens)
    yield gpt2s(bench, benchmark, tokens)


def rows(bench: Bench) -> Sequence[Row]:
    """Return by family and edit by how much logits moved, the verdicts, and how well each method separates."""
    found: list[Row] = []
    totals = Rated(), Rated()
    for lineup in lineups(bench):
        chosen = [CLEAN, *(name for name in lineup.edits if bench.scale != "smoke" or name in FEW)]
        for name in chosen:
            found += figures(bench, lineup, name, totals)
    related, others = totals
    return [
        *found,
        Row("all edits: descendants called related", None, related.said, related.labels),
        Row("all edits: others called related", None, others.said, others.labels),
    ]


def figures(bench: Bench, lineup: Lineup, name: str, totals: tuple[Rated, Rated]) -> Iterator[Row]:
    """Yield the rows of one family and edit."""
    where, both, differences = f"{lineup.name}, {name}", (Rated(), Rated()), [0.0]
    for kind, pairs in enumerate((lineup.related, lineup.others)):
        for reference, suspect in pairs:
            case = worn(bench, lineup, suspect, name)
            differences.append(case.moved)
            both[kind].add(reference, case.folder, RIVALS)
        totals[kind].verdicts.extend(both[kind].verdicts)
    if name != CLEAN:
        note = f"in float64, but norms and softmax of transformers round to float32; the limit is {ROUNDING:g}"
        yield Row(f"{where}: logits moved by at most", None, f"{max(differences):.1e}", note)
    for who, rated in zip(("descendants", "others"), both, strict=True):
        yield Row(f"{where}: {who} called related", None, rated.said, rated.labels)
    for method, value in separation(*both).items():
        yield Row(f"{where}: AUROC of {method}", None, value)


def worn(bench: Bench, lineup: Lineup, suspect: Path, name: str) -> Case:
    """Return a suspect after an edit, or as it is."""
    if name == CLEAN:
        return Case(suspect, 0.0)
    return hidden(bench.cache, suspect, name, lineup.edits[name], lineup.tokens)


def shares(row: Row) -> tuple[int, int]:
    """Return how many were called related, of how many."""
    some, _, everything = str(row.ours).partition("/")
    claim(some.isdigit() and everything.isdigit(), f"{row.name}: {row.ours} is no share")
    return int(some), int(everything)


def holds(rows: Mapping[str, Row]) -> None:
    """Every edit leaves the function alone, and every descendant stays apart from what is none; nobody else is related.

    Where the stream is turned as well, one that was trained heavily may stay undecided.
    """
    for name, row in rows.items():
        where, _, what = name.partition(": ")
        if what.startswith("logits moved"):
            moved = str(row.ours)
            claim(bool(NUMBER.fullmatch(moved)) and float(moved) <= ROUNDING, f"{where}: logits moved by {moved}")
        if what == "descendants called related" and where != "all edits":
            called, of = shares(row)
            spared = max(1, of // 9) if where.endswith(TURNED) else 0
            claim(called >= of - spared, f"{where}: {of - called} of {of} descendants are not called related")
            value = rows[f"{where}: AUROC of hf-lineage's verdict"].number
            claim(value == 1, f"{where}: the AUROC of the verdict is {value:.3f}")
    called, of = shares(rows["all edits: others called related"])
    claim(called <= FALSE * of, f"{called} of {of} others are called related")


EXPERIMENTS = (Experiment("ours:disguises", "edits that keep the function", rows, holds),)
