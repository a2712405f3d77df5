"""Sentences on `--run`, on `--strict`, on equal numbers, and on what a policy says of a claim."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.executed import INPUTS, TOKENS, Ablation, Beyond, RunOutcome, Strict, amount
from hf_lineage.evidence.relation import Means
from hf_lineage.evidence.verdict import Code
from hf_lineage.policy import Policy, Waiver
from hf_lineage.report import wording


def describe_equal(equal: EqualNumbers, row: ClaimResult, _report: Report) -> Finding:
    """Return how much of each layer is inherited at least."""
    columns = {"equal": equal.equal, "energy": equal.energy, "inherited_at_least": equal.at_least}
    values = {key: dict(zip(map(str, equal.layers), map(float, one), strict=True)) for key, one in columns.items()}
    by_layer = ", ".join(f"{layer}: {share:.1%}" for layer, share in values["inherited_at_least"].items())
    halves = {"p_permutations": equal.permuted.p_value, "p_signs": equal.flipped.p_value}
    details = (f"inherited at least, by layer: {by_layer}",)
    every = {**values, **halves, "p_value_adjusted": equal.p_value}
    return Finding("Equal numbers", wording.about(row), details=details, values=every)


UNITS = {"nats": "nats a token", "change": "relative change of the last state"}


def describe_executed(executed: RunOutcome, row: ClaimResult, _report: Report) -> Finding:
    """Return what was seen when the model ran."""
    sentences, ablation, ran = tuple(_run_sentences(row, executed)), executed.ablation, executed.ran
    values = {
        "verified": row.verdict.is_executed,
        "problem": executed.problem or None,
        "seed": executed.seed,
        "ran": ran
        and {
            "model": ran.model,
            "inputs": {kind: list(shape) for kind, shape in ran.inputs.items()},
            "tokens_of": ran.tokens_of,
            "parameters": ran.numbers,
            "dtype": ran.dtype,
            "bytes_from_disk": ran.on_disk,
        },
        "ablation": ablation and _ablation(ablation),
    }
    return Finding(
        "When the model runs",
        wording.about(row),
        sentences,
        tuple(_run_details(executed)),
        (_table(ablation),) if ablation else (),
        values=values,
        brief="" if row.verdict.code is Code.UNUSED else next(iter(sentences), ""),  # its reason says the same
    )


def _run_sentences(row: ClaimResult, executed: RunOutcome) -> Iterator[str]:
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


def _run_details(executed: RunOutcome) -> Iterator[str]:
    if ran := executed.ran:
        inputs = (f"{INPUTS[kind]} ({' x '.join(map(str, shape))})" for kind, shape in ran.inputs.items())
        yield f"it read {' and '.join(inputs)} in {TOKENS[ran.tokens_of]}; the smaller loss counts"
        if ran.on_disk:
            yield f"it read {ran.on_disk >> 20:,} MiB of weights from disk whenever it ran, for want of memory"
        yield f"windows were drawn by the seed {executed.seed}"


def _table(ablation: Ablation) -> Table:
    losses = {
        "all that is inherited": ablation.inherited,
        "as much of it as others": ablation.equal,
        "all others": ablation.others,
    }
    rows = tuple(
        (name, f"{loss.parts:,}", f"{loss.mean:.3g}", *(f"{end:.3g}" for end in loss.interval))
        for name, loss in losses.items()
        if loss
    )
    title = f"What the model loses ({UNITS[ablation.unit]}, 99 % intervals)"
    return Table(title, ("What is held", "Parts", "Lost", "From", "To"), rows, (1, 2, 3, 4))


def _ablation(ablation: Ablation) -> dict[str, Any]:
    losses = {"inherited": ablation.inherited, "equal": ablation.equal, "others": ablation.others}
    return {
        "unit": ablation.unit,
        "input": ablation.kind,
        "says": ablation.says,
        "used": ablation.is_used,
        "carries": ablation.carries,
        **{
            name: loss and {"mean": loss.mean, "low": loss.interval[0], "high": loss.interval[1], "parts": loss.parts}
            for name, loss in losses.items()
        },
    }


SHOWN, MOST, NAMED = 20, 1000, 3
"""Tensors in the table, in the values for machines, and in a sentence."""
FOUND = {Means.PRUNED, Means.REORDERED}
"""Ways in which a model was made that leave no question how its numbers came to differ."""


def describe_strict(strict: Strict, row: ClaimResult, _report: Report) -> Finding:
    """Return how the numbers compare with the base's."""
    sentences = tuple(_strict_sentences(strict, row))
    table = Table(
        "Tensors that are not the base's, in steps of their grids",
        ("Tensor", "Numbers", "Beyond", "Furthest", "At", "Coarse"),
        tuple(_rows(strict.beyond)),
        (1, 2, 3, 5),
    )
    return Finding(
        "Every number",
        wording.about(row),
        sentences,
        (*(f"{count:,} tensors {_how(how)}" for how, count in strict.stored.items()), *strict.copies),
        (table,) if strict.beyond else (),
        values=_strict_values(row, strict, sentences[0]),
        in_verdict=True,
        brief="" if strict.problem and row.verdict.is_related else sentences[0],  # its reason says the same
    )


