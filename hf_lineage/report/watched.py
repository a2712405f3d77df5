"""What a run of `watch` found, or is about to check, as one page in any format.

Names written by strangers are escaped, and nothing is longer than a step summary may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.ledger import SCHEMA_VERSION, Entry
from hf_lineage.releases import Release
from hf_lineage.report import markdown as md
from hf_lineage.report import text as txt
from hf_lineage.report import wording
from hf_lineage.report.encoding import indented
from hf_lineage.report.section import NONE, figures, share
from hf_lineage.verdict import KINDS, SEVERITY, ExitCode, Verdict

MOST_ROWS = 200
"""Of a table, and sentences under it: what a step summary of 1 MiB holds, however long the names are."""
ERROR, VERDICT = "ERROR", "Verdict"
_CODES = {each.__name__.upper(): each().exit_code for each in Verdict.__subclasses__()} | {ERROR: ExitCode.ERROR}
_KINDS = {kind.name: kind.words for kind in KINDS}
_WORDS = {
    ExitCode.RELATED: "RELATED",
    ExitCode.UNRELATED: "UNRELATED",
    ExitCode.UNDECIDED: "undecided",
    ExitCode.ERROR: "in error",
}


@dataclass(frozen=True)
class Plan:
    """What is to be checked, the oldest change first, and what is not."""

    releases: tuple[Release, ...]
    known: int
    """Models whose commit is in the ledger already."""
    left: int
    """Models that are left for the next run."""
    problems: tuple[str, ...]
    """What cannot even be listed."""


@dataclass(frozen=True)
class Run:
    """What a run added to a ledger, and what the ledger says now."""

    entries: tuple[Entry, ...]
    known: int
    """Models whose commit was in the ledger already."""
    left: int
    """Models that are left for the next run."""
    problems: tuple[str, ...]
    """What could not even be recorded."""
    latest: tuple[Entry, ...]
    """Of every model in the ledger its last entry."""

    @property
    def exit_code(self) -> ExitCode:
        """The worst of the entries; what declares nothing claims nothing that could be wrong."""
        codes = {outcome(entry) for entry in self.entries} | ({ExitCode.ERROR} if self.problems else set())
        return max(codes, key=SEVERITY.index, default=ExitCode.RELATED)


@dataclass(frozen=True)
class Page:
    """What is told, whatever the format."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    sentences: Sequence[str]
    document: dict[str, Any]


def outcome(entry: Entry) -> ExitCode:
    """The worst of the claims of a model, an error where it could not be checked."""
    return max((result.code for result in _results(entry)), key=SEVERITY.index, default=ExitCode.RELATED)


def planned(plan: Plan) -> Page:
    """Return what is to be checked."""
    rows = [(each.model, each.commit[:12], f"{each.changed:%Y-%m-%d %H:%M}") for each in plan.releases]
    total = f"{len(plan.releases)} models would be checked.{_besides(plan)}"
    document = {"to_check": plan.releases, "known": plan.known, "left": plan.left, "problems": plan.problems}
    return Page(("Model", "Commit", "Changed"), *_shown(rows, plan.problems, total), document)


def found(run: Run) -> Page:
    """Return what is new, the worst first."""
    results = [(entry.model, result) for entry in run.entries for result in _results(entry)]
    results.sort(key=lambda each: (-SEVERITY.index(each[1].code), each[0]))
    rows = [(model, result.base, *result.figures, result.words) for model, result in results]
    reasons = dict.fromkeys(_about(model, result.reason) for model, result in results if result.reason)
    counts = Counter(_WORDS[result.code] for _, result in results)
    silent = sum(not (entry.error or entry.claims) for entry in run.entries)
    told = ", ".join(f"{counts[word]} {word}" for word in _WORDS.values())
    total = f"{len(run.entries)} models are new: {told}; {silent} declare nothing.{_besides(run)}"
    document = {
        "exit_code": int(run.exit_code),
        "counts": {word: counts[word] for word in _WORDS.values()},
        "entries": run.entries,
        "known": run.known,
        "left": run.left,
        "problems": run.problems,
    }
    columns = ("Model", "Declared base", "Score", "Inherited", "p", VERDICT)
    return Page(columns, *_shown(rows, (*reasons, *run.problems), total), document)


def text(page: Page) -> str:
    """Return a page with a table of at most 80 columns."""
    rows = map(txt.folded, page.rows) if page.columns[-1] == VERDICT else page.rows
    table = txt.table(page.columns, rows, numeric=(2, 3, 4)) if page.rows else ""
    return "\n".join(filter(None, (table, *map(txt.wrapped, page.sentences)))) + "\n"


def markdown(page: Page) -> str:
    """Return a page for a step summary."""
    table = [md.table(page.columns, page.rows)] if page.rows else []
    blocks = ("### Lineage of what changed", *table, *map(md.escaped, page.sentences), f"<sub>{wording.MEANING}</sub>")
    return "\n\n".join(blocks) + "\n"


def json(page: Page) -> str:
    """Return a page for programs, all of it; entries are as they stand in the ledger."""
    said = {"schema_version": SCHEMA_VERSION, "tool": {"name": "hf-lineage", "version": __version__}} | page.document
    return indented(said)


FORMATS: dict[str, Callable[[Page], str]] = {"text": text, "json": json, "markdown": markdown}


class _Result(NamedTuple):
    """What became of one claim, or of a model that could not be checked."""

    words: str
    base: str
    figures: tuple[str, str, str]
    reason: str
    code: ExitCode


def _results(entry: Entry) -> Iterator[_Result]:
    if entry.error:
        yield _Result(ERROR, NONE, (NONE, NONE, NONE), entry.error, ExitCode.ERROR)
    for claim in entry.claims:
        verdict = claim.verdict if claim.verdict in _CODES else ERROR
        score, p_value = figures(claim.score, claim.p_value)
        yield _Result(
            _KINDS.get(claim.kind or "", verdict),
            printable(claim.base, 200),
            (score, share(claim.inherited), p_value),
            claim.reason,
            _code(claim.exit_code, verdict),
        )


def _code(known: int | None, verdict: str) -> ExitCode:
    """The code in a ledger, or that of the verdict where it holds none that there is."""
    return ExitCode(known) if known in set(ExitCode) else _CODES[verdict]


def _about(model: str, reason: str) -> str:
    return printable(reason if reason.startswith(model) else f"{model}: {reason}", 500)


def _besides(what: Plan | Run) -> str:
    known = f" {what.known} more are in the ledger already." if what.known else ""
    return known + (f" {what.left} are left for the next run." if what.left else "")


def _shown(
    rows: Sequence[tuple[str, ...]], sentences: Sequence[str], total: str
) -> tuple[Sequence[tuple[str, ...]], list[str]]:
    """As much as there is room for, and how much is not shown."""
    hidden = sum(max(0, len(lines) - MOST_ROWS) for lines in (rows, sentences))
    more = [f"{hidden} more lines are not shown; --format json has them all."] if hidden else []
    return rows[:MOST_ROWS], [*sentences[:MOST_ROWS], *more, total]
