"""The results of a run of `watch`, or what it would check, as one page in any format.

Untrusted names are escaped, and a page is never longer than a step summary may be.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from hf_lineage import __version__
from hf_lineage.annotate import NONE, figures, share
from hf_lineage.errors import printable
from hf_lineage.evidence import SEVERITY, ExitCode, Kind
from hf_lineage.hub import Release
from hf_lineage.policy import NO_POLICY, Policy, Waiver, status
from hf_lineage.report.formats import markdown as md
from hf_lineage.report.formats import text as txt
from hf_lineage.report.words import indented, wording
from hf_lineage.watch import messages
from hf_lineage.watch.ledger import SCHEMA_VERSION, Claim, Entry
from hf_lineage.watch.messages import ERROR, VERDICT, Page

MOST_ROWS = 200
"""The most rows of the table and sentences under it, so that a step summary of 1 MiB holds them."""
_WORDS = {
    ExitCode.RELATED: "RELATED",
    ExitCode.UNRELATED: "UNRELATED",
    ExitCode.UNDECIDED: "undecided",
    ExitCode.ERROR: "in error",
}


@dataclass(frozen=True)
class Plan:
    """The models to check, the oldest change first, and the number of those left out."""

    releases: tuple[Release, ...]
    known: int
    """Models whose commit is in the ledger already."""
    left: int
    """Models that are left for the next run."""
    problems: tuple[str, ...]
    """Why a name could not be listed, one sentence each."""


@dataclass(frozen=True)
class Run:
    """The entries that a run added to a ledger, and the ledger's last entries after it."""

    entries: tuple[Entry, ...]
    known: int
    """Models whose commit was in the ledger already."""
    left: int
    """Models that are left for the next run."""
    problems: tuple[str, ...]
    """Failures that are not recorded in any entry."""
    latest: tuple[Entry, ...]
    """The last entry of every model in the ledger."""
    policy: Policy = NO_POLICY
    today: datetime.date = datetime.date.min
    """The day by which what the policy accepts has expired or not."""

    @property
    def exit_code(self) -> ExitCode:
        """The most severe exit code of the entries, or what the policy makes of it.

        A model that declares nothing counts as RELATED, and what could not be read or listed always fails.
        """
        if self.problems or any(entry.error for entry in self.entries):
            return ExitCode.ERROR
        results = [result for entry in self.entries for result in _results(entry, self)]
        worst = max((result.code for result in results), key=SEVERITY.index, default=ExitCode.RELATED)
        return status(worst, any(result.unmet for result in results), self.policy.fail_on or "undecided")

    def waiver(self, entry: Entry, claim: Claim) -> Waiver | None:
        """Return what accepts a claim, None if nothing does."""
        kind = Kind.parse(claim.kind, claim.verdict)
        return kind and self.policy.waiver(entry.model, claim.base, kind, claim.part, self.today)

    def open_entries(self) -> Iterator[Entry]:
        """Yield the last entry of every model without the claims that the policy accepts."""
        for entry in self.latest:
            claims = tuple(claim for claim in entry.claims if self.waiver(entry, claim) is None)
            yield msgspec.structs.replace(entry, claims=claims)


def outcome(entry: Entry) -> ExitCode:
    """Return the most severe exit code of a model's claims, an error if it could not be checked."""
    return max((result.code for result in _results(entry)), key=SEVERITY.index, default=ExitCode.RELATED)


def planned(plan: Plan) -> Page:
    """Return the page of a plan."""
    rows = [(release.model, release.commit[:12], f"{release.changed:%Y-%m-%d %H:%M}") for release in plan.releases]
    total = f"Models to check: {len(plan.releases)}.{_besides(plan)}"
    document = {"to_check": plan.releases, "known": plan.known, "left": plan.left, "problems": plan.problems}
    return Page(("Model", "Commit", "Changed"), *_shown(rows, plan.problems, total), document)


def results(run: Run) -> Page:
    """Return the page of a run, the most severe results first."""
    checked = [(entry.model, result) for entry in run.entries for result in _results(entry, run)]
    checked.sort(key=lambda pair: (-SEVERITY.index(pair[1].code), pair[0]))
    rows = [(model, result.base, *result.figures, result.words) for model, result in checked]
    reasons = dict.fromkeys(_about(model, result.reason) for model, result in checked if result.reason)
    besides = {
        "without a claim": sum(not (entry.error or entry.claims) for entry in run.entries),
        "in error": sum(bool(entry.error) for entry in run.entries),
    }
    judged = Counter(_WORDS[result.code] for entry in run.entries if entry.claims for result in _results(entry, run))
    counts = {word: judged[word] for word in _WORDS.values()}
    total = f"New models: {len(run.entries)} ({_told(besides)}). Claims: {_told(counts)}.{_besides(run)}"
    document = {
        "exit_code": int(run.exit_code),
        "models": {"new": len(run.entries)} | besides,
        "counts": counts,
        "entries": run.entries,
        "known": run.known,
        "left": run.left,
        "problems": run.problems,
        "accepted": [
            _accepted(entry, claim, run) for entry in run.entries for claim in entry.claims if run.waiver(entry, claim)
        ],
        "expired": list(_expired(run)),
    }
    columns = ("Model", "Declared base", "Score", "Inherited", "p", VERDICT)
    return Page(columns, *_shown(rows, (*reasons, *_expired(run), *run.problems), total), document)


