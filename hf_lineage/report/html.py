"""A report that people open: one self-contained page without scripts, readable on a phone, in the dark and on paper."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hf_lineage import __version__
from hf_lineage.checking.api import Report
from hf_lineage.checking.rows import Row
from hf_lineage.errors import printable
from hf_lineage.evidence.adapter_trace import Trace
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.report import adapter, licences, merge, numbers, record, units, waivers, wording
from hf_lineage.report.charts import concentration, histogram, inheritance
from hf_lineage.report.heatmap import heat_map
from hf_lineage.report.kinds import KINDS
from hf_lineage.report.markup import Markup, identifier, joined, tag
from hf_lineage.report.tiles import figures, tiles

STYLE = Path(__file__).with_name("page.css")
SIGNS = {
    "good": "M5 12.5l4.5 4.5L19 7.5",
    "part": "M5.5 13.5c2-3.6 4.4-3.6 6.5-1.5s4.5 2.1 6.5-1.5",
    "bad": "M7 7l10 10M17 7L7 17",
    "open": "M9 9.2a3.1 3.1 0 1 1 4.6 2.7c-1 .6-1.6 1.2-1.6 2.4M12 17.6v.01",
}
"""Tick, wave, cross and question mark on 24 by 24."""
HEAT_MAP = (
    "Each row is a layer of the base, each column a layer of the model. A bright cell says that the two layers hold "
    "the same weights up to some training; a dark one, that they are no more alike than layers of independent models. "
    "Outlined are the pairs that the best assignment picks; the score is the mean over them."
)
INHERITED = (
    "How much of what each layer's hidden units write comes from units that have a counterpart in the base, a unit "
    "that reads and writes in the same direction. Units count by what they write: copies that write nothing count for "
    "nothing."
)
UNREAD = " Layers without a column were not read: the ones that were had made the verdict clear."
HISTOGRAM = (
    "If the two models were independent, permuting the coordinates of one of them would change nothing. The bars are "
    "the scores after such permutations, the marker is the score without any. It is computed on the test coordinates, "
    "those that are permuted, so it can differ a little from the score above."
)
CONCENTRATION = (
    "How strongly each layer's product shares a direction with the identity (trace concentration). Training gives "
    "every model a profile of its own; one made from the other tends to keep it. It is shown for the eye and decides "
    "nothing."
)
TRACE = (
    "If the adapter belonged to an independent model, permuting the rows of what it adds would change nothing. z tells "
    "how far the rows as they are lie above the permuted ones, in standard deviations; p how often these reach as far."
)
NO_COMMIT = "not recorded (a folder has none)"
LONG = 80
"""Letters from which a name is no headline any more."""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    style = STYLE.read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"hf-lineage {__version__}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{_verdicts(report)}: lineage of {printable(report.model, 200)}"),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *_body(report, explain)), lang='en')}\n"


def policy(style: str) -> str:
    """Return what the page may do: show its own style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _body(report: Report, explain: bool) -> Iterator[Markup]:
    commit = tag("p", "at commit ", tag("code", report.revision), class_="commit") if report.revision else ""
    size = "long" if len(report.model) > LONG else None
    yield tag(
        "header", tag("p", "Lineage report", class_="eyebrow"), tag("h1", identifier(report.model), class_=size), commit
    )
    claims = (tag("section", *_claim(report, number, explain), id=f"claim-{number}", class_="claim",
                  aria_labelledby=f"claim-{number}-title") for number in range(len(report.rows)))  # fmt: skip
    overview = _overview(report) if len(report.rows) > 1 else ""
    yield tag("main", *_remarks(report), overview, merge.section(report.rows), *claims, _limits(report))
    yield tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights alone. {wording.MEANING}"))


def _verdicts(report: Report) -> str:
    return ", ".join(dict.fromkeys(row.verdict.words for row in report.rows)) or "Nothing declared"


def _remarks(report: Report) -> Iterator[Markup]:
    """What concerns no single claim: nothing declared, files that disagree."""
    if not report.rows:
        yield tag("p", wording.NOTHING_DECLARED, class_="remark")
    for conflict in report.conflicts:
        yield tag("p", tag("strong", "Conflicting claims: "), printable(conflict), class_="remark")
    for note in report.notes:
        yield tag("p", printable(note), class_="remark")


def _overview(report: Report) -> Markup:
    rows = (
        (tag("a", identifier(row.claim.base), href=f"#claim-{number}"), _word(row), *figures(row))
        for number, row in enumerate(report.rows)
    )
    return tag(
        "section",
        tag("h2", f"{len(report.rows)} claims"),
        _table(("Base", "Verdict", "Score", "Inherited", "p-value"), rows, "all claims"),
    )


def _claim(report: Report, number: int, explain: bool) -> Iterator[Markup]:
    row, name = report.rows[number], f"claim-{number}"
    yield _banner(report, row, f"{name}-title")
    for path, evidence in row.verdict.evidence.items():
        several = f": {row.verdict.by_path[path].words}" if len(row.verdict.evidence) > 1 else ""
        yield tag("h3", "Evidence along the path ", tag("code", path), several)
        yield _evidence(evidence, row.layers, f"{name}-{path}", explain)
    if row.verdict.framed:
        yield tag("h3", "Evidence in the hidden units")
        yield from map(_sentence, units.sentences(row.verdict.framed))
    if row.verdict.trace:
        yield tag("h3", "Evidence in the adapter")
        yield _traced(row, row.verdict.trace, explain)
    yield tag("h3", "What is claimed, and where")
    yield _claimed(report, row)
    yield tag("h3", "Check it yourself")
    yield tag("pre", tag("code", _command(report, row)), tabindex=0, role="region", aria_label="command")


