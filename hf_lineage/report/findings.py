"""Findings: their table, of which every report prints all; descent in words; and what is said below the claims."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult, Finding
from hf_lineage.errors import printable
from hf_lineage.evidence.evaluate import name_layers
from hf_lineage.evidence.relation import Derivation
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.report import wording
from hf_lineage.report.verdicts import advise, texts_of


def describe_descent(_related: bool, row: ClaimResult, _report: Report) -> Finding | None:
    """Return which layers come from the base that was compared; None if nobody knows."""
    evidence, comparison = wording.best(row), row.verdict.unit_comparison
    if evidence is None and comparison:
        details = [_count_layers(comparison.layers[1], comparison.inherited.layers, comparison.depth)]
    elif evidence and evidence.inherited:
        depth = row.layers if evidence.analyses > 1 and row.layers else evidence.layers_read
        details = [_count_layers(evidence.layers[1], evidence.inherited.layers, depth)]
        details += [f"Counted in the model, then in the base: {layers}" for layers in wording.came_from(evidence)]
    else:
        return None
    brief = details[0] if row.verdict.verified else ""
    return Finding("Descent", wording.about(row), details=tuple(details), in_verdict=True, brief=brief)


def _count_layers(layers: Sequence[int], rows: Sequence[int], depth: int) -> str:
    """Return how many layers of those that were read come from the base by more than half, and which."""
    inherited, read = sorted(layers[row] for row in rows), len(layers)
    rest, of_read = read - len(inherited), "" if read == depth else f" that were read, of {depth},"
    if not inherited:
        return f"None of the {read} layers{of_read} comes from it by more than half"
    verb, words = "comes" if len(inherited) == 1 else "come", name_layers(inherited)
    if rest == 0:
        return f"{f'All {read} layers' if read > 1 else 'The only layer'}{of_read} {verb} from it"
    if of_read:
        return f"Of the {read} layers{of_read} {words} {verb} from it"
    others = "the other one does not" if rest == 1 else f"the other {rest} do not"
    return f"{words.capitalize()} of {depth} {verb} from it; {others}"


def describe_relation(derivation: Derivation, row: ClaimResult, _report: Report) -> Finding:
    """Return how a model was made from its base."""
    evidence, made = wording.best(row), derivation.words
    if evidence and 0 < len(evidence.origins) < evidence.layers_read:
        made = f"in the layers that are inherited, {made}"
    declared = f"; declared: {printable(row.claim.relation, 40)}" if row.claim.relation else ""
    sentence, brief = f"relation seen: {made}{declared}", f"how it was made: {made}"
    values: dict[str, Any] = {"means": [means.value for means in derivation.means], "words": derivation.words}
    values |= {"bits": derivation.bits or derivation.stored_bits or None, "zeros": derivation.zeros or None}
    counts = {"matrices": len(derivation.changes), "changed": len(derivation.changed_matrices)}
    values |= {"rank": derivation.rank, **counts}
    return Finding("Relation", wording.about(row), (sentence,), values=values, brief=brief)


class Maker(NamedTuple):
    """A function that describes one kind of finding, of a claim or of a report as a whole."""

    name: str
    measure: Callable[[Any], Any]  # returns what it describes, of a row or of a report; or nothing
    describe: Callable[..., Finding | None]  # takes what was measured and what it was measured of
    key: str = ""  # the key of its values in the JSON report; empty where they stand under `findings`
    absent: Any = None  # the value of `key` if there is no finding


def _late(module: str, name: str) -> Callable[..., Finding | None]:
    return lambda *about: getattr(import_module(f"{__package__}.{module}"), name)(*about)


OF_CLAIM = (
    Maker("strict", lambda row: row.verdict.strict, _late("executed", "describe_strict"), "strict"),
    Maker("descent", lambda row: row.verdict.is_related and not row.verdict.trace, describe_descent),
    Maker("adapter", lambda row: row.verdict.trace, _late("contributions", "describe_adapter"), "adapter"),
    Maker("merge", lambda row: row.parent, _late("contributions", "describe_parent"), "parent"),
    Maker("units", lambda row: row.verdict.unit_comparison, _late("contributions", "describe_units"), "units"),
    Maker("equal", lambda row: row.verdict.equal, _late("executed", "describe_equal")),
    Maker("executed", lambda row: row.verdict.executed, _late("executed", "describe_executed"), "executed"),
    Maker("relation", lambda row: row.derivation, describe_relation, "relation_seen"),
    Maker("waiver", lambda row: row.waiver, _late("executed", "describe_waiver"), "waiver"),
    Maker("unmet", lambda row: row.unmet, _late("executed", "describe_unmet"), "unmet", absent=[]),
)
OF_REPORT = (  # both in the order in which reports print findings
    Maker("blend", lambda report: report.blended, _late("contributions", "describe_shares"), "blend"),
    Maker("parts", lambda report: report.parts, _late("contributions", "describe_parts")),
    Maker("merge", lambda report: [row for row in report.rows if row.parent], _late("contributions", "describe_merge")),
    Maker("waiver", lambda report: report.policy, _late("executed", "describe_policy"), "policy"),
)


def describe_claim(report: Report, row: ClaimResult) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of one claim of a report, with what made it."""
    for maker in OF_CLAIM:
        if (measured := maker.measure(row)) and (finding := maker.describe(measured, row, report)):
            yield maker, finding


