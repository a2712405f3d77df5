"""Sentences on `--run`, on `--strict`, on equal numbers, and on what a policy says of a claim."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.executed import INPUTS, TOKENS, Ablation, RunOutcome, Strict, amount
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
    every = {**values, **halves, "p_value_adjusted": equal.p_value}
    details = (f"inherited at least, by layer: {by_layer}",)
    return Finding("Equal numbers", wording.about(row), details=details, values=every)


def describe_executed(executed: RunOutcome, row: ClaimResult, _report: Report) -> Finding:
    """Return what was seen when the model ran."""
    sentences, details, ran = tuple(_run_sentences(row, executed)), list[str](), executed.ran
    read: dict[str, Any] | None = None
    if ran:
        read = {"model": ran.model, "inputs": {kind: list(shape) for kind, shape in ran.inputs.items()}}
        read |= {"tokens_of": ran.tokens_of, "parameters": ran.numbers, "dtype": ran.dtype}
        read["bytes_from_disk"] = ran.on_disk
        inputs = " and ".join(f"{INPUTS[kind]} ({' x '.join(map(str, shape))})" for kind, shape in ran.inputs.items())
        details.append(f"it read {inputs} in {TOKENS[ran.tokens_of]}; the smaller loss counts")
        if ran.on_disk:
            memory = f"{ran.on_disk >> 20:,} MiB of weights from disk whenever it ran, for want of memory"
            details.append(f"it read {memory}")
        details.append(f"windows were drawn by the seed {executed.seed}")
    table, ablation = _describe_ablation(executed.ablation) if executed.ablation else (None, None)
    outcome = {"verified": row.verdict.is_executed, "problem": executed.problem or None, "seed": executed.seed}
    values = {**outcome, "ran": read, "ablation": ablation}
    brief = "" if row.verdict.code is Code.UNUSED else next(iter(sentences), "")  # its reason says the same
    tables = (table,) if table else ()
    about = wording.about(row)
    return Finding("When the model runs", about, sentences, tuple(details), tables, values=values, brief=brief)


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


def _describe_ablation(ablation: Ablation) -> tuple[Table, dict[str, Any]]:
    values = {"unit": ablation.unit, "input": ablation.kind, "says": ablation.says}
    values |= {"used": ablation.is_used, "carries": ablation.carries}
    rows = []
    for key, name, loss in (
        ("inherited", "all that is inherited", ablation.inherited),
        ("equal", "as much of it as others", ablation.equal),
        ("others", "all others", ablation.others),
    ):
        low, high = loss.interval if loss else (0.0, 0.0)
        values[key] = loss and {"mean": loss.mean, "low": low, "high": high, "parts": loss.parts}
        if loss:
            rows.append((name, f"{loss.parts:,}", f"{loss.mean:.3g}", f"{low:.3g}", f"{high:.3g}"))
    unit = {"nats": "nats a token", "change": "relative change of the last state"}[ablation.unit]
    title = f"What the model loses ({unit}, 99 % intervals)"
    return Table(title, ("What is held", "Parts", "Lost", "From", "To"), tuple(rows), (1, 2, 3, 4)), values


TABLED, STORED, LISTED = 20, 1000, 3  # tensors in the table, in the values for machines, and in a sentence


def describe_strict(strict: Strict, row: ClaimResult, _report: Report) -> Finding:
    """Return how the numbers compare with the base's."""
    sentences = tuple(_strict_sentences(strict, row))
    rows, beyond = [], []
    for one in strict.beyond[:STORED]:
        cells = f"{one.numbers:,}", f"{one.beyond:,}", f"{one.excess:.3g}"
        rows.append((printable(one.name, 200), *cells, one.why or ", ".join(map(str, one.place)), f"{one.coarse:,}"))
        excess = one.excess if math.isfinite(one.excess) else None
        counts = {"numbers": one.numbers, "beyond": one.beyond, "excess": excess, "place": list(one.place)}
        beyond.append({"tensor": one.name, **counts, "coarse": one.coarse, "why": one.why})
    values = {"holds": strict.holds, "verified": row.verdict.is_strict, "sentence": sentences[0]}
    values |= {"problem": strict.problem or None}
    values |= {name: getattr(strict, name) for name in ("base", "right", "tensors")}
    values |= {"stored": {how or "equal": count for how, count in strict.stored.items()}, "beyond": beyond}
    values["unbound"] = dict(strict.unbound)
    values |= {name: list(getattr(strict, name)) for name in ("added", "lacking", "copies", "settings")}
    title = "Tensors that are not the base's, in steps of their grids"
    table = Table(
        title, ("Tensor", "Numbers", "Beyond", "Furthest", "At", "Coarse"), tuple(rows[:TABLED]), (1, 2, 3, 5)
    )
    kinds = {how: f"stored as {how}" if how else "hold the same numbers" for how in strict.stored}
    return Finding(
        "Every number",
        wording.about(row),
        sentences,
        (*(f"{count:,} tensors {kinds[how]}" for how, count in strict.stored.items()), *strict.copies),
        (table,) if strict.beyond else (),
        values=values,
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
    for first in strict.beyond[:1]:
        name, place = printable(first.name, 200), ", ".join(map(str, first.place))
        steps = f"{first.excess:.3g} steps" if math.isfinite(first.excess) else "infinitely many steps"
        if first.why:
            yield f"{name} {first.why}"
        elif first.beyond:
            yield (
                f"{name} at ({place}) is {steps} further from the base's number than its format leaves, and "
                f"{first.beyond:,} of its {first.numbers:,} numbers are"
            )
        else:
            yield f"in {name} the grids of {first.coarse:,} blocks are coarser than their numbers need"
    if any(one.beyond for one in strict.beyond):
        wide = sum(one.wide for one in strict.beyond)
        # Pruning and reordering leave no question how the numbers came to differ.
        made = row.derivation if row.derivation and {*row.derivation.means} & {Means.PRUNED, Means.REORDERED} else None
        guess = "as an edit leaves" if strict.is_edit else "as training or another quantization leaves"
        differ = f"of {len(strict.beyond):,} tensors that differ, {wide:,} do in more than 1 % of their numbers"
        yield differ + f", {made.words if made else guess}" * row.verdict.is_related
    for reason in dict.fromkeys(strict.unbound.values()):
        names = [name for name, why in strict.unbound.items() if why == reason]
        yield f"{_list_names(names)} cannot be told number by number: {printable(reason, 300)}"
    for several, where in ((strict.added, "not in the base"), (strict.lacking, "only in the base")):
        if several:
            yield f"{_list_names(several)} {'is' if len(several) == 1 else 'are'} {where}"
    if strict.settings:
        yield f"config.json says something else than the base's: {'; '.join(strict.settings[:LISTED])}"


def _list_names(names: Sequence[str]) -> str:
    text = ", ".join(printable(name, 200) for name in names[:LISTED])
    return f"{text} and {len(names) - LISTED:,} more" if len(names) > LISTED else text


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
    values = {"source": policy.source or None, "fail_on": policy.fail_on, "require": policy.requires or None}
    values |= {"own_code": policy.own_code, "undeclared_parent": policy.undeclared_parent}
    accepted = sum(row.waiver is not None for row in report.rows)
    return Finding("Policy", values=values | {"relations": list(policy.relations), "accepted": accepted})
