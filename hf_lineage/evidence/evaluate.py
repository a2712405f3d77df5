"""Evaluate: two signatures and criteria -> evidence -> verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hf_lineage.errors import printable
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.executed import RunOutcome
from hf_lineage.evidence.inherited import union_inherited
from hf_lineage.evidence.measure import Pair, measure
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.signature.values import Signature

if TYPE_CHECKING:
    from hf_lineage.evidence.executed import Strict
    from hf_lineage.evidence.verdict import Evidence


CHANCE = 0.1  # a shared basis or a narrow model alone can give a share up to this, but never more than half in a layer
SHARED_BASIS = (  # if hardly any unit is inherited; a student of hidden states reached scores of .13, with p at .001
    "the coordinates of both models mean the same; the cause may be a copied embedding, a common initialisation, "
    "much training since, a blend with another model or training on hidden states of the base"
)
ALIKE_IN_ALL = (
    "about the same in all layers; the cause may be a common initialisation, much training since or a blend with "
    "another model"
)


def evaluate(base: Signature, candidate: Signature, criteria: Criteria) -> Verdict:
    """Return the verdict on two signatures of one recipe and one width; nothing else is used."""
    return judge(measure([Pair.align(path, base, candidate) for path in criteria.paths], criteria), criteria)


def reserve(outcome: Verdict, reservations: Iterable[str]) -> Verdict:
    """Return a verdict on two models, inconclusive if a reservation forbids to verify or contradict a claim."""
    reasons = tuple(dict.fromkeys(reservations))
    if not reasons or not (outcome.is_related or outcome.code is Code.UNRELATED):
        return outcome
    measured = outcome.evidence, outcome.by_path
    return Verdict(Code.INCONCLUSIVE, "; ".join(reasons), *measured, unit_comparison=outcome.unit_comparison)


def mark_unlisted_class(outcome: Verdict, classes: Iterable[str], doubts: Iterable[str] = ()) -> Verdict:
    """Return a verdict on two models that were read as these classes, not verified if there are any, or doubts."""
    reasons = [f"read as {name}; its own code decides what it computes" for name in dict.fromkeys(classes) if name]
    code, everything = Code.UNLISTED_CLASS if reasons else Code.UNUSED, [*reasons, *doubts]
    return downgrade(outcome, code, everything) if everything else outcome


def downgrade(outcome: Verdict, code: Code, reasons: Iterable[str]) -> Verdict:
    """Return a verdict with these reasons, and with another code if it was verified; unchanged if not RELATED."""
    if not outcome.is_related:
        return outcome

    def lower(single: Verdict) -> Verdict:
        return replace(single, code=code if single.verified else single.code, accepted=False)

    by_path = {path: lower(single) for path, single in outcome.by_path.items()}
    reason = "; ".join(filter(None, (outcome.reason, *reasons)))
    return replace(lower(outcome), reason=reason, by_path=by_path)


def describe_unaccounted(names: Sequence[str], compared: str = "") -> Iterator[str]:
    """Yield a sentence about stored tensors that are not their class's own, if there are any."""
    if names:
        some = f"{len(names)} stored tensors, such as {printable(names[0], 200)}"
        which = f"among those that the class saves{compared}: which of them a loader takes is not known"
        yield f"{some}, are not {which}; remove them"


def judge_signatures(base: Signature, candidate: Signature, criteria: Criteria) -> Verdict:
    """Return the verdict on two signatures of all layers, with what they leave open by how they were read."""
    outcome = reserve(evaluate(base, candidate, criteria), (*base.reservations, *candidate.reservations))
    return mark_unlisted_class(outcome, (base.read_as, candidate.read_as), describe_unaccounted(candidate.unaccounted))


def with_strict(outcome: Verdict, strict: Strict) -> Verdict:
    """Return a verdict with the comparison of every number, not verified where one is not the base's."""
    return replace(outcome if strict.holds else downgrade(outcome, Code.CHANGED, [strict.problem]), strict=strict)


def with_run(outcome: Verdict, executed: RunOutcome) -> Verdict:
    """Return a verdict with the run of the model, not verified where that failed, or uses nothing that is inherited."""
    why = executed.problem or (executed.unused_warning if outcome.verified else "")
    return replace(downgrade(outcome, Code.UNUSED, [why]) if why else outcome, executed=executed)


def judge(evidence: Mapping[str, Evidence], criteria: Criteria) -> Verdict:
    """Return the verdict over all paths: RELATED where any of them is, of several kinds the weakest; or UNRELATED."""
    singles = {path: judge_path(measured, criteria) for path, measured in evidence.items()}
    related = [single for single in singles.values() if single.is_related]
    if related:
        weakest = max(related, key=lambda single: list(Code).index(single.code))
        others = {path: one.reason or "no relation is visible" for path, one in singles.items() if not one.is_related}
        if others and weakest.code is Code.INHERITED:
            reason = "; ".join(f"along {path}, {why}" for path, why in others.items())
            weakest = as_related(Code.PART, reason, criteria)
        return replace(weakest, evidence=evidence, by_path=singles)
    for single in singles.values():
        if single.code is Code.INCONCLUSIVE:
            return replace(single, evidence=evidence, by_path=singles)
    return Verdict(Code.UNRELATED, "", evidence, singles)