def describe_report(report: Report) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of a report that concerns no single claim, with what made it."""
    for maker in OF_REPORT:
        if (measured := maker.measure(report)) and (finding := maker.describe(measured, report)):
            yield maker, finding


def describe_waiver(row: ClaimResult) -> Iterator[str]:
    """Yield until which day a policy accepts a verdict, or accepted it."""
    if row.waiver:
        yield f"accepted until {row.waiver.expires}: {row.waiver.reason}"
    if row.expired:
        yield f"accepted only until {row.expired.expires}, and that day has passed"


def state_outcome(row: ClaimResult) -> str:
    """Return what became of one claim in one sentence on one line."""
    evidence, trace, comparison = wording.best(row), row.verdict.trace, row.verdict.unit_comparison
    measured = f" ({wording.figures(evidence)})" if evidence else f" (p = {trace.p_value:.3g})" if trace else ""
    if comparison and row.verdict.by_units:
        measured = f" ({wording.print_share(comparison)} of its units inherited, p = {wording.order_p(comparison)})"
    why = f": {wording.reason(row)}" if row.verdict.reason else ""
    besides = "".join(f"; {part}" for part in (*describe_waiver(row), *row.unmet))
    return f"{wording.about(row)} is {row.verdict.label}{measured}{why}{besides}"


def reasons(report: Report) -> Iterator[str]:
    """Yield the sentences under the table, each once: why a row is undecided, its findings, what was read for it."""
    stated, noted = set[str](), set[str]()
    yield from state_first(report)
    for row in report.rows:
        reason = wording.reason(row)
        if row.verdict.reason and reason not in stated:
            bases = (wording.about(other) for other in report.rows if wording.reason(other) == reason)
            yield f"{', '.join(bases)}: {reason}"
        stated.add(reason)
        yield from wording.describe_measures(row)
        for _, finding in describe_claim(report, row):
            yield from map(finding.prefix_about, finding.sentences)
        yield from (printable(note) for note in row.notes if note not in noted)
        noted |= {*row.notes}
        yield from wording.reading(row)
    if not report.rows:
        yield wording.NOTHING_DECLARED
    for _, finding in describe_report(report):
        yield from () if finding.first else map(finding.prefix_about, finding.sentences)
    yield from wording.remarks(report)


def state_first(report: Report) -> Iterator[str]:
    """Yield what every report says before everything else."""
    for _, finding in describe_report(report):
        yield from map(finding.prefix_about, finding.sentences) if finding.first else ()


def state_all(report: Report) -> Iterator[str]:
    """Yield what all findings of a report say: what is said first, then claim by claim."""
    yield from state_first(report)
    for row in report.rows:
        for _, finding in describe_claim(report, row):
            yield from finding.statements
    for _, finding in describe_report(report):
        yield from () if finding.first else finding.statements


def explain_findings(report: Report) -> Iterator[tuple[str, Finding | Evidence]]:
    """Yield what `--explain` adds for people, with its title: findings with more than sentences, and every path."""
    for row in (*report.rows, None):
        for _, finding in describe_claim(report, row) if row else describe_report(report):
            if finding.tables or finding.details or finding.picture:
                yield finding.prefix_about(finding.title), finding
        if row:
            yield from ((f"{wording.about(row)}, {path}", evidence) for path, evidence in row.verdict.evidence.items())


NEXT = "Next: "


def summarize(report: Report) -> Iterator[str]:
    """Yield the lines of every claim, then what concerns them all; a line about several claims stands there once."""
    yield from map(wording.whole, state_first(report))
    several = len({wording.about(row) for row in report.rows}) > 1
    lines: dict[str, list[str]] = {}
    for row in report.rows:
        for line in summarize_claim(report, row):
            lines.setdefault(line, []).append(wording.about(row))
    for line, bases in sorted(lines.items(), key=lambda one: one[0].startswith(NEXT)):
        names, advice = ", ".join(dict.fromkeys(bases)), line.removeprefix(NEXT)
        named = f"{names}: {line}" if advice == line else f"Next for {names}: {advice}"
        yield named if several and len(bases) < len(report.rows) else line
    if not report.rows:
        yield wording.NOTHING_DECLARED
    yield from map(wording.whole, wording.remarks(report))


def summarize_claim(report: Report, row: ClaimResult) -> Iterator[str]:
    """Yield what comes from the base and how the model was made, what is in doubt, and what to do next."""
    text, reason = texts_of(row.verdict), wording.reason(row)
    briefs = [finding.brief for _, finding in describe_claim(report, row) if finding.brief]
    head = briefs or [reason if row.verdict.verified and row.verdict.by_units else text.title]
    evidence = row.verdict.evidence.get(row.verdict.decisive or "")
    if evidence and row.verdict.is_related and not row.verdict.by_units:
        empirical = evidence.empirical
        highest = empirical.threshold if empirical and empirical is evidence.first else evidence.permutation.range[1]
        head.append(f"Unrelated models of this size score at most {highest:.3f}")
    yield " ".join(map(wording.whole, head))
    doubts = [*row.unmet, *describe_waiver(row)]
    if reason and not row.verdict.verified:
        doubts.insert(0, reason.partition("; ")[0] if row.verdict.is_related and row.verdict.evidence else reason)
    notes = (*row.own_code, *row.notes) if row.verdict.verified else row.notes  # otherwise the reason says it
    doubts += (printable(note).removeprefix(f"{printable(report.model, 200)}: ") for note in notes)
    if doubts[2:]:
        doubts[2:] = [f"{len(doubts) - 2} more: --explain"]
    if doubts:
        yield " ".join(map(wording.whole, doubts))
    yield f"{NEXT}{advise(report, row)[0]}"
