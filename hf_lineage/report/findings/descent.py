"""Descent in words: which layers of a model come from its base, which do not, and how it was made from its base.

How it was made is as the weights show it, beside the relation that it declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence.derivation import Derivation
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import numbers, wording


def describe(_report: Report, row: Row) -> Finding | None:
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
    for layers in numbers.came_from(evidence):
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
