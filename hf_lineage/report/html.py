"""A report that people open: one self-contained page without scripts, readable on a phone, in print and in the dark.

Several claims are shown at a glance: one line for each parent, with a bar for what is inherited from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Evidence
from hf_lineage.lora.gradient_alignment import Trace
from hf_lineage.options import moment
from hf_lineage.report import charts, heatmap, page, verdicts, wording
from hf_lineage.report.command import of_claim, of_report, public
from hf_lineage.report.family import figure
from hf_lineage.report.findings import describe_claim, describe_report
from hf_lineage.report.verdicts import Texts, advise, sentences, texts, texts_of
from hf_lineage.report.wording import whole


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
    yield Tile("Score", score, charts.score_bar(null), around)
    bar = charts.share_bar(inherited.share, inherited.interval) if inherited else ""
    yield Tile("Inherited", share, bar, _share_means(report, evidence))
    by_chance = f"How often independent models would score as high by chance.{verdicts.p_explained(evidence)}"
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
            list(verdicts.null_sentences(single)),
            [verdicts.layer_cells(layer) for layer in verdicts.layer_rows(single)],
        )


def _figures(single: Evidence, name: str, layers: int | None, captions: bool) -> Iterator[Figure]:
    caption = CAPTIONS if captions else dict.fromkeys(CAPTIONS, "")
    yield Figure(ALIKE, heatmap.heat_map(single, f"{name}-heat"), caption[ALIKE], "map")
    if single.inherited:
        remark = f"{caption[INHERITED]}{UNREAD if _unread(single, layers) else ''}".strip()
        yield Figure(INHERITED, charts.inheritance(single, layers, f"{name}-share"), remark)
    yield Figure(CHANCE, charts.histogram(single.permutation, f"{name}-null"), caption[CHANCE])
    yield Figure(PROFILE, charts.concentration(single, f"{name}-trace"), caption[PROFILE])


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
    again = of_claim(report, row)
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
        command="" if again == of_report(report) else again,
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


@dataclass(frozen=True)
class Line:
    """One claim of several."""

    row: Row
    bars: tuple[tuple[Markup | str, str], ...]
    """Pictures, each with the figures that it shows; where there are figures alone the picture is empty."""
    about: str
    """Layers that come from the base, or the beginning of a reason, which the claim has in full."""


def overview_line(report: Report, row: Row) -> Line:
    """Return one claim at a glance."""
    about = next(map(whole, state_beside(report, row)), "") or _first(wording.reason(row))
    return Line(row, tuple(_bars(row)), about)


def _bars(row: Row) -> Iterator[tuple[Markup | str, str]]:
    evidence, (score, share, p_value) = wording.best(row), figures(row)
    framed = row.verdict.framed if row.verdict.by_units else None
    inherited = framed.inherited if framed else evidence.inherited if evidence else None
    if inherited is not None:
        yield charts.share_bar(inherited.share, inherited.interval), f"{share} inherited"
    if evidence is not None:
        low, high = evidence.permutation.range
        words = f"Score {score}, p = {p_value}; by chance {low:.3f} to {high:.3f}."
        yield charts.score_bar(evidence.permutation), words
    elif p_value != "–":
        yield "", f"p = {p_value}"


def _first(reason: str) -> str:
    short = reason if len(reason) <= 160 else f"{reason[:160].rsplit(' ', 1)[0]} …"
    return whole(short) if short else ""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    repeat, time = of_report(report, "--format", "html"), moment(report.checked_at)
    report = replace(public(report), checked_at=time)
    rows, several = report.rows, len(report.rows) > 1
    measured = any(row.verdict.evidence or row.verdict.framed or row.verdict.trace for row in rows)
    bases = {row.claim.base: row for row in reversed(rows)}
    findings = [one for _, one in describe_report(report)]
    apart = [one for one in findings if page.is_shown_apart(one) and not one.first]
    besides = (one for one in findings if one not in apart and not one.first)
    remarks = (*(sentence for one in besides for sentence in one.statements), *wording.remarks(report))
    compared = {row.model or report.model: page.commit_of_model(report, row) for row in rows}
    models = [("Model", model, commit) for model, commit in compared.items()]
    models += [("Base", row.claim.base, page.commit_of_base(row)) for row in reversed(bases.values())]
    return page.fill(
        "report.html.j2",
        report=report,
        name=printable(report.model, 200),
        verdicts=", ".join(dict.fromkeys(row.verdict.label for row in rows)) or Code.UNDECLARED.label,
        counts=Counter(row.verdict.label for row in rows),
        commit=page.commit_of_model(report),
        several=several,
        explain=explain,
        family=figure(report),
        lines=[overview_line(report, row) for row in rows] if several else (),
        shares_measured=any(wording.inherited_share(row) is not None for row in rows),
        first=[(one.title, page.show(one, explain=explain)) for one in findings if one.first],
        findings=[(one.title, page.show(one, explain=explain)) for one in apart],
        claims=[view_claim(report, number, not several, explain) for number in range(len(rows))],
        captions=CAPTIONS if several and any(row.verdict.evidence for row in rows) else {},
        undeclared=texts()[Code.UNDECLARED],
        remarks=[page.without_hint(remark) for remark in remarks],
        limits=verdicts.describe_limits(report),
        models=models if several else (),
        command=repeat,
        settings=wording.settings(report) if measured else "",
    )
