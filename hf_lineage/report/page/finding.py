"""Parts of a page: any finding with its tables, its picture and what it says; and the commit of a model.

A commit has its address where it is on the Hub, else the reason why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.hub import addresses, hub_name
from hf_lineage.report.findings import Bar, Finding
from hf_lineage.report.page.charts import interval_bar
from hf_lineage.report.page.templates import fill
from hf_lineage.signature.sources import Origin

HINTS = (
    *(
        "; --budget full reads all layers",
        "; --no-cache reads the weights again",
        "; --no-cache reads the weights",
    ),
    "; if you are the publisher, add --policy own",
)
"""Hints of reports for those who run the command, which a page leaves out."""


def without_hint(sentence: str) -> str:
    """Return a sentence without what it tells those who run the command.

    >>> without_hint("the signature comes from the cache; --no-cache reads the weights again")
    'the signature comes from the cache'
    """
    return next((sentence.removesuffix(hint) for hint in HINTS if sentence.endswith(hint)), sentence)


def is_shown_apart(finding: Finding) -> bool:
    """Return whether a finding has more than sentences, and a part of the page for it."""
    return bool(finding.tables or finding.picture or (finding.details and not finding.in_verdict))


def show(finding: Finding, named: str = "", explain: bool = False) -> Markup:
    """Return what is below the title of a finding; `named` stands before the names of its tables, `explain` unfolds."""
    return fill(
        "page/finding.html.j2",
        finding=finding,
        named=named,
        explain=explain,
        bars=[(bar.label, draw(bar)) for bar in finding.picture.bars] if finding.picture else (),
        sentences=[without_hint(one) for one in (*finding.sentences, *finding.details)],
    )


def draw(bar: Bar) -> Markup:
    """Return a bar from nothing to a share of the whole, with its interval; no bar where that is too wide."""
    label = f"{bar.value:.2f} ({bar.low:.2f} to {bar.high:.2f})"
    fill = "share pale" if bar.pale else "share"
    return interval_bar(label, bar.value if bar.clear else None, (bar.low, bar.high), "line", fill)


FOLDER, STORED, UNREAD = "read from a folder", "given as a stored signature", "nothing of it was read"


@dataclass(frozen=True)
class Commit:
    """One commit, or why there is none."""

    name: str | None
    address: str | None = None
    """Address of its files on the Hub; None for a model that is not there."""
    reason: str = ""
    """Why it has no name."""


def commit_of_model(report: Report, row: Row | None = None) -> Commit:
    """Return the commit of the model that was checked, or of the one that a row of several is about."""
    if row and row.model:
        return _commit(row.model, row.model_commit, row.model_origin)
    remote = report.source.remote if report.source else None
    address = addresses.files_at(remote, report.commit) if report.commit else None
    return Commit(report.commit, address, STORED if report.source is None else FOLDER)


def commit_of_base(row: Row) -> Commit:
    """Return the commit of the base; one that a stored signature names is not linked, nobody fetched it."""
    return _commit(row.claim.base, row.base_commit, row.base_origin)


def _commit(model: str, commit: str | None, origin: Origin | None) -> Commit:
    stored = origin is not None and origin.kind == "file"
    name = None if stored else hub_name(model)
    address = addresses.files_at(name, commit) if commit else None
    return Commit(commit, address, STORED if stored else FOLDER if origin else UNREAD)
