"""Findings: their table, of which every report prints all; descent in words; and the summary of a claim.

How it was made is as the weights show it, beside the relation that it declares.

Beside it everything that a report says below the table of claims, and what became of one claim in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Finding, Row
from hf_lineage.errors import printable
from hf_lineage.evidence.relation import Derivation
from hf_lineage.evidence.verdict import Evidence, Verdict
from hf_lineage.report import wording
from hf_lineage.report.verdicts import advise, texts_of
from hf_lineage.report.wording import whole


def describe_descent(_report: Report, row: Row) -> Finding | None:
    """Return which layers come from the base that was compared; None if the two are not RELATED, or nobody knows."""
    details = tuple(_sentences(row, None if row.verdict.by_units else row.verdict.decisive))
    brief = details[0] if details and row.verdict.verified else ""
    return Finding("Descent", wording.about(row), details=details, in_verdict=True, brief=brief) if details else None


def _sentences(row: Row, evidence_of: str | None) -> Iterator[str]:
    """Yield which layers come from the base; `evidence_of` is the path that decided, None where hidden units decide."""
    if not row.verdict.is_related or row.verdict.trace:
        return
    if evidence_of is None:
        framed = row.verdict.framed
        if framed:
            inherited = _inherited(framed.layers[1], framed.inherited.layers)
            yield _counted(inherited, len(framed.layers[1]), framed.depth)
        return
    evidence = row.verdict.evidence[evidence_of]
    if evidence.inherited is None:
        return
    depth = row.layers if evidence.analyses > 1 and row.layers else evidence.read
    yield _counted(_inherited(evidence.layers[1], evidence.inherited.layers), evidence.read, depth)
    for layers in wording.came_from(evidence):
        yield f"Counted in the model, then in the base: {layers}"


def list_layers(layers: Sequence[int]) -> str:
    """Return ascending numbers of layers as people say them.

    >>> list_layers([3]), list_layers([1, 4]), list_layers([0, 1, 2, 5, 7, 8])
    ('layer 3', 'layers 1 and 4', 'layers 0 to 2, 5, 7 and 8')
    """
    among = set(layers)
    starts = [layer for layer in layers if layer - 1 not in among]
    ends = [layer for layer in layers if layer + 1 not in among]
    runs = zip(starts, ends, strict=True)
    parts = [part for a, b in runs for part in ([f"{a} to {b}"] if b > a + 1 else dict.fromkeys(map(str, (a, b))))]
    *most, last = parts
    before = f"{', '.join(most)} and " if most else ""
    return f"layer{'' if len(layers) == 1 else 's'} {before}{last}"


def _inherited(layers: Sequence[int], rows: Sequence[int]) -> list[int]:
    """Return the numbers of the layers of which more than half is inherited."""
    return sorted(layers[row] for row in rows)


def _counted(inherited: Sequence[int], read: int, depth: int) -> str:
    """Return how many layers of those that were read come from the base, and which."""
    count, rest = len(inherited), read - len(inherited)
    of_read = "" if read == depth else f" that were read, of {depth},"
    if count == 0:
        return f"None of the {read} layers{of_read} comes from it by more than half"
    verb = "comes" if count == 1 else "come"
    if rest == 0:
        return f"{f'All {read} layers' if read > 1 else 'The only layer'}{of_read} {verb} from it"
    if of_read:
        return f"Of the {read} layers{of_read} {list_layers(inherited)} {verb} from it"
    others = "the other one does not" if rest == 1 else f"the other {rest} do not"
    words = list_layers(inherited)
    return f"{words[0].upper()}{words[1:]} of {depth} {verb} from it; {others}"


def describe_relation(_report: Report, row: Row) -> Finding | None:
    """Return how a model was made from its base; None where that was not measured."""
    if row.derivation is None:
        return None
    evidence = wording.best(row)
    where = "in the layers that are inherited, " if evidence and 0 < len(evidence.origins) < evidence.read else ""
    declared = f"; declared: {printable(row.claim.relation, 40)}" if row.claim.relation else ""
    made = f"{where}{row.derivation.words}"
    seen, brief = f"relation seen: {made}{declared}", f"how it was made: {made}"
    return Finding("Relation", wording.about(row), (seen,), values=_values(row.derivation), brief=brief)


def _values(derivation: Derivation) -> dict[str, Any]:
    """Return the same for machines; null if it is not known."""
    return {
        "means": [means.value for means in derivation.means],
        "words": derivation.words,
        "bits": derivation.bits or derivation.stored_bits or None,
        "zeros": derivation.zeros or None,
        "rank": derivation.rank,
        "matrices": len(derivation.changes),
        "changed": len(derivation.changed),
    }


OfClaim = Callable[[Report, Row], Finding | None]
OfReport = Callable[[Report], Finding | None]


@dataclass(frozen=True)
class Maker:
    """Functions that describe one kind of finding: in each claim, in a report as a whole, or in both."""

    name: str
    of_claim: OfClaim | None = None
    of_report: OfReport | None = None
    claim_key: str = ""
    """The key of its values in a claim of the JSON report; empty where they stand under `findings`."""
    report_key: str = ""
    """Likewise in the report."""
    absent: Any = None
    """The value of `claim_key` if there is no finding."""


def _late(module: str, measured: Callable[[Any], object], name: str) -> Callable[..., Finding | None]:
    """Return a function that describes, in a module imported on demand, what few claims or reports have."""
    return lambda *about: (
        None if measured(about[-1]) is None else getattr(import_module(f"{__package__}.{module}"), name)(*about)
    )


POLICY = _late("executed", lambda report: report.policy, "describe_policy")
WAIVER = _late("executed", lambda row: row.waiver, "describe_waiver")
UNMET = _late("executed", lambda row: row.unmet or None, "describe_unmet")


MAKERS = (
    Maker("strict", _late("executed", lambda row: row.verdict.strict, "describe_strict"), claim_key="strict"),
    Maker("blend", of_report=_late("merges", lambda report: report.blended, "describe_shares"), report_key="blend"),
    Maker("parts", of_report=_late("units", lambda report: report.parts or None, "describe_parts")),
    Maker("descent", describe_descent),
    Maker("adapter", _late("units", lambda row: row.verdict.trace, "describe_adapter"), claim_key="adapter"),
    Maker(
        "merge",
        _late("merges", lambda row: row.parent, "describe_parent"),
        _late("merges", lambda report: any(row.parent for row in report.rows) or None, "describe_merge"),
        claim_key="parent",
    ),
    Maker("units", _late("units", lambda row: row.verdict.framed, "describe_units"), claim_key="units"),
    Maker("equal", _late("executed", lambda row: row.verdict.equal, "describe_equal")),
    Maker("executed", _late("executed", lambda row: row.verdict.executed, "describe_executed"), claim_key="executed"),
    Maker("relation", describe_relation, claim_key="relation_seen"),
    Maker("waiver", WAIVER, POLICY, "waiver", "policy"),
    Maker("unmet", UNMET, claim_key="unmet", absent=[]),
)
"""In the order in which reports print them."""


def describe_claim(report: Report, row: Row) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of one claim of a report, with what made it."""
    for maker in MAKERS:
        if maker.of_claim and (finding := maker.of_claim(report, row)):
            yield maker, finding


