"""One claim on the page: the verdict and what it means, what to do next, the evidence, and what is claimed where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Code, Evidence
from hf_lineage.evidence.adapters import Trace
from hf_lineage.report import page
from hf_lineage.report.findings import describe_claim
from hf_lineage.report.words import Texts, advise, numbers, sentences, texts_of, wording
from hf_lineage.report.words import commands as command


class Tile(NamedTuple):
    """One number."""

    name: str
    figure: str
    picture: Markup | str
    """Empty where there is none."""
    meaning: str


def tiles(report: Report, row: Row) -> Iterator[Tile]:
    """Yield the numbers that decided, each with what it means."""
    path = row.verdict.decisive
    if row.verdict.trace:
        yield from _of_trace(row, row.verdict.trace)
    elif path is not None and not row.verdict.by_units:
        yield from _of_path(report, row, path)


def _of_path(report: Report, row: Row, path: str) -> Iterator[Tile]:
    evidence = row.verdict.evidence[path]
    score, share, p_value = figures(row)
    null, inherited = evidence.permutation, evidence.inherited
    low, high = null.range
    around = (
        f"1 means the same weights. On the {null.coordinates} test coordinates alone this pair scores "
        f"{null.observed:.3f}, and independent models of this shape score {low:.3f} to {high:.3f}."
    )
    yield Tile("Score", score, page.score_bar(null), around)
    bar = page.share_bar(inherited.share, inherited.interval) if inherited else ""
    yield Tile("Inherited", share, bar, _share_means(report, evidence))
    by_chance = f"How often independent models would score as high by chance.{numbers.p_explained(evidence)}"
    yield Tile("p-value", p_value, "", by_chance)
    layers = f"{len(evidence.comparison.by_layer)}{f' of {row.layers}' if _unread(evidence, row.layers) else ''}"
    yield Tile("Layers", layers, "", f"Compared along the path {path}, each with its best partner.")


def _of_trace(row: Row, trace: Trace) -> Iterator[Tile]:
    by_chance = "How often the adapter of an independent model would fit the base as well by chance."
    yield Tile("p-value", f"{trace.p_value:.3g}", "", by_chance)
    read, most = len({*trace.layers}), row.layers
    yield Tile(
        "Layers",
        f"{read} of {most}" if most is not None and read < most else str(read),
        "",
        f"Tested of what the adapter changes: {', '.join(trace.by_role)}.",
    )


def _share_means(report: Report, evidence: Evidence) -> str:
    if evidence.inherited is None:
        return "Not measured: a stored signature holds no hidden units."
    low, high = (f"{end:.0%}" for end in evidence.inherited.interval)
    between = "" if low == high else f"Between {low} and {high} "
    return (
        f"{between or f'{low} '}of what the model's hidden units write has a counterpart in the base; more than "
        f"{report.options.min_share:.0%} is required."
    )


def _unread(evidence: Evidence, layers: int | None) -> bool:
    """Return whether more layers could have been read."""
    return evidence.analyses > 1 and layers is not None and evidence.read < layers


def figures(row: Row) -> tuple[str, str, str]:
    """Return score, share and p-value of the path that decided."""
    _, *cells, _ = wording.line(row)
    score, share, p_value = ("–" if cell == "-" else cell for cell in cells)
    return score, share, p_value


ALIKE, INHERITED = "Which layers are alike", "What is inherited"
CHANCE, PROFILE = "Could it be chance?", "A profile of each model"
CAPTIONS = sentences("captions")
"""Title of a picture -> what it shows."""
UNREAD = " Layers without a column were not read: the others had made the verdict clear."


@dataclass(frozen=True)
class Figure:
    """A picture with what it shows."""

    title: str
    picture: Markup
    caption: str
    kind: str = ""


@dataclass(frozen=True)
class AlongPath:
    """Verdict, figures and pictures along one path."""

    path: str
    words: str
    """Its own verdict, where there are several paths."""
    figures: Sequence[Figure]
    sentences: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Every number, layer by layer."""


