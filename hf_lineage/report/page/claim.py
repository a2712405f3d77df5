"""One claim on the page: the verdict and what it means, what to do next, the evidence, and what is claimed where."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.hub import addresses, hub_name
from hf_lineage.report.findings import describe_claim
from hf_lineage.report.page import family_tree as family
from hf_lineage.report.page.evidence import View, evidence
from hf_lineage.report.page.finding import is_shown_apart, without_hint
from hf_lineage.report.page.markup import Markup, identifier, joined, tag
from hf_lineage.report.page.page import code, linked, sign, whole, word
from hf_lineage.report.page.tiles import tiles
from hf_lineage.report.words import KINDS, advice, wording
from hf_lineage.report.words import commands as command

FOLDER, STORED, UNREAD = "read from a folder", "given as a stored signature", "nothing of it was read"
"""Why a model has no commit."""
NOT_DECLARED = "nowhere: whoever ran the check named it"


def whole_claim(report: Report, view: View) -> Markup:
    """Return a section with everything about the only claim."""
    row, title = report.rows[view.number], f"{view.name}-title"
    headline = tag("h2", _headline(row), identifier(row.claim.base), id=title)
    verdict = tag("p", sign(KINDS[row.verdict.kind].tone), word(row.verdict), class_="verdict")
    content = (_banner(report, row, verdict, headline, family.figure(report)), *_details(report, row, view))
    return tag("section", *content, id=view.name, class_="claim", aria_labelledby=title)


def folded_claim(report: Report, view: View) -> Markup:
    """Return one of several claims, folded below its verdict; following a link to it unfolds it."""
    row = report.rows[view.number]
    tone = KINDS[row.verdict.kind].tone
    headline = tag(
        "h2", word(row.verdict), " ", tag("span", _headline(row), class_="hidden"), identifier(row.claim.base)
    )
    body = (_banner(report, row), *_details(report, row, view))
    summary = tag("summary", sign(tone), headline)
    return tag("details", summary, tag("div", *body, id=view.name), class_=f"claim {tone}")


def commit_of_model(report: Report, before: str = "", without: str = "none: ") -> Markup:
    """Return the commit of the model, with a link to the Hub where the model is there; or why there is none.

    `before` stands before a commit, `without` before the reason.
    """
    if report.commit is None:
        return joined(without, STORED if report.source is None else FOLDER)
    remote = report.source.remote if report.source else None
    return joined(before, linked(tag("code", report.commit), addresses.files_at(remote, report.commit)))


def commit_of_base(row: Row, before: str = "", without: str = "none: ") -> Markup:
    """Return the commit of the base likewise."""
    stored = row.base_origin is not None and row.base_origin.kind == "file"
    if row.base_commit is None:
        return joined(without, STORED if stored else FOLDER if row.base_origin else UNREAD)
    name = None if stored else hub_name(row.claim.base)
    return joined(before, linked(tag("code", row.base_commit), addresses.files_at(name, row.base_commit)))


def state_beside(report: Report, row: Row) -> Iterator[str]:
    """Yield what findings say that belongs beside the verdict."""
    for _, finding in describe_claim(report, row):
        if finding.in_verdict:
            yield from (*finding.sentences, *finding.details)


def _headline(row: Row) -> str:
    return f"{KINDS[row.verdict.kind].headline} "


def _banner(report: Report, row: Row, *above: Markup) -> Markup:
    shown = KINDS[row.verdict.kind]
    reason = "" if row.verdict.kind is Kind.ADAPTER else wording.reason(row)
    return tag(
        "div",
        *above,
        *(tag("p", whole(sentence), class_="descent") for sentence in state_beside(report, row)),
        tag("p", shown.says),
        tag("p", tag("strong", "Reason: "), whole(reason), class_="reason") if reason else "",
        tag("p", shown.says_not, class_="muted"),
        tiles(report, row),
        class_=f"banner {shown.tone}",
    )


def _details(report: Report, row: Row, view: View) -> Iterator[Markup]:
    yield tag("h3", "What to do next")
    yield tag("ul", *(tag("li", sentence) for sentence in advice.NEXT[row.verdict.kind]), class_="advice")
    yield from evidence(report, row, view)
    if remarks := list(dict.fromkeys(_remarks(report, row))):
        yield tag("h3", "What else was seen")
        yield tag("ul", *(tag("li", whole(remark)) for remark in remarks), class_="remarks")
    yield tag("h3", "What is claimed, and where")
    yield _claimed(report, row)
    if (again := command.of_claim(report, row)) != command.of_report(report):
        yield tag("h3", "Check it yourself")
        yield code(f"$ {again}", view.of("command"))


def _remarks(report: Report, row: Row) -> Iterator[str]:
    """What was seen besides, without the name of the model or of the base in front, which the headlines have."""
    about, model = wording.about(row), printable(report.model, 200)
    findings = (one for _, one in describe_claim(report, row) if not (is_shown_apart(one) or one.in_verdict))
    sentences = (
        *(sentence for one in findings for sentence in one.sentences),
        *map(printable, row.notes),
        *wording.left_out(row),
        *wording.origins(row),
        *wording.reading(row),
    )
    for sentence in sentences:
        yield without_hint(sentence.removeprefix(f"{about}: ").removeprefix(f"{model}: "))


def _claimed(report: Report, row: Row) -> Markup:
    claim = row.claim
    facts = (
        ("Model", identifier(report.model)),
        ("Commit of the model", commit_of_model(report)),
        ("Base", identifier(claim.base)),
        ("Commit of the base", commit_of_base(row)),
        *((("Compared in its place", identifier(row.compared)),) if row.steps else ()),
        ("Relation", identifier(claim.relation) if claim.relation else "not stated"),
        ("Declared in", NOT_DECLARED if claim.sources == NAMED else joined(*_listed(claim.sources))),
    )
    return tag("dl", *(joined(tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _listed(sources: tuple[str, ...]) -> Iterator[Markup]:
    for number, source in enumerate(sources):
        yield joined(", " if number else "", tag("code", source))