def describe_report(report: Report) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of a report that concerns no single claim, with what made it."""
    for maker in MAKERS:
        if maker.of_report and (finding := maker.of_report(report)):
            yield maker, finding


def place_claim(report: Report, row: Row) -> tuple[dict[str, Any], dict[str, Finding]]:
    """Return the values of a claim by their keys in the JSON report, and by name the findings that have no such key."""
    absent = {maker.claim_key: maker.absent for maker in MAKERS if maker.claim_key}
    triples = [(maker.name, maker.claim_key, finding) for maker, finding in describe_claim(report, row)]
    return _placed(absent, triples)


def place_report(report: Report) -> tuple[dict[str, Any], dict[str, Finding]]:
    """Return the same of what concerns no single claim."""
    absent = {maker.report_key: None for maker in MAKERS if maker.report_key}
    triples = [(maker.name, maker.report_key, finding) for maker, finding in describe_report(report)]
    return _placed(absent, triples)


def _placed(
    absent: dict[str, Any], triples: Sequence[tuple[str, str, Finding]]
) -> tuple[dict[str, Any], dict[str, Finding]]:
    own = {key: finding.values for _, key, finding in triples if key}
    return absent | own, {name: finding for name, key, finding in triples if not key}


def state_outcome(row: Row) -> str:
    """Return what became of one claim in one sentence on one line."""
    from hf_lineage.report.executed import besides

    evidence, trace, framed = wording.best(row), row.verdict.trace, row.verdict.framed
    measured = f" ({wording.figures(evidence)})" if evidence else f" (p = {trace.p_value:.3g})" if trace else ""
    if framed and row.verdict.by_units:
        measured = f" ({wording.share_of_units(framed)} of its units inherited, p = {wording.order_p(framed)})"
    why = f": {wording.reason(row)}" if row.verdict.reason else ""
    return f"{wording.about(row)} is {row.verdict.label}{measured}{why}{besides(row)}"


def reasons(report: Report) -> Iterator[str]:
    """Yield the sentences that belong under the table: why a row is undecided, its findings, and what was read for it.

    A sentence about several rows stands there once.
    """
    shared, noted = _shared(report), set[str]()
    yield from state_first(report)
    for row in report.rows:
        if row.verdict.reason and (bases := shared.pop(wording.reason(row), None)):
            yield f"{', '.join(bases)}: {wording.reason(row)}"
        yield from (*wording.corrected(row), *wording.measured(row))
        for _, finding in describe_claim(report, row):
            yield from map(finding.named, finding.sentences)
        yield from (printable(note) for note in row.notes if note not in noted)
        noted |= {*row.notes}
        yield from (*wording.origins(row), *wording.reading(row))
    if not report.rows:
        yield wording.NOTHING_DECLARED
    for _, finding in describe_report(report):
        yield from () if finding.first else map(finding.named, finding.sentences)
    yield from wording.remarks(report)


def state_first(report: Report) -> Iterator[str]:
    """Yield what every report says before everything else."""
    for _, finding in describe_report(report):
        yield from map(finding.named, finding.sentences) if finding.first else ()


def state_all(report: Report) -> Iterator[str]:
    """Yield what all findings of a report say: what is said first, then claim by claim."""
    yield from state_first(report)
    for row in report.rows:
        for _, finding in describe_claim(report, row):
            yield from finding.statements
    for _, finding in describe_report(report):
        yield from () if finding.first else finding.statements


def _shared(report: Report) -> dict[str, list[str]]:
    """Return each reason, with the bases whose rows have it."""
    shared: dict[str, list[str]] = {}
    for row in report.rows:
        shared.setdefault(wording.reason(row), []).append(wording.about(row))
    return shared


DETAILS, NEXT = "Details: --explain", "Next: "
MOST = 2
"""Sentences of what is in doubt, or was not looked at."""


def summarize(report: Report) -> Iterator[str]:
    """Yield the lines of every claim, then what concerns them all; a line about several claims stands there once."""
    yield from map(whole, state_first(report))
    several = len({wording.about(row) for row in report.rows}) > 1
    lines: dict[str, list[str]] = {}
    for row in report.rows:
        for line in summarize_claim(report, row):
            lines.setdefault(line, []).append(wording.about(row))
    for line, bases in sorted(lines.items(), key=lambda one: one[0].startswith(NEXT)):
        names = ", ".join(dict.fromkeys(bases))
        named = f"Next for {names}: {line.removeprefix(NEXT)}" if line.startswith(NEXT) else f"{names}: {line}"
        yield named if several and len(bases) < len(report.rows) else line
    if not report.rows:
        yield wording.NOTHING_DECLARED
    yield from map(whole, wording.remarks(report))


def summarize_claim(report: Report, row: Row) -> Iterator[str]:
    """Yield what comes from the base and how the model was made, what is in doubt, and what to do next."""
    text, reason = texts_of(row.verdict), wording.reason(row)
    briefs = [finding.brief for _, finding in describe_claim(report, row) if finding.brief]
    head = briefs or [reason if row.verdict.verified and row.verdict.by_units else text.title]
    yield " ".join(map(whole, [*head, *_by_chance(row.verdict)]))
    doubts = list(_doubts(report, row))
    doubts = [*doubts[:MOST], *([f"{len(doubts) - MOST} more: --explain"] if len(doubts) > MOST else [])]
    if doubts:
        yield " ".join(map(whole, doubts))
    yield f"{NEXT}{advise(report, row)[0]}"


def _by_chance(verdict: Verdict) -> Iterator[str]:
    """Yield the highest score of independent models, where a path decided."""
    evidence = verdict.evidence.get(verdict.decisive or "")
    if evidence and verdict.is_related and not verdict.by_units:
        yield f"Unrelated models of this size score at most {_highest(evidence):.3f}"


def _highest(evidence: Evidence) -> float:
    empirical = evidence.empirical
    return empirical.threshold if empirical and empirical is evidence.first else evidence.permutation.range[1]


def _doubts(report: Report, row: Row) -> Iterator[str]:
    """Yield the reason of a verdict, the part of a policy that is not met, and files that were not looked at."""
    waiver, expired = row.waiver, row.expired
    if (reason := wording.reason(row)) and not row.verdict.verified:
        yield reason.partition("; ")[0] if row.verdict.is_related and row.verdict.evidence else reason
    yield from row.unmet
    if waiver:
        yield f"accepted until {waiver.expires}: {waiver.reason}"
    if expired:
        yield f"accepted only until {expired.expires}, and that day has passed"
    notes = (*row.own_code, *row.notes) if row.verdict.verified else row.notes  # otherwise the reason says it
    yield from (printable(note).removeprefix(f"{printable(report.model, 200)}: ") for note in notes)
