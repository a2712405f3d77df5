"""What the weights of known models say of a model that no key finds, as text and as values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.evidence import Kind
from hf_lineage.index.search import ByWeights, Judged
from hf_lineage.report.formats import folded, table, wrapped
from hf_lineage.report.single import known_weights
from hf_lineage.report.single.known_weights import Against
from hf_lineage.report.words import wording

COLUMNS = ("Read as a whole", "Width", "Near it", "Inherited", "p", "Verdict")


def text(result: ByWeights, against: Against | None = None) -> str:
    """Return the models that were read as a table, and the sentences that belong to it."""
    shown = table(COLUMNS, (folded(_cells(result, one)) for one in result.tested), numeric=(1, 2, 3, 4))
    return "\n".join([*([shown] if result.tested else []), *map(wrapped, _sentences(result, against))]) + "\n"


def _cells(result: ByWeights, one: Judged) -> tuple[str, ...]:
    share, p_value = wording.inherited_share(one.row), corrected(result, one)
    return (
        known_weights.named(one.group.entry),
        str(one.group.entry.width),
        str(len(one.group.near)),
        "-" if share is None else f"{share:.0%}",
        "-" if p_value is None else f"{p_value:.3g}",
        one.verdict.words,
    )


def corrected(result: ByWeights, one: Judged) -> float | None:
    """Return the p-value of a test, corrected for all that were made; None where there was none."""
    p_value = wording.p_value(one.row)
    return None if p_value is None else min(1.0, p_value * result.tests)


def _sentences(result: ByWeights, against: Against | None) -> Iterator[str]:
    for one in result.tested:
        if one.verdict.reason:
            yield f"{known_weights.named(one.group.entry)}: {known_weights.reason(one, against)}"
        if one.related and (near := known_weights.untested(one.group)):
            yield f"{near}; models that were not tested may be nearer"
    tested = sum(one.tested for one in result.tested)
    yield (
        f"{tested} of {result.fitting} models of the index, of any width, were tested "
        f"against their weights, each for those near it, and p is corrected for {result.tests}; {_left(result)} were "
        "neither tested nor near one that was"
    )
    if any(one.verdict.kind is Kind.CALIBRATED for one in result.tested):
        yield "RELATED, calibrated rests on a threshold, which is not corrected for the number of models tested"


def _left(result: ByWeights) -> int:
    return result.untested + sum(one.left for one in result.tested)


def values(result: ByWeights) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "fitting": result.fitting,
        "untested": _left(result),
        "tested": [
            {
                **known_weights.values(one),
                "width": one.group.entry.width,
                "inherited": None if (share := wording.inherited_share(one.row)) is None else {"share": share},
                "p_value_adjusted": corrected(result, one),
            }
            for one in result.tested
        ],
    }
