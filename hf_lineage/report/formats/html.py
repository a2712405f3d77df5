"""A report that people open: one self-contained page without scripts, readable on a phone, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hf_lineage import __version__
from hf_lineage.checking import Report
from hf_lineage.checking.results import moment
from hf_lineage.errors import printable
from hf_lineage.report.findings import Finding, describe_report
from hf_lineage.report.page import (
    CAPTIONS,
    Markup,
    View,
    code,
    commit_of_base,
    commit_of_model,
    document,
    folded_claim,
    identifier,
    is_shown_apart,
    joined,
    overview,
    show,
    tag,
    time_of,
    whole,
    whole_claim,
    without_hint,
)
from hf_lineage.report.page import family_tree as family
from hf_lineage.report.words import GIVEN, advice, limits, public, wording
from hf_lineage.report.words import commands as command

LONG = 80
"""Letters from which a name is no headline any more."""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    repeat, time = command.of_report(report, "--format", "html"), moment(report.checked_at)
    report = replace(public(report), checked_at=time)
    title = f"{_verdicts(report)}: lineage of {printable(report.model, 200)}"
    return document(title, _header(report), tag("main", *_main(report, explain, repeat)), _footer())


def _header(report: Report) -> Markup:
    size = "long" if len(report.model) > LONG else None
    commit = commit_of_model(report, ", at commit ") if report.commit else ""
    return tag(
        "header",
        tag("p", "Lineage report", class_="eyebrow"),
        tag("h1", identifier(report.model), class_=size),
        tag("p", "Checked on ", time_of(report.checked_at), commit, class_="commit"),
    )


def _main(report: Report, explain: bool, repeat: str) -> Iterator[Markup]:
    several = len(report.rows) > 1
    if not report.rows:
        yield _undeclared()
    if several:
        yield overview(report, family.figure(report))
    yield from (_finding(one, explain) for _, one in describe_report(report) if is_shown_apart(one))
    views = [View(number, explain, captions=not several) for number in range(len(report.rows))]
    yield from (folded_claim(report, view) if several else whole_claim(report, view) for view in views)
    if several and any(row.verdict.evidence for row in report.rows):
        yield _captions()
    yield _remarks(report)
    yield _limits(report)
    yield _made(report, repeat)


def _footer() -> Markup:
    return tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights alone. {wording.MEANING}"))


def _verdicts(report: Report) -> str:
    return ", ".join(dict.fromkeys(row.verdict.words for row in report.rows)) or "Nothing declared"


def _undeclared() -> Markup:
    files = "No base stands in README.md, adapter_config.json or mergekit_config.yml"
    heading = tag("h2", "Nothing is declared")
    steps = tag("ul", *(tag("li", sentence) for sentence in advice.UNDECLARED), class_="advice")
    return tag("section", heading, tag("p", f"{files}."), tag("h3", "What to do next"), steps)


def _remarks(report: Report) -> Markup:
    """What concerns no single claim, below the verdicts."""
    findings = (one for _, one in describe_report(report) if not is_shown_apart(one))
    sentences = (*(sentence for one in findings for sentence in one.statements), *wording.remarks(report))
    remarks = [tag("li", whole(without_hint(remark))) for remark in sentences]
    points = tag("ul", *remarks, class_="remarks")
    return tag("section", tag("h2", "Remarks on the whole model"), points) if remarks else Markup("")


def _finding(finding: Finding, explain: bool) -> Markup:
    return tag("section", tag("h2", finding.title), *show(finding, explain=explain))


def _captions() -> Markup:
    """What each picture means, once for all claims."""
    parts = (joined(tag("dt", title), tag("dd", caption)) for title, caption in CAPTIONS.items())
    folded = tag("details", tag("summary", tag("h2", "How to read the pictures")), tag("dl", *parts, class_="captions"))
    return tag("section", folded, class_="reading")


def _limits(report: Report) -> Markup:
    sentences = limits.of(report)
    points = tag("ul", *(tag("li", sentence) for sentence in sentences))
    return tag("section", tag("h2", "Limits"), points, class_="limits") if sentences else Markup("")


def _commits(report: Report) -> Iterator[tuple[str, Markup]]:
    """The commits of all models, each once; a claim by itself has those of its own."""
    yield "Model", joined(identifier(report.model), commit_of_model(report, ", commit ", ", "))
    bases = {row.claim.base: row for row in reversed(report.rows)}
    for row in reversed(bases.values()):
        yield "Base", joined(identifier(row.claim.base), commit_of_base(row, ", commit ", ", "))


def _made(report: Report, repeat: str) -> Markup:
    """When, by what and of what the page was made, so that it can be filed, and made again."""
    facts = [
        ("Checked on", time_of(report.checked_at)),
        ("Checked by", f"hf-lineage {__version__}"),
        *(_commits(report) if len(report.rows) > 1 else ()),
    ]
    measured = any(row.verdict.evidence or row.verdict.framed or row.verdict.trace for row in report.rows)
    return tag(
        "section",
        tag("h2", "How this page was made"),
        tag("dl", *(joined(tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts"),
        tag("p", GIVEN, class_="exact") if report.as_name else "",
        code(f"$ {repeat}", "command that makes this page"),
        tag("p", wording.settings(report), class_="exact") if measured else "",
        class_="made",
    )
