"""What both models did when they ran, and what the model loses without what it has in common with the base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import INPUTS, TOKENS, Ablation, Executed, Loss, Ran, amount
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("What writes its mean", "Parts", "Of all", "Lost", "From", "To")
UNITS = {"nats": "nats a token", "change": "relative change of the last state"}


class RecordedRun(msgspec.Struct, frozen=True):
    """What a record keeps of it."""

    mark: str
    """Whether the claim is verified, and by what, in words."""
    verified: bool
    """Whether it is verified by running."""
    problem: str | None
    seed: int


def describe(_report: Report, row: Row) -> Finding | None:
    """Return what was seen when both models ran; None where nobody asked for it."""
    executed = row.verdict.executed
    if executed is None:
        return None
    return Finding(
        "When the models run",
        wording.about(row),
        tuple(_sentences(row, executed)),
        tuple(_details(executed)),
        (_table(executed.ablation),) if executed.ablation else (),
        values=_values(row, executed),
    )


def _sentences(row: Row, executed: Executed) -> Iterator[str]:
    if executed.problem:
        yield f"not verified by running: {executed.problem}"
        return
    if ablation := executed.ablation:
        likewise = ablation.others and amount(ablation.unit, ablation.others.mean)
        others = f"; without other parts that write as much, {likewise}" if likewise else ""
        name = printable(row.claim.base, 200)
        yield f"without what it has in common with {name} this model loses {ablation.amount}{others}"
    if row.verdict.verified_by_running:
        yield "verified by running: the share counts what units wrote when both models ran"
    elif row.verdict.verified:
        why = "is stored and not used" if executed.ablation else "could not be taken out part by part"
        yield f"not verified by running: what is common {why}"


def _details(executed: Executed) -> Iterator[str]:
    for ran in executed.models:
        inputs = (f"{INPUTS[kind]} ({' x '.join(map(str, shape))})" for kind, shape in ran.inputs.items())
        read = f"{' and '.join(inputs)} in {TOKENS[ran.tokens_of]}"
        yield f"{printable(ran.model, 200)} read {read}; of each part the smaller activity counts"
        if ran.on_disk:
            size = f"{ran.on_disk >> 20:,} MiB"
            yield f"{printable(ran.model, 200)} read {size} of weights from disk whenever it ran, for want of memory"
    if executed.models:
        yield f"windows were drawn by the seed {executed.seed}"


def _table(ablation: Ablation) -> Table:
    named = {
        "all that is inherited": ablation.inherited,
        "some of it": ablation.equal,
        "others that write as much": ablation.others,
    }
    rows = tuple(
        (name, f"{loss.parts:,}", f"{loss.weight:.0%}", f"{loss.mean:.3g}", *(f"{end:.3g}" for end in loss.interval))
        for name, loss in named.items()
        if loss
    )
    title = f"What the model loses ({UNITS[ablation.unit]}, 99 % intervals)"
    return Table(title, COLUMNS, rows, (1, 2, 3, 4, 5))


def _values(row: Row, executed: Executed) -> dict[str, Any]:
    return {
        "mark": row.verdict.mark,
        "verified": row.verdict.verified_by_running,
        "problem": executed.problem or None,
        "seed": executed.seed,
        "models": list(map(_model, executed.models)),
        "ablation": executed.ablation and _ablation(executed.ablation),
    }


def _model(ran: Ran) -> dict[str, Any]:
    return {
        "model": ran.model,
        "inputs": {kind: list(shape) for kind, shape in ran.inputs.items()},
        "tokens_of": ran.tokens_of,
        "parameters": ran.numbers,
        "dtype": ran.dtype,
        "bytes_from_disk": ran.on_disk,
        "writes": {str(layer): share for layer, share in ran.writes.items()},
    }


def _ablation(ablation: Ablation) -> dict[str, Any]:
    losses = {"inherited": ablation.inherited, "equal": ablation.equal, "others": ablation.others}
    return {
        "unit": ablation.unit,
        "input": ablation.kind,
        "says": ablation.says,
        "used": ablation.is_used,
        "carries": ablation.carries,
        **{name: loss and _loss(loss) for name, loss in losses.items()},
    }


def _loss(loss: Loss) -> dict[str, Any]:
    low, high = loss.interval
    return {"mean": loss.mean, "low": low, "high": high, "parts": loss.parts, "weight": loss.weight}