def judge_path(measured: Evidence, criteria: Criteria) -> Verdict:
    """Return the verdict of one path, without evidence attached."""
    comparison, deciding, known = measured.comparison, measured.decided_by, measured.empirical
    usable, count = int(comparison.usable.sum()), len(comparison.usable)
    for who, numbers in zip(("base", "candidate"), measured.not_finite, strict=True):
        if numbers:
            reason = f"weights in {name_layers(numbers)} of the {who} are not finite, or too large for float32"
            return Verdict(Code.INCONCLUSIVE, reason)
    if usable * 2 <= count or not count:
        return Verdict(Code.INCONCLUSIVE, f"only {usable} of {count} layers hold weights that are not zero")
    if deciding is None:
        return Verdict(Code.INCONCLUSIVE, measured.nulls[-1].objection)
    if measured.p_value > criteria.alpha or not (
        known is None or known is deciding or known.observed > known.threshold
    ):
        return Verdict(Code.UNRELATED)
    # The test coordinates have no sketch error, and the score covers more than the test coordinates: both have to pass.
    if min(comparison.score, measured.permutation.effect) < criteria.minimum_effect:
        least = f"significant, but the score is less than {criteria.minimum_effect:g} above chance"
        causes = "a shared initialisation, distant ancestry or training on hidden states can cause that"
        return Verdict(Code.INCONCLUSIVE, f"{least}; {causes}")
    inherited = measured.inherited
    if inherited is None:
        unknown = "a signature holds no hidden units, so it is not known how many are inherited"
        return as_related(Code.EMBEDDING, unknown, criteria)
    if inherited.least > criteria.min_share:
        return as_related(Code.INHERITED, "", criteria)
    share, layers = inherited.share, [measured.layers[1][row] for row in inherited.layers]
    written = f"{share:.0%} of what its units write is inherited"
    if not layers and share <= CHANCE:
        return as_related(Code.EMBEDDING, f"{written}: {SHARED_BASIS}", criteria)
    counted = inherited.by_layer[inherited.weights > 0]
    even = len(counted) > 1 and counted.min() * 3 >= share >= counted.max() / 3
    spread = ALIKE_IN_ALL if even else "in no layer more than half"
    return as_related(Code.PART, f"{written}, {f'in {name_layers(layers)}' if layers else spread}", criteria)


def judge_equal(measured: EqualNumbers, before: Verdict, criteria: Criteria) -> Verdict | None:
    """Return the verdict after the one before, None for no change: equal numbers refute UNRELATED alone."""
    if measured.p_value > criteria.alpha:
        return None
    low, high = (f"{end:.0%}" for end in (measured.at_least.min(), measured.at_least.max()))
    reason = (
        f"{float(measured.equal.mean()):.1%} of the numbers that were compared are the base's, bit for bit "
        f"(p = {measured.p_value:.3g}), so its layers inherit at least {low if low == high else f'{low} to {high}'}"
    )
    clear = measured.share >= criteria.minimum_effect
    if before.code is Code.PART:
        return replace(before, reason=f"{before.reason}; {reason}" if clear else before.reason, equal=measured)
    if clear:
        return replace(as_related(Code.PART, reason, criteria), equal=measured)
    why = "a shared initialisation, distant ancestry or a few copied numbers can cause that"
    inconclusive = Verdict(Code.INCONCLUSIVE, f"{reason}; {why}", equal=measured)
    return inconclusive if before.code is Code.UNRELATED else None


def judge_merge(verdicts: Sequence[Verdict], min_share: float = 0.5) -> list[Verdict]:
    """Return the verdicts on all parents that a merge declares, verified as a merge if they are enough together."""
    # Each of n parents must have given at least 1/(2n) of what the merge's units write; all together, more than is
    # asked of one base. What several have in common counts once, or naming copies of one parent would verify it.
    related = [verdict for verdict in verdicts if verdict.is_related]
    paths = {tuple(verdict.evidence) for verdict in related}
    downgraded = (Code.UNLISTED_CLASS, Code.UNUSED, Code.CHANGED)  # their weights are enough, and something else is not
    counted = not any(verdict.code in downgraded or verdict.unit_comparison for verdict in related)
    singly = [replace(verdict, code=Code.MERGE) if verdict.verified else verdict for verdict in verdicts]
    if len(related) < len(verdicts) or len(verdicts) < 2 or len(paths) != 1 or not all(paths) or not counted:
        return singly
    for path in next(iter(paths)):
        inherited = [one for verdict in related if (one := verdict.evidence[path].inherited) is not None]
        if len(inherited) < len(related) or any(one.interval[0] < 1 / (2 * len(related)) for one in inherited):
            return singly
        everything = union_inherited(inherited)
        if not any(one.least > min_share for one in (*inherited, everything) if one is not None):
            return singly
    reason = f"one of {len(related)} parents of a merge, which inherits more than {min_share:.0%} from all together"
    return [verdict if verdict.verified else _as_parent(verdict, reason) for verdict in singly]


def _as_parent(verdict: Verdict, reason: str) -> Verdict:
    related = {path: single for path, single in verdict.by_path.items() if single.is_related}
    changed = {path: replace(single, code=Code.MERGE, reason=reason) for path, single in related.items()}
    parent = replace(verdict, code=Code.MERGE, reason=reason, by_path={**verdict.by_path, **changed})
    parent = with_run(parent, parent.executed) if parent.executed else parent
    return with_strict(parent, parent.strict) if parent.strict else parent


def name_layers(numbers: Sequence[int]) -> str:
    """Return a text that names layers by their numbers: `layer 3`, or `layers 0-1, 4`."""
    return f"{'layer' if len(numbers) == 1 else 'layers'} {spans(numbers)}"


def spans(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, with consecutive ones as a span.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    starts, ends = ([one for one in numbers if one + step not in numbers] for step in (-1, 1))
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def as_related(code: Code, reason: str, criteria: Criteria) -> Verdict:
    """Return a verdict of this code, which the user may have accepted although it verifies nothing."""
    return Verdict(code, reason, accepted=code in criteria.accept)