def evidence(row: Row, number: int, captions: bool) -> Iterator[AlongPath]:
    """Yield what was measured for a claim along each path; `captions` is whether each picture says what it means.

    Where there are several claims the page says that once for all of them.
    """
    verdict = row.verdict
    for path, single in verdict.evidence.items():
        words = f": {verdict.by_path[path].label}" if len(verdict.evidence) > 1 else ""
        yield AlongPath(
            path,
            words,
            list(_figures(single, f"claim-{number}-{path}", row.layers, captions)),
            list(numbers.null_sentences(single)),
            [numbers.layer_cells(layer) for layer in numbers.layer_rows(single)],
        )


def _figures(single: Evidence, name: str, layers: int | None, captions: bool) -> Iterator[Figure]:
    caption = CAPTIONS if captions else dict.fromkeys(CAPTIONS, "")
    yield Figure(ALIKE, page.heat_map(single, f"{name}-heat"), caption[ALIKE], "map")
    if single.inherited:
        remark = f"{caption[INHERITED]}{UNREAD if _unread(single, layers) else ''}".strip()
        yield Figure(INHERITED, page.inheritance(single, layers, f"{name}-share"), remark)
    yield Figure(CHANCE, page.histogram(single.permutation, f"{name}-null"), caption[CHANCE])
    yield Figure(PROFILE, page.concentration(single, f"{name}-trace"), caption[PROFILE])


@dataclass(frozen=True)
class View:
    """Content of the page about one claim."""

    number: int
    """Number of the claim among all claims, counted from 0."""
    row: Row
    text: Texts
    reason: str
    advice: Sequence[str]
    beside: Sequence[str]
    """Sentences of findings that belong beside the verdict."""
    tiles: Sequence[Tile]
    evidence: Sequence[AlongPath]
    findings: Sequence[tuple[str, Markup]]
    """Title and content of those that have a part of the page."""
    remarks: Sequence[str]
    of_model: page.Commit
    of_base: page.Commit
    sources: Sequence[str]
    """The files that declare it; none if whoever ran the check named it."""
    command: str
    """Command that checks this claim alone; empty if that is what the whole page was made by."""


def view_claim(report: Report, number: int, captions: bool, explain: bool) -> View:
    """Return everything about one claim of a report; `captions` is whether its pictures say what they mean.

    `explain` unfolds the tables of its findings.
    """
    row = report.rows[number]
    again = command.of_claim(report, row)
    return View(
        number=number,
        row=row,
        text=texts_of(row.verdict),
        reason="" if row.verdict.code is Code.ADAPTER else wording.reason(row),
        advice=advise(report, row),
        beside=list(state_beside(report, row)),
        tiles=list(tiles(report, row)),
        evidence=list(evidence(row, number, captions)),
        findings=[
            (one.title, page.show(one, f"claim {number + 1}, ", explain))
            for _, one in describe_claim(report, row)
            if page.is_shown_apart(one)
        ],
        remarks=list(dict.fromkeys(_remarks(report, row))),
        of_model=page.commit_of_model(report, row),
        of_base=page.commit_of_base(row),
        sources=() if row.claim.sources == NAMED else row.claim.sources,
        command="" if again == command.of_report(report) else again,
    )


def state_beside(report: Report, row: Row) -> Iterator[str]:
    """Yield what findings say that belongs beside the verdict."""
    for _, finding in describe_claim(report, row):
        if finding.in_verdict:
            yield from (*finding.sentences, *finding.details)


def _remarks(report: Report, row: Row) -> Iterator[str]:
    """Yield what was seen besides, without the name of the model or of the base in front, which the headlines have."""
    about, model = wording.about(row), printable(report.model, 200)
    findings = (one for _, one in describe_claim(report, row) if not (page.is_shown_apart(one) or one.in_verdict))
    sentences = (
        *(sentence for one in findings for sentence in one.sentences),
        *map(printable, row.notes),
        *wording.origins(row),
        *wording.reading(row),
    )
    for sentence in sentences:
        yield page.without_hint(sentence.removeprefix(f"{about}: ").removeprefix(f"{model}: "))
