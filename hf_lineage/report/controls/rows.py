"""A comparison beside controls, by rows: every model with what it is named as, as text, as Markdown and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np

from hf_lineage import __version__
from hf_lineage.checking import Control, Controlled, Options, Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.checking.source import named
from hf_lineage.claims import Claim
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind, Verdict
from hf_lineage.report.findings import state_outcome, state_quoted
from hf_lineage.report.formats import folded, json, markdown, table, wrapped
from hf_lineage.report.words import COLUMNS as COLUMNS_OF_CLAIMS
from hf_lineage.report.words import NUMERIC, WHOLE, advice, encode, wording, written
from hf_lineage.report.words import command as of_row

SCHEMA_VERSION = 1
COLUMNS = ("Model", "Named as", *COLUMNS_OF_CLAIMS[2:])
MEANING = (
    "A control is compared like the pair, with the same options. Its verdict is the one that it would get if it "
    "declared the first model as its base. Controls are not part of the test: every p-value comes from permutations "
    "of its own two models and is not corrected for the others."
)


class Role(Enum):
    """What a model is named as, in the words that reports print."""

    PAIR = "the pair"
    INDEPENDENT = "independent"
    RELATIVE = "relative"


@dataclass(frozen=True)
class Line:
    """One model, or one part of it, compared with A."""

    name: str
    role: Role
    row: Row


def lines(controlled: Controlled) -> list[Line]:
    """Return the pair, then the controls in the order in which they were named."""
    reports = [(controlled.pair, Role.PAIR), *((one.report, role(one)) for one in controlled.controls)]
    return [
        Line(printable(report.model, 200) + (f" ({printable(row.part, 100)})" if row.part else ""), meant, row)
        for report, meant in reports
        for row in report.rows
    ]


def role(control: Control) -> Role:
    """Return what a control is named as."""
    return Role.INDEPENDENT if control.independent else Role.RELATIVE


def cells(line: Line) -> Iterator[tuple[str, ...]]:
    """Yield the cells of one model: a line for each path, or a single line where nothing was measured."""
    for number, (_, _, *measured) in enumerate(wording.cells(line.row)):
        yield *(("", "") if number else (line.name, line.role.value)), *measured


def outcome(line: Line) -> str:
    """Return the outcome for a model, or the outcome that a control would have, in one sentence."""
    base = printable(line.row.claim.base, 200)
    words = state_outcome(line.row).removeprefix(f"{wording.about(line.row)} is ")
    if line.role is Role.PAIR:
        return f"{line.name} and {base}: {words}"
    return f"{line.name}, if it declared {base} as its base: {words}"


def remarks(controlled: Controlled) -> Iterator[str]:
    """Yield the sentences about the controls as a whole; what is unlike what they are named as comes first."""
    base, pair = printable(controlled.base, 200), printable(controlled.pair.model, 200)
    alpha = controlled.pair.options.alpha
    free = [one.report for one in controlled.controls if one.independent]
    kin = [one.report for one in controlled.controls if not one.independent]
    yield from _related(list(filter(_judged, free)), base, pair, alpha)
    yield from _unrelated(list(filter(_judged, kin)), base, pair)
    yield from _highest(controlled)
    yield from (sentence for row in controlled.pair.rows if row.quoted for sentence in state_quoted(row))
    for one in (one for one in controlled.controls if one.declares):
        name, declared = printable(one.report.model, 200), printable(one.declares, 200)
        yield f"{name} is named as independent, and declares {declared} as its base"
    yield from _copies(controlled)
    if unread := [printable(report.model, 200) for report in (*free, *kin) if not _judged(report)]:
        yield f"Not judged, so no evidence for either side: {', '.join(unread)}"


def _related(judged: Sequence[Report], base: str, pair: str, alpha: float) -> Iterator[str]:
    """Sentences about the models that are named as independent."""
    related = [report for report in judged if _is_related(report)]
    expected = f"alpha {alpha:g} lets {alpha * len(judged):.2g} of {len(judged)} do so by chance"
    for report in related:
        yield (
            f"{printable(report.model, 200)} is named as independent of {base} and comes out RELATED. Either the two "
            f"share ancestry, or this is a false result: {expected}. Until that is explained it is not a control, and "
            f"the result for {pair} needs the same caution"
        )
    if judged and not related:
        yield f"0 of {len(judged)} independent models that were judged come out RELATED; {expected}"


def _unrelated(judged: Sequence[Report], base: str, pair: str) -> Iterator[str]:
    """Sentences about the models that are named as relatives."""
    missed = [report for report in judged if not _is_related(report)]
    for report in missed:
        yield (
            f"{printable(report.model, 200)} is named as a relative of {base} and comes out UNRELATED. Either it is "
            f"not a relative, or the test does not detect such ancestry; then UNRELATED says less about {pair} too"
        )
    if judged and not missed:
        yield f"{len(judged)} of {len(judged)} relatives that were judged come out RELATED"


def _highest(controlled: Controlled) -> Iterator[str]:
    """The score of the pair beside the highest of an independent model, along the path that decided."""
    for line in lines(controlled):
        path = line.row.verdict.decisive
        if line.role is not Role.PAIR or path is None:
            continue
        scores = {
            other.name: other.row.verdict.evidence[path].comparison.score
            for other in lines(controlled)
            if other.role is Role.INDEPENDENT and path in other.row.verdict.evidence
        }
        if scores:
            name = max(scores, key=lambda one: scores[one])
            yield (
                f"Along {path} the highest score of an independent model is {scores[name]:.3f} ({name}); "
                f"{line.name} has {line.row.verdict.evidence[path].comparison.score:.3f}"
            )


def _copies(controlled: Controlled) -> Iterator[str]:
    """Which models have the numbers of another one to the last digit."""
    seen: list[Line] = []
    for line in lines(controlled):
        twin = next((one for one in seen if _equal(one.row, line.row)), None)
        if twin is not None:
            yield f"{line.name} has the scores of {twin.name} to the last digit, as a copy of its weights has"
        seen.append(line)


def _equal(one: Row, other: Row) -> bool:
    paths = one.verdict.evidence.keys() & other.verdict.evidence.keys()
    mine, others = ({path: row.verdict.evidence[path].comparison.similarity for path in paths} for row in (one, other))
    return bool(paths) and all(np.array_equal(mine[path], others[path]) for path in paths)


def _judged(report: Report) -> bool:
    return any(row.verdict.is_related or row.verdict.kind is Kind.UNRELATED for row in report.rows)


def _is_related(report: Report) -> bool:
    return any(row.verdict.is_related for row in report.rows)


_here = partial(written, start=Path())


def command(controlled: Controlled) -> str:
    """Return the command that makes the comparison again, at the same commits."""
    pair, options = controlled.pair, controlled.pair.options
    base = next((row.base_commit for row in pair.rows if row.base_commit), None)
    words = ["hf-lineage", "compare", _pinned(_here(controlled.base), base), _pinned(_here(pair.model), pair.commit)]
    for option, free in (("--controls", True), ("--relatives", False)):
        shown = [one.report for one in controlled.controls if one.independent is free]
        words += [option, *(_pinned(_here(one.model), one.commit) for one in shown)] if shown else []
    return printable(shlex.join([*words, *_settings(options)]), 20_000)


def _settings(options: Options) -> Iterable[str]:
    """The options of a command: what stands behind the names of two models in the one that checks them."""
    row = Row(Claim("base", None, NAMED), Verdict(Kind.UNVERIFIABLE, ""))
    yield from shlex.split(of_row("model", None, row, options, _here))[5:]
    if options.order_seed is not None:
        yield from ("--set", f"order-seed={options.order_seed}")
    if options.local_hub is not None:
        yield from ("--local-hub", _here(named(options.local_hub)))


def _pinned(model: str, commit: str | None) -> str:
    return model if commit is None else f"{model.partition('@')[0]}@{commit}"


def text(controlled: Controlled, explain: bool = False) -> str:
    """Return the pair and its controls as one table of at most 80 columns, and the sentences that belong to it."""
    drawn = lines(controlled)
    rows = (folded(line) for one in drawn for line in cells(one))
    told = [one for one in drawn if one.role is Role.PAIR or one.row.verdict.reason]
    paragraphs = [*map(outcome, told), *remarks(controlled), MEANING]
    paragraphs += [wording.settings(controlled.pair), wording.MEANING, *advice.LIMITS] if explain else []
    shown = table(COLUMNS, rows, numeric=NUMERIC, whole=WHOLE)
    return "\n".join([wrapped(_title(controlled)), shown, *map(wrapped, paragraphs)]) + "\n"


def render_markdown(controlled: Controlled, explain: bool = False) -> str:
    """Return the same as GitHub-flavoured Markdown, untrusted names escaped."""
    drawn = lines(controlled)
    blocks = [f"### {markdown.escaped(_title(controlled))}"]
    blocks.append(markdown.markdown_table(COLUMNS, (line for one in drawn for line in cells(one))))
    blocks.append("\n".join(f"- {markdown.escaped(outcome(one))}" for one in drawn))
    blocks += [markdown.paragraph(sentence) for sentence in remarks(controlled)]
    blocks += ["\n".join(f"- {limit}" for limit in advice.LIMITS)] if explain else []
    settings = markdown.escaped(f"{MEANING} {wording.settings(controlled.pair)}")
    blocks.append(f"<sub>{settings} {wording.MEANING}</sub>")
    return "\n\n".join(blocks) + "\n"


def render_json(controlled: Controlled, explain: bool = False) -> str:
    """Return the same as JSON, with the whole report on the pair and on every control."""
    del explain  # every number is there anyway
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hf-lineage", "version": __version__},
        "base": controlled.base,
        "model": controlled.pair.model,
        "exit_code": int(controlled.exit_code),
        "pair": json.document(controlled.pair),
        "controls": [
            {
                "model": one.report.model,
                "named_as": role(one).name.lower(),
                "declares": one.declares or None,
                "report": json.document(one.report),
            }
            for one in controlled.controls
        ],
        "remarks": list(remarks(controlled)),
        "command": command(controlled),
    }
    return encode(document)


def _title(controlled: Controlled) -> str:
    pair, base = printable(controlled.pair.model, 200), printable(controlled.base, 200)
    number = len(controlled.controls)
    return f"{pair} and {base}, beside {number} control{'s' if number > 1 else ''}"
