"""`ours:rivals`, which is not in the paper: hf-lineage and two rival tools on the same folders, verdict by verdict.

The models are those of `examples/hub`, six layers of 96 coordinates. They show invariances and failure modes; how often
a tool is right about models that people publish is not to be seen from them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.rated import SHARED
from benchmarks.paper.parts.verdicts import (
    DISTILLED,
    INDEPENDENT,
    OWN_TERMS,
    READERS,
    RELATED,
    RIGHT,
    UNDECIDED,
    WRONG,
    Said,
    Tool,
    folder,
    ours,
    printed,
)
from benchmarks.rivals import RIVALS, Rival, found, installed

OURS = Tool("hf-lineage", ours)
NAMES = {rival.command: rival.package.replace("==", " ") for rival in RIVALS}
LINEAGE = {"provenancekit": frozenset({RELATED, DISTILLED})}
"""What a rival counts as lineage where that is more than inherited weights, by its command."""
NOTES = {
    "modeldna": "compare --json, from the package index into an environment of its own",
    "provenancekit": "compare --no-cache --json, from the package index into an environment of its own; "
    "declares Python 3.12, installed with --ignore-requires-python; needs a tokenizer in each folder, "
    "so all have the same one, of 256 bytes; counts distillation as lineage",
}
MARKS = {RIGHT: "✓", WRONG: "✗", UNDECIDED: "?", OWN_TERMS: "✓ by its own definition"}
SIZE = "six layers of 96 coordinates: they show invariances and failure modes, and are no measure of accuracy"


@dataclass(frozen=True)
class Pair:
    """Two folders, named as `folder` takes them."""

    suspect: str
    reference: str
    how: str  # how the candidate was made
    truth: str = RELATED

    @property
    def name(self) -> str:
        return f"{self.suspect} beside {self.reference}"


LLAMA, GPT2, STRANGER, LIAR = "acme/llama-base", "acme/gpt2-base", "otter/llama-independent", "magpie/llama-liar"
PAIRS = (
    Pair("fern/gpt2-finetune-a", GPT2, "fine-tune"),
    Pair("fern/llama-finetune-a", LLAMA, "fine-tune"),
    Pair("fern/llama-finetune-b", LLAMA, "fine-tune"),
    Pair("fern/llama-lora-merged", LLAMA, "LoRA merged in"),
    Pair("fern/llama-merge-a-b", "fern/llama-finetune-a", "mean of two fine-tunes"),
    Pair("fern/llama-merge-a-b", "fern/llama-finetune-b", "mean of two fine-tunes"),
    Pair("heron/llama-int8-rounded", LLAMA, "rounded to 8 bits"),
    Pair("llama-finetune-a, 4 bits", LLAMA, "fine-tune rounded to 4 bits"),
    Pair("heron/llama-pruned-50", LLAMA, "half of the weights pruned"),
    Pair("moss/llama-continued", LLAMA, "heavy continued pretraining"),
    Pair("magpie/llama-laundered", LLAMA, "hidden units reordered and rescaled"),
    Pair("magpie/llama-grafted", LLAMA, "two of six blocks taken over, the others on fresh weights"),
    Pair("llama-base, norm gains swapped", LLAMA, "norm gains swapped"),
    Pair("llama-finetune-a, two layers less", LLAMA, "fine-tune less two of six layers"),
    Pair("llama-base, stream rotated", LLAMA, "residual stream rotated"),
    Pair("heron/llama-distilled", LLAMA, "student on fresh weights", DISTILLED),
    Pair(LIAR, LLAMA, "another seed, same architecture and text", INDEPENDENT),
    Pair(STRANGER, LLAMA, "another seed, same architecture and text", INDEPENDENT),
    Pair(STRANGER, LIAR, "another seed, same architecture and text", INDEPENDENT),
    Pair(GPT2, LLAMA, "another architecture, same width and depth", INDEPENDENT),
)
"""Every claim of the Hub, four edits that are common or leave the function where it was, and independent models."""


def rows(bench: Bench) -> Sequence[Row]:
    """Return the truth about every pair and what each tool that is there says of it."""
    places = {rival: place(rival, bench) for rival in RIVALS}
    tools = [OURS, *(of(rival, at, bench) for rival, at in places.items() if at)]
    shown = [Row("pairs", None, len(PAIRS), SIZE), *(standing(rival, at, bench) for rival, at in places.items())]
    for pair in PAIRS:
        folders = folder(bench.cache, pair.suspect), folder(bench.cache, pair.reference)
        shown.append(Row(f"{pair.name}: truth", None, pair.truth, pair.how))
        shown += [judged(pair, tool, tool.judge(*folders)) for tool in tools]
    return shown


def place(rival: Rival, bench: Bench) -> Path | None:
    """Return where a rival is installed, if it is; at the smallest scale nothing is fetched."""
    return (found if bench.scale == "smoke" else installed)(rival, bench.cache.folder / "rivals")


def standing(rival: Rival, at: Path | None, bench: Bench) -> Row:
    why = "not installed at this scale" if bench.scale == "smoke" else "could not be installed from the package index"
    name = NAMES[rival.command]
    return Row(name, None, "judges", NOTES[rival.command]) if at else Row(name, None, "does not judge", why)


def of(rival: Rival, at: Path, bench: Bench) -> Tool:
    """Return a rival as a tool; what it said of two folders is kept, they being what they are called."""
    home = bench.cache.folder / "rivals" / "home"
    home.mkdir(exist_ok=True)

    def judge(suspect: Path, reference: Path) -> Said:
        depends = [rival.package, rival.options, suspect.name, reference.name]
        run = partial(printed, rival, at, home, suspect, reference)
        return READERS[rival.command](bench.cache.kept("rival-verdicts", depends, run))

    return Tool(NAMES[rival.command], judge, LINEAGE.get(rival.command, OURS.lineage))


def judged(pair: Pair, tool: Tool, said: Said) -> Row:
    """Return a row with a verdict in the tool's words; its note begins with how that stands to the truth."""
    notes = [said.standing(pair.truth, tool.lineage), said.figures]
    return Row(f"{pair.name}: {tool.name}", None, said.words, "; ".join(filter(None, notes)))


def stood(row: Row) -> str:
    return row.note.partition(";")[0]


def holds(rows: Mapping[str, Row]) -> None:
    """Ours is right on every pair."""
    for pair in PAIRS:
        said = str(rows[f"{pair.name}: {OURS.name}"].ours)
        right = said.startswith(SHARED) if pair.truth == RELATED else said == "UNRELATED"
        claim(right, f"{pair.name} is {pair.truth}, hf-lineage says {said}")


COLUMNS = ("How the candidate was made", "Truth", OURS.name, *NAMES.values())


def summary(rows: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS: pairs of one truth of which every tool says the same share a line."""
    lines: dict[tuple[str, ...], Counter[str]] = {}
    for pair in PAIRS:
        said = [cell(rows.get(f"{pair.name}: {name}")) for name in (OURS.name, *NAMES.values())]
        lines.setdefault((pair.truth, *said), Counter())[pair.how] += 1
    for cells, made in lines.items():
        yield "; ".join(how if count == 1 else f"{how} ({count})" for how, count in made.items()), *cells


def cell(row: Row | None) -> str:
    """Return a verdict with the mark of how it stands."""
    return f"{row.ours} {MARKS[stood(row)]}" if row else "–"


EXPERIMENTS = (Experiment("ours:rivals", "rival tools on the same folders", rows, holds),)