def text(page: Page) -> str:
    """Return a page with a table of at most 80 columns."""
    rows = map(txt.folded, page.rows) if page.columns[-1] == VERDICT else page.rows
    table = txt.table(page.columns, rows, numeric=(2, 3, 4)) if page.rows else ""
    return "\n".join(filter(None, (table, *map(txt.wrapped, page.sentences)))) + "\n"


def markdown(page: Page) -> str:
    """Return a page for a step summary."""
    table = [md.markdown_table(page.columns, page.rows)] if page.rows else []
    blocks = (
        "### Lineage of what changed",
        *table,
        *map(md.paragraph, page.sentences),
        f"<sub>{wording.MEANING}</sub>",
    )
    return "\n\n".join(blocks) + "\n"


def json(page: Page) -> str:
    """Return a page as JSON, complete; its entries are those of the ledger."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hf-lineage", "version": __version__},
    } | page.document
    return indented(document)


FORMATS: dict[str, Callable[[Page], str]] = {
    "text": text,
    "json": json,
    "markdown": markdown,
    "slack": messages.slack,
    "discord": messages.discord,
}


class _Result(NamedTuple):
    """The result of one claim, or of a model that could not be checked."""

    words: str
    base: str
    figures: tuple[str, str, str]
    reason: str
    code: ExitCode
    unmet: bool = False


def _results(entry: Entry, run: Run | None = None) -> Iterator[_Result]:
    """The results of an entry, under the policy of a run if there is one."""
    if entry.error:
        yield _Result(ERROR, NONE, (NONE, NONE, NONE), entry.error, ExitCode.ERROR)
    for claim in entry.claims:
        kind = Kind.parse(claim.kind, claim.verdict)
        score, p_value = figures(claim.score, claim.p_value_adjusted)
        waiver = run and run.waiver(entry, claim)
        lacks = list(run.policy.lacks(kind, claim.relation)) if run and kind and not waiver else []
        besides = [f"accepted until {waiver.expires}: {waiver.reason}"] if waiver else lacks
        yield _Result(
            kind.words if kind else ERROR,
            printable(claim.base, 200),
            (score, share(claim.inherited.share if claim.inherited else None), p_value),
            "; ".join((claim.reason, *besides) if claim.reason else besides),
            ExitCode.RELATED if waiver else _code(claim.exit_code, kind),
            bool(lacks),
        )


def _accepted(entry: Entry, claim: Claim, run: Run) -> dict[str, Any]:
    waiver = run.waiver(entry, claim)
    acceptance = {"reason": waiver.reason, "expires": waiver.expires} if waiver else {}
    return {"model": entry.model, "base": claim.base, "verdict": claim.verdict} | acceptance


def _expired(run: Run) -> Iterator[str]:
    for waiver in run.policy.accepted:
        if waiver.expired(run.today):
            until = f"until {waiver.expires}, and that day has passed"
            yield f"{run.policy.source} accepts for {waiver.model} {waiver} {until}"


def _code(recorded: int | None, kind: Kind | None) -> ExitCode:
    """The exit code in a ledger entry, or that of the verdict if the entry has no valid one."""
    if recorded in set(ExitCode):
        return ExitCode(recorded)
    return kind.exit_code if kind else ExitCode.ERROR


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in counts.items())


def _about(model: str, reason: str) -> str:
    return printable(reason if reason.startswith(model) else f"{model}: {reason}", 500)


def _besides(what: Plan | Run) -> str:
    recorded = f" Models already in the ledger: {what.known}." if what.known else ""
    return recorded + (f" Models left for the next run: {what.left}." if what.left else "")


def _shown(
    rows: Sequence[tuple[str, ...]], sentences: Sequence[str], total: str
) -> tuple[Sequence[tuple[str, ...]], list[str]]:
    """At most MOST_ROWS rows and sentences, and a sentence with the number of those left out."""
    hidden = sum(max(0, len(lines) - MOST_ROWS) for lines in (rows, sentences))
    more = [f"{hidden} more lines are not shown; --format json has them all."] if hidden else []
    return rows[:MOST_ROWS], [*sentences[:MOST_ROWS], *more, total]