def _strict_sentences(strict: Strict, row: ClaimResult) -> Iterator[str]:
    if strict.problem:
        yield f"its numbers were not compared: {printable(strict.problem, 500)}"
        return
    base, whole = printable(strict.base, 300), f"{strict.right:,} of {strict.tensors:,} tensors"
    if strict.holds:
        yield f"{strict.what} {base} and nothing else: {whole}"
    else:
        yield f"not everything is the base's: {whole} hold the numbers of {base} as their formats store them"
    yield from _beyond(strict, row)
    for reason in dict.fromkeys(strict.unbound.values()):
        names = [name for name, why in strict.unbound.items() if why == reason]
        yield f"{_list_names(names)} cannot be told number by number: {printable(reason, 300)}"
    for several, where in ((strict.added, "not in the base"), (strict.lacking, "only in the base")):
        if several:
            yield f"{_list_names(several)} {'is' if len(several) == 1 else 'are'} {where}"
    if strict.settings:
        yield f"config.json says something else than the base's: {'; '.join(strict.settings[:NAMED])}"


def _beyond(strict: Strict, row: ClaimResult) -> Iterator[str]:
    """Yield the number furthest off and, of models that share ancestry, how the difference may have come about."""
    if not strict.beyond:
        return
    first = strict.beyond[0]
    name = printable(first.name, 200)
    if first.why:
        yield f"{name} {first.why}"
    elif first.beyond:
        place = ", ".join(map(str, first.place))
        steps = f"{first.excess:.3g} steps" if math.isfinite(first.excess) else "infinitely many steps"
        yield (
            f"{name} at ({place}) is {steps} further from the base's number than its format leaves, and "
            f"{first.beyond:,} of its {first.numbers:,} numbers are"
        )
    else:
        yield f"in {name} the grids of {first.coarse:,} blocks are coarser than their numbers need"
    if any(one.beyond for one in strict.beyond):
        wide = sum(one.wide for one in strict.beyond)
        made = row.derivation if row.derivation and {*row.derivation.means} & FOUND else None
        guess = "as an edit leaves" if strict.is_edit else "as training or another quantization leaves"
        differ = f"of {len(strict.beyond):,} tensors that differ, {wide:,} do in more than 1 % of their numbers"
        yield differ + f", {made.words if made else guess}" * row.verdict.is_related


def _list_names(names: Sequence[str]) -> str:
    text = ", ".join(printable(name, 200) for name in names[:NAMED])
    return f"{text} and {len(names) - NAMED:,} more" if len(names) > NAMED else text


def _how(stored: str) -> str:
    return f"stored as {stored}" if stored else "hold the same numbers"


def _rows(beyond: Sequence[Beyond]) -> Iterator[tuple[str, ...]]:
    for one in beyond[:SHOWN]:
        place = ", ".join(map(str, one.place))
        counts = (f"{one.numbers:,}", f"{one.beyond:,}", f"{one.excess:.3g}")
        yield (printable(one.name, 200), *counts, one.why or place, f"{one.coarse:,}")


def _strict_values(row: ClaimResult, strict: Strict, sentence: str) -> Mapping[str, Any]:
    return {
        "holds": strict.holds,
        "verified": row.verdict.is_strict,
        "sentence": sentence,
        "problem": strict.problem or None,
        "base": strict.base,
        "right": strict.right,
        "tensors": strict.tensors,
        "stored": {how or "equal": count for how, count in strict.stored.items()},
        "beyond": [
            {
                "tensor": one.name,
                "numbers": one.numbers,
                "beyond": one.beyond,
                "excess": one.excess if math.isfinite(one.excess) else None,
                "place": list(one.place),
                "coarse": one.coarse,
                "why": one.why,
            }
            for one in strict.beyond[:MOST]
        ],
        "unbound": dict(strict.unbound),
        "added": list(strict.added),
        "lacking": list(strict.lacking),
        "copies": list(strict.copies),
        "settings": list(strict.settings),
    }


def describe_waiver(waiver: Waiver, row: ClaimResult, _report: Report) -> Finding:
    """Return what accepts the verdict on a claim."""
    accepted = f"{row.verdict.label} is accepted until {waiver.expires}: {waiver.reason}"
    values = {"reason": waiver.reason, "expires": waiver.expires.isoformat()}
    return Finding("Accepted", wording.about(row), sentences=(accepted,), values=values)


def describe_unmet(unmet: tuple[str, ...], row: ClaimResult, _report: Report) -> Finding:
    """Return what the policy requires and a claim lacks."""
    return Finding("Policy not met", wording.about(row), sentences=unmet, values=list(unmet))


def describe_policy(policy: Policy, report: Report) -> Finding:
    """Return the policy for machines, with what it makes of the check."""
    values = {
        "source": policy.source or None,
        "fail_on": policy.fail_on,
        "require": policy.requires or None,
        "own_code": policy.own_code,
        "undeclared_parent": policy.undeclared_parent,
        "relations": list(policy.relations),
        "accepted": sum(row.waiver is not None for row in report.rows),
    }
    return Finding("Policy", values=values)