def _banner(report: Report, row: Row, name: str) -> Markup:
    shown = KINDS[row.verdict.kind]
    reason = wording.reason(row)
    return tag(
        "div",
        tag("p", _sign(shown.tone), _word(row), class_="verdict"),
        tag("h2", f"{shown.headline} ", identifier(row.claim.base), id=name),
        tag("p", shown.says),
        tag("p", tag("strong", "Reason: "), reason, class_="reason") if reason else "",
        tag("p", shown.says_not, class_="muted"),
        tiles(report, row),
        *(tag("p", f"{sentence}.", class_="muted") for sentence in _remarks_on(row)),
        class_=f"banner {shown.tone}",
    )


def _remarks_on(row: Row) -> Iterator[str]:
    about = wording.about(row)
    yield from (*wording.left_out(row), *wording.origins(row), *wording.reading(row), *waivers.sentences(row, about))


def _word(row: Row) -> Markup:
    return tag("span", row.verdict.words, class_=f"word {KINDS[row.verdict.kind].tone}")


def _sign(tone: str) -> Markup:
    return tag("svg", tag("circle", cx=12, cy=12, r=12), tag("path", d=SIGNS[tone]),
               **{"class": "sign", "viewBox": "0 0 24 24", "aria-hidden": "true"})  # fmt: skip


def _evidence(evidence: Evidence, layers: int | None, name: str, explain: bool) -> Markup:
    sentences = map(_sentence, numbers.null_sentences(evidence))
    cells = map(numbers.layer_cells, numbers.layer_rows(evidence))
    table = _table(numbers.LAYER_COLUMNS, cells, "layer by layer")
    unread = UNREAD if evidence.analyses > 1 and layers is not None and evidence.read < layers else ""
    return joined(
        tag("div",
            _figure("Which layers are alike", heat_map(evidence, f"{name}-heat"), HEAT_MAP, "map"),
            _figure("What is inherited", inheritance(evidence, layers, f"{name}-share"), f"{INHERITED}{unread}")
            if evidence.inherited else "",
            _figure("Could it be chance?", histogram(evidence.permutation, f"{name}-null"), HISTOGRAM),
            _figure("A profile of each model", concentration(evidence, f"{name}-trace"), CONCENTRATION),
            tag("div", tag("h4", "In numbers"), *sentences, class_="numbers"),
            class_="figures"),
        tag("details", tag("summary", "All numbers, layer by layer"), table, open="" if explain else None),
    )  # fmt: skip


def _sentence(sentence: str) -> Markup:
    return tag("p", f"{sentence[0].upper()}{sentence[1:]}.", class_="exact")


def _traced(row: Row, trace: Trace, explain: bool) -> Markup:
    by_layer = _table(adapter.layer_columns(trace), adapter.layer_cells(trace), "projection by layer")
    return joined(
        tag("p", TRACE, class_="muted"),
        _table(adapter.COLUMNS, adapter.cells(trace), "by projection"),
        tag("div", tag("h4", "In numbers"), *map(_sentence, adapter.sentences(trace, row.layers)), class_="numbers"),
        tag("details", tag("summary", "All numbers, layer by layer"), by_layer, open="" if explain else None),
    )


def _figure(title: str, picture: Markup, caption: str, kind: str | None = None) -> Markup:
    return tag("figure", tag("h4", title), picture, tag("figcaption", caption), class_=kind)


def _claimed(report: Report, row: Row) -> Markup:
    base, claim = row.base_revision, row.claim
    facts = (
        ("Model", identifier(report.model)),
        ("Commit of the model", tag("code", report.revision) if report.revision else NO_COMMIT),
        ("Base", identifier(claim.base)),
        ("Commit of the base", tag("code", base) if base else NO_COMMIT),
        *((("Compared in its place", identifier(row.compared)),) if row.steps else ()),
        ("Relation", identifier(claim.relation) if claim.relation else "not stated"),
        ("Declared in", joined(*_listed(claim.sources))),
        *licences.facts(report, row),
    )
    return tag("dl", *(joined(tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _listed(sources: tuple[str, ...]) -> Iterator[Markup]:
    for number, source in enumerate(sources):
        yield joined(", " if number else "", tag("code", source))


def _command(report: Report, row: Row) -> str:
    hub, seed = report.options.local_hub, report.options.order_seed
    drawn = seed is not None and any(map(numbers.drawn, row.verdict.evidence.values()))
    besides = (f" --order-seed {seed}" if drawn else "") + (f" --local-hub {shlex.quote(str(hub))}" if hub else "")
    return f"$ {record.command(report.model, report.revision, row, report.options, {})}{besides}"


def _limits(report: Report) -> Markup:
    return tag(
        "section",
        tag("h2", "Limits"),
        tag("ul", *(tag("li", limit) for limit in wording.LIMITS)),
        tag("p", wording.settings(report), class_="exact"),
        class_="limits",
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in columns)))
    body = (tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows)
    table = tag("table", tag("caption", name, class_="hidden"), head, tag("tbody", *body))
    return tag("div", table, class_="scroll", role="region", aria_label=name, tabindex=0)
