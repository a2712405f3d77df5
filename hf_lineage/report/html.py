"""A report that people open: one self-contained page without scripts, readable on a phone, in print and in the dark."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from markupsafe import Markup

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, ClaimResult, Finding
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Evidence
from hf_lineage.hub import repo
from hf_lineage.options import moment
from hf_lineage.report import page, verdicts, wording
from hf_lineage.report.command import of_claim, of_report, public
from hf_lineage.report.family import figure
from hf_lineage.report.findings import describe_claim, describe_report
from hf_lineage.report.verdicts import advise, sentences, texts, texts_of
from hf_lineage.signature.values import Origin


def tiles(report: Report, row: ClaimResult) -> Iterator[tuple[str, str, Markup | str, str]]:
    """Yield the numbers that decided: name, figure, picture if there is one, and what it means."""
    if trace := row.verdict.trace:
        by_chance = "How often the adapter of an independent model would fit the base as well by chance."
        yield "p-value", f"{trace.p_value:.3g}", "", by_chance
        read = len({*trace.layers})
        layers = f"{read} of {row.layers}" if row.layers is not None and read < row.layers else str(read)
        yield "Layers", layers, "", f"Tested of what the adapter changes: {', '.join(trace.by_role)}."
        return
    if (evidence := wording.best(row)) is None:
        return
    score, share, p_value = figures(row)
    null, inherited = evidence.permutation, evidence.inherited
    low, high = null.range
    around = (
        f"1 means the same weights. On the {null.coordinates} test coordinates alone this pair scores "
        f"{null.observed:.3f}, and independent models of this shape score {low:.3f} to {high:.3f}."
    )
    yield "Score", score, page.score_bar(null), around
    bar, means = "", "Not measured: a stored signature holds no hidden units."
    if inherited:
        start, end = (f"{end:.0%}" for end in inherited.interval)
        between = f"{start} " if start == end else f"Between {start} and {end} "
        counterpart = "of what the model's hidden units write has a counterpart in the base; more than"
        bar = page.share_bar(inherited.share, inherited.interval)
        means = f"{between}{counterpart} {report.options.min_share:.0%} is required."
    yield "Inherited", share, bar, means
    by_chance = "How often independent models would score as high by chance."
    yield "p-value", p_value, "", by_chance
    layers = f"{len(evidence.comparison.by_layer)}{f' of {row.layers}' if _unread(evidence, row.layers) else ''}"
    yield "Layers", layers, "", f"Compared along the path {row.verdict.decisive}, each with its best partner."


def _unread(evidence: Evidence, layers: int | None) -> bool:
    return evidence.analyses > 1 and layers is not None and evidence.layers_read < layers


def figures(row: ClaimResult) -> tuple[str, str, str]:
    """Return score, share and p-value of the path that decided."""
    _, *cells, _ = wording.line(row)
    score, share, p_value = ("–" if cell == "-" else cell for cell in cells)
    return score, share, p_value


# The end of a sentence that tells something to those who run the command, which a page leaves out.
HINT = re.compile(r"; (if you are the publisher, add )?--[^;]*$")


def is_shown_apart(finding: Finding) -> bool:
    """Return whether a finding has more than sentences, and a part of the page for it."""
    return bool(finding.tables or finding.picture or (finding.details and not finding.in_verdict))


def show(finding: Finding, name: str = "", explain: bool = False) -> Markup:
    """Return what is below the title of a finding; `name` stands before the names of its tables, `explain` unfolds."""
    bars = []
    for bar in finding.picture.bars if finding.picture else ():
        label, fill = f"{bar.value:.2f} ({bar.low:.2f} to {bar.high:.2f})", "share pale" if bar.pale else "share"
        value = bar.value if bar.clear else None  # no bar where its interval is too wide
        bars.append((bar.label, page.interval_bar(label, value, (bar.low, bar.high), "line", fill)))
    sentences = [HINT.sub("", one) for one in (*finding.sentences, *finding.details)]
    shape = {"named": name, "explain": explain, "bars": bars, "sentences": sentences}
    return page.fill("finding.html.j2", finding=finding, **shape)


FOLDER, STORED = "read from a folder", "given as a stored signature"


class Commit(NamedTuple):
    """One commit, or why there is none."""

    name: str | None
    address: str | None = None  # address of its files on the Hub; None for a model that is not there
    reason: str = ""  # why it has no name


def commit_of_model(report: Report, row: ClaimResult | None = None) -> Commit:
    """Return the commit of the model that was checked, or of the one that a row of several is about."""
    if row and row.model:
        return _commit(row.model, row.model_commit, row.model_origin)
    remote = report.source.remote if report.source else None
    address = repo.files_at(remote, report.commit) if report.commit else None
    return Commit(report.commit, address, STORED if report.source is None else FOLDER)


def commit_of_base(row: ClaimResult) -> Commit:
    """Return the commit of the base; one that a stored signature names is not linked, nobody fetched it."""
    return _commit(row.claim.base, row.base_commit, row.base_origin)


def _commit(model: str, commit: str | None, origin: Origin | None) -> Commit:
    stored = origin is not None and origin.kind == "file"
    name = None if stored else repo.hub_name(model)
    address = repo.files_at(name, commit) if commit else None
    return Commit(commit, address, STORED if stored else FOLDER if origin else "nothing of it was read")


CAPTIONS = sentences("captions")  # title of a picture -> what it shows


def describe_paths(row: ClaimResult, number: int, captions: bool) -> Iterator[dict[str, Any]]:
    """Yield what was measured for a claim along each path; `captions` is whether each picture says what it means."""
    verdict, (alike, inherits, chance) = row.verdict, CAPTIONS
    caption = CAPTIONS if captions else dict.fromkeys(CAPTIONS, "")
    for path, evidence in verdict.evidence.items():
        name = f"claim-{number}-{path}"
        figures = [(alike, page.heat_map(evidence, f"{name}-heat"), caption[alike], "map")]
        if evidence.inherited:
            unread = " Layers without a column were not read: the others had made the verdict clear."
            remark = f"{caption[inherits]}{unread if _unread(evidence, row.layers) else ''}".strip()
            figures.append((inherits, page.inheritance(evidence, row.layers, f"{name}-share"), remark, ""))
        figures.append((chance, page.histogram(evidence.permutation, f"{name}-null"), caption[chance], ""))
        yield {
            "path": path,
            "words": f": {verdict.by_path[path].label}" if len(verdict.evidence) > 1 else "",
            "figures": figures,
            "sentences": list(verdicts.null_sentences(evidence)),
            "rows": [verdicts.layer_cells(layer) for layer in verdicts.layer_rows(evidence)],
        }


def view_claim(report: Report, number: int, captions: bool, explain: bool) -> dict[str, Any]:
    """Return all that the template shows of one claim; `captions` as in `describe_paths`, `explain` unfolds tables."""
    row = report.rows[number]
    findings = [one for _, one in describe_claim(report, row)]
    rest = (one for one in findings if not (is_shown_apart(one) or one.in_verdict))
    remarks = (
        *(sentence for one in rest for sentence in one.sentences),
        *map(printable, row.notes),
        *wording.reading(row),
    )
    about, model = f"{wording.about(row)}: ", f"{printable(report.model, 200)}: "
    return {
        "number": number,
        "row": row,
        "text": texts_of(row.verdict),
        "reason": "" if row.verdict.code is Code.ADAPTER else wording.reason(row),
        "advice": advise(report, row),
        "beside": [words for one in findings if one.in_verdict for words in (*one.sentences, *one.details)],
        "tiles": list(tiles(report, row)),
        "evidence": list(describe_paths(row, number, captions)),
        "findings": [
            (one.title, show(one, f"claim {number + 1}, ", explain)) for one in findings if is_shown_apart(one)
        ],
        "remarks": list(dict.fromkeys(HINT.sub("", one.removeprefix(about).removeprefix(model)) for one in remarks)),
        "of_model": commit_of_model(report, row),
        "of_base": commit_of_base(row),
        "sources": () if row.claim.sources == NAMED else row.claim.sources,
        "command": of_claim(report, row) if len(report.rows) > 1 else "",
    }


def overview_line(row: ClaimResult, beside: Sequence[str]) -> tuple[ClaimResult, list[tuple[Markup | str, str]], str]:
    """Return one claim of several: its row, bars with their figures, and what stands `beside` its verdict or why."""
    reason, evidence, (score, share, p_value) = wording.reason(row), wording.best(row), figures(row)
    short = reason if len(reason) <= 160 else f"{reason[:160].rsplit(' ', 1)[0]} …"
    bars: list[tuple[Markup | str, str]] = []
    if measured := wording.measured_share(row):
        bars.append((page.share_bar(measured.share, measured.interval), f"{share} inherited"))
    if evidence is not None:
        low, high = evidence.permutation.range
        words = f"Score {score}, p = {p_value}; by chance {low:.3f} to {high:.3f}."
        bars.append((page.score_bar(evidence.permutation), words))
    elif p_value != "–":
        bars.append(("", f"p = {p_value}"))
    about = next(iter(beside), short)
    return row, bars, wording.whole(about) if about else ""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    repeat, time = of_report(report, "--format", "html"), moment(report.checked_at)
    report = replace(public(report), checked_at=time)
    rows, several = report.rows, len(report.rows) > 1
    measured = any(row.verdict.evidence or row.verdict.unit_comparison or row.verdict.trace for row in rows)
    bases = {row.claim.base: row for row in reversed(rows)}
    findings = [one for _, one in describe_report(report)]
    apart = [one for one in findings if is_shown_apart(one) and not one.first]
    besides = (one for one in findings if one not in apart and not one.first)
    remarks = (*(sentence for one in besides for sentence in one.statements), *wording.remarks(report))
    compared = {row.model or report.model: commit_of_model(report, row) for row in rows}
    claims = [view_claim(report, number, not several, explain) for number in range(len(rows))]
    models = [("Model", model, commit) for model, commit in compared.items()]
    models += [("Base", row.claim.base, commit_of_base(row)) for row in reversed(bases.values())]
    return page.fill(
        "report.html.j2",
        report=report,
        name=printable(report.model, 200),
        verdicts=", ".join(dict.fromkeys(row.verdict.label for row in rows)) or Code.UNDECLARED.label,
        counts=Counter(row.verdict.label for row in rows),
        commit=commit_of_model(report),
        several=several,
        explain=explain,
        family=figure(report),
        lines=[overview_line(claim["row"], claim["beside"]) for claim in claims] if several else (),
        shares_measured=any(wording.inherited_share(row) is not None for row in rows),
        first=[(one.title, show(one, explain=explain)) for one in findings if one.first],
        findings=[(one.title, show(one, explain=explain)) for one in apart],
        claims=claims,
        captions=CAPTIONS if several and any(row.verdict.evidence for row in rows) else {},
        undeclared=texts()[Code.UNDECLARED],
        remarks=[HINT.sub("", remark) for remark in remarks],
        limits=verdicts.describe_limits(report),
        models=models if several else (),
        command=repeat,
        settings=wording.settings(report) if measured else "",
    )
