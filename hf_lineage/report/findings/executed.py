"""Sentences on what a model loses when it runs without what it has in common with the base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import INPUTS, TOKENS, Ablation, Code, Executed, Loss, Ran, amount
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("What is held", "Parts", "Lost", "From", "To")
UNITS = {"nats": "nats a token", "change": "relative change of the last state"}


def describe(_report: Report, row: Row) -> Finding | None:
    """Return what was seen when the model ran; None where nobody asked for it."""
    executed = row.verdict.executed
    if executed is None:
        return None
    sentences = tuple(_sentences(row, executed))
    return Finding(
        "When the model runs",
        wording.about(row),
        sentences,
        tuple(_details(executed)),
        (_table(executed.ablation),) if executed.ablation else (),
        values=_values(row, executed),
        brief="" if row.verdict.code is Code.UNUSED else next(iter(sentences), ""),  # its reason says the same
    )


def _sentences(row: Row, executed: Executed) -> Iterator[str]:
    if executed.problem:
        yield f"not verified by running: {executed.problem}"
        return
    if ablation := executed.ablation:
        likewise = ablation.others and amount(ablation.unit, ablation.others.mean)
        others = f"; without other parts, {likewise}" if likewise else ""
        name = printable(row.claim.base, 200)
        yield f"without what it has in common with {name} this model loses {ablation.amount}{others}"
    if row.verdict.is_executed:
        yield "verified by running: what is common is used"
    elif row.verdict.verified:
        yield "not verified by running: what is common could not be taken out part by part"


def _details(executed: Executed) -> Iterator[str]:
    if ran := executed.ran:
        inputs = (f"{INPUTS[kind]} ({' x '.join(map(str, shape))})" for kind, shape in ran.inputs.items())
        yield f"it read {' and '.join(inputs)} in {TOKENS[ran.tokens_of]}; the smaller loss counts"
        if ran.on_disk:
            yield f"it read {ran.on_disk >> 20:,} MiB of weights from disk whenever it ran, for want of memory"
        yield f"windows were drawn by the seed {executed.seed}"


def _table(ablation: Ablation) -> Table:
    named = {
        "all that is inherited": ablation.inherited,
        "as much of it as others": ablation.equal,
        "all others": ablation.others,
    }
    rows = tuple(
        (name, f"{loss.parts:,}", f"{loss.mean:.3g}", *(f"{end:.3g}" for end in loss.interval))
        for name, loss in named.items()
        if loss
    )
    title = f"What the model loses ({UNITS[ablation.unit]}, 99 % intervals)"
    return Table(title, COLUMNS, rows, (1, 2, 3, 4))


def _values(row: Row, executed: Executed) -> dict[str, Any]:
    return {
        "verified": row.verdict.is_executed,
        "problem": executed.problem or None,
        "seed": executed.seed,
        "ran": executed.ran and _ran(executed.ran),
        "ablation": executed.ablation and _ablation(executed.ablation),
    }


def _ran(ran: Ran) -> dict[str, Any]:
    return {
        "model": ran.model,
        "inputs": {kind: list(shape) for kind, shape in ran.inputs.items()},
        "tokens_of": ran.tokens_of,
        "parameters": ran.numbers,
        "dtype": ran.dtype,
        "bytes_from_disk": ran.on_disk,
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
    return {"mean": loss.mean, "low": low, "high": high, "parts": loss.parts}
