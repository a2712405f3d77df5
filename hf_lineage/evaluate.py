"""Evaluate: evidence and criteria -> verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hf_lineage.inherited import Inherited, together
from hf_lineage.verdict import (
    BASIS_ONLY,
    IN_PART,
    KINDS,
    UNMEASURED,
    VERIFIED,
    Evidence,
    Inconclusive,
    Kind,
    Related,
    Unrelated,
    Verdict,
)

MINIMUM_EFFECT = 0.02
"""The least score, and the least effect on the test coordinates, called RELATED, however significant."""
FEWEST_COORDINATES = 8
"""Fewer can be permuted in so few ways that a p-value says little."""
CHANCE = 0.1
"""A share up to this, in no layer more than half, is what a shared basis or a narrow model gives by itself."""


@dataclass(frozen=True)
class Criteria:
    """What a verdict depends on besides the evidence."""

    alpha: float = 0.01
    min_share: float = 0.5
    """The share of what a candidate's units write that has to be inherited, and more, for a claim to be verified."""
    accept: tuple[str, ...] = ()
    """Names of kinds of RELATED that are accepted though they do not verify a claim."""
    minimum_effect: float = MINIMUM_EFFECT
    objection: str = ""
    """Why the permutation null does not hold for this architecture, empty where it does."""


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted for having tested several paths (Holm 1979).

    >>> holm({"mlp": 0.004, "value_output": 0.03})
    {'mlp': 0.008, 'value_output': 0.03}
    """
    adjusted: dict[str, float] = {}
    least = 0.0
    for rank, path in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[path]))
        adjusted[path] = least
    return adjusted


def judge(evidence: Mapping[str, Evidence], criteria: Criteria) -> Verdict:
    """Return the verdict over all paths: RELATED where any of them is, UNRELATED where all of them are.

    Of several paths the weakest statement counts: attention alone that was copied is a part of a model.
    """
    singles = {path: judge_path(measured, criteria) for path, measured in evidence.items()}
    related = [single for single in singles.values() if isinstance(single, Related)]
    if related:
        weakest = max(related, key=lambda single: KINDS.index(single.kind))
        others = [path for path, single in singles.items() if not isinstance(single, Related)]
        if others and weakest.kind is VERIFIED:
            weakest = _related(IN_PART, f"nothing shows along {', '.join(others)}", criteria)
        return replace(weakest, evidence=evidence, by_path=singles)
    for single in singles.values():
        if isinstance(single, Inconclusive):
            return replace(single, evidence=evidence, by_path=singles)
    return Unrelated("", evidence, singles)


def judge_path(measured: Evidence, criteria: Criteria) -> Verdict:
    """Return the verdict of one path, without evidence attached."""
    comparison, objection = measured.comparison, criteria.objection
    usable, layers = int(comparison.usable.sum()), len(comparison.usable)
    for who, numbers in zip(("base", "candidate"), measured.not_finite, strict=True):
        if numbers:
            return Inconclusive(f"weights in {named(numbers)} of the {who} are not finite, or too large for float32")
    if usable * 2 <= layers or not layers:
        return Inconclusive(f"only {usable} of {layers} layers hold weights that are not zero")
    if objection and (why := measured.empirical.too_few(criteria.alpha) if measured.empirical else objection):
        return Inconclusive(why)
    if not objection and not measured.empirical and measured.permutation.coordinates < FEWEST_COORDINATES:
        return Inconclusive(f"{measured.permutation.coordinates} residual coordinates are too few to permute")
    if _independent(measured, criteria.alpha):
        return Unrelated()
    # The test coordinates hold no error of a sketch, and the score holds more than the test coordinates.
    if min(comparison.score, measured.permutation.effect) < criteria.minimum_effect:
        return Inconclusive(
            f"significant, but the score is less than {criteria.minimum_effect:g} above chance; "
            "a shared initialisation or distant ancestry can do that"
        )
    return kind_of(measured, criteria)


def _independent(measured: Evidence, alpha: float) -> bool:
    """Whether nothing tells a path from that of independent models.

    Where the exact test holds, a score has to be above those of all independent models that were named as well.
    """
    known = None if measured.calibrated else measured.empirical
    return measured.p_value > alpha or (known is not None and measured.comparison.score <= known.threshold)


def kind_of(measured: Evidence, criteria: Criteria) -> Related:
    """Return in which way two models are RELATED that are: by how much the candidate's units inherit."""
    inherited = measured.inherited
    if inherited is None:
        return _related(UNMEASURED, "the stored signature holds no units; extract it again", criteria)
    if inherited.interval[0] > criteria.min_share:
        return _related(VERIFIED, "", criteria)
    candidate = measured.layers[1]
    layers = [candidate[row] for row in inherited.layers]
    if layers or inherited.share > CHANCE:
        return _related(IN_PART, _in_part(inherited, layers), criteria)
    return _related(
        BASIS_ONLY,
        f"{inherited.share:.0%} of what its units write is inherited: the embedding or initial stream of the base is "
        "shared, and the layers were trained anew",
        criteria,
    )


def _in_part(inherited: Inherited, layers: list[int]) -> str:
    where = f", in {named(layers)}" if layers else ", in no layer more than half"
    return f"{inherited.share:.0%} of what its units write is inherited{where}"


def judge_merge(verdicts: Sequence[Verdict], min_share: float = 0.5) -> list[Verdict]:
    """Return the verdicts on all parents that a merge declares, verified where they are so only together.

    Of n parents each must have given 1/(2n) of what the merge's units write, and all together more than is asked of
    one. What two parents have in common counts once, or naming copies of one parent would verify it.
    """
    related = [verdict for verdict in verdicts if isinstance(verdict, Related)]
    paths = {tuple(verdict.evidence) for verdict in related}
    if len(related) < len(verdicts) or len(verdicts) < 2 or len(paths) != 1:
        return list(verdicts)
    if not all(_parents([each.evidence[path] for each in related], min_share) for path in next(iter(paths))):
        return list(verdicts)
    said = f"one of {len(related)} parents of a merge that inherits more than {min_share:.0%} from all of them"
    return [each if each.verified else _as_parent(each, said) for each in related]


def _parents(measured: Sequence[Evidence], min_share: float) -> bool:
    """Whether all these bases, seen along one path, gave enough to be the parents of a merge."""
    found = [each.inherited for each in measured if each.inherited is not None]
    least = 1 / (2 * len(measured))
    if len(found) < len(measured) or any(each.interval[0] < least for each in found):
        return False
    one = any(each.interval[0] > min_share for each in found)
    everything = together(found)
    return one or (everything is not None and everything.interval[0] > min_share)


def _as_parent(verdict: Related, said: str) -> Related:
    by_path = {
        path: replace(single, kind=VERIFIED, reason=said) if isinstance(single, Related) else single
        for path, single in verdict.by_path.items()
    }
    return replace(verdict, kind=VERIFIED, reason=said, by_path=by_path)


def named(numbers: Sequence[int]) -> str:
    """Return layers by their numbers.

    >>> named([3]), named([0, 1, 4])
    ('layer 3', 'layers 0-1, 4')
    """
    return f"{'layer' if len(numbers) == 1 else 'layers'} {spans(numbers)}"


def spans(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order, neighbours as a span.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def _related(kind: Kind, reason: str, criteria: Criteria) -> Related:
    return Related(reason, kind=kind, accepted=kind.name in criteria.accept)
