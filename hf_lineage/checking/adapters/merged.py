"""Merged: whether the weights of a model are those of a base plus an adapter, within the rounding of their storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hf_lineage.checking.adapters.adapters import judge_adapter, open_adapter
from hf_lineage.checking.judge import Base, base_once, judge_pair
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import VERDICTS, Row, attempt
from hf_lineage.checking.source import (
    FromWeights,
    Opened,
    adapter_beside,
    counterpart,
    described,
    open_model,
    opened,
    with_adapter_of,
)
from hf_lineage.checkpoint import single
from hf_lineage.checkpoint.lora import STARTS, WEIGHTS, Adapted
from hf_lineage.claims import Claim
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError, printable
from hf_lineage.evidence import Verdict
from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef
from hf_lineage.signature import Signature

MOST_MATRICES = 8
"""Adapted matrices that are compared, drawn at random."""
MOST_WITH_START = 2
"""The same if the start of the adapter is computed again from each of them, which takes half a minute at most."""
ROUNDING = {"F64": 1e-5, "F32": 1e-5, "F16": 2.0**-10, "BF16": 2.0**-7}
"""Type of the stored numbers -> how far a merge may be from the sum, relative to the size of the weights."""


def agreement(model: Opened, base: Opened, adapter: RepoRef, seed: int) -> str:
    """Return a sentence: whether a model is the base plus the adapter."""
    name, on = model.described.repo.name, base.described.repo.name
    try:
        both = with_adapter_of(adapter, base, STARTS)
        named = both.checkpoint.changed if isinstance(both.checkpoint, Adapted) else ()
        order = interim.reading_order(len(named), seed) if named else ()
        start = (adapter.read_json(ADAPTER_CONFIG) or {}).get("init_lora_weights")
        most = MOST_WITH_START if start in STARTS else MOST_MATRICES
        steps = [_step(model, base, both, named[at]) for at in order[:most]]
    except (NothingToCompare, CheckpointError) as error:
        return f"whether {name} is {on} plus the adapter cannot be decided: {error}"
    if not steps:
        return f"whether {name} is {on} plus the adapter cannot be decided: it adapts no matrix of a layer"
    worst, tensor = max((apart, tensor) for apart, _, tensor in steps)
    if worst > 1:
        return f"{name} is not {on} plus the adapter: {printable(tensor, 100)} differs by more than rounding"
    if all(added <= 1 for _, added, _ in steps):
        return f"whether {name} is {on} plus the adapter cannot be decided: what it adds is less than rounding"
    return f"{name} is {on} plus the adapter, within rounding, in all {len(steps)} of {len(named)} matrices compared"


def _step(model: Opened, base: Opened, both: Opened, tensor: str) -> tuple[float, float, str]:
    """How far one matrix is from the sum, and the sum from the base, in units of what rounding may make."""
    if model.checkpoint.tensors.get(tensor) is None or (
        model.checkpoint.tensors[tensor].shape != base.checkpoint.tensors[tensor].shape
    ):
        return np.inf, 0.0, tensor
    merged, plain, joint = (single(one.checkpoint.read(tensor)) for one in (model, base, both))
    types = {stored.dtype for one in (model, base) for stored in one.checkpoint.parts([tensor]).values()}
    allowed = max(ROUNDING.get(dtype, ROUNDING["BF16"]) for dtype in types) * float(np.linalg.norm(plain))
    apart, added = (float(np.linalg.norm(difference)) for difference in (merged - joint, joint - plain))
    # What is not finite is never within rounding.
    return (apart / allowed if apart <= allowed else np.inf), added / allowed if allowed > 0 else 0.0, tensor


def beside(source: RepoRef, rows: Sequence[Row], options: Options) -> tuple[Row, ...]:
    """Return the rows of a model with those of the adapter beside it, and whether it is each base plus the adapter."""
    if not source.offers(WEIGHTS):
        return tuple(rows)
    adapter = open_adapter(source)
    pairs = [(row, base_once(row.claim, options.local_hub)) for row in rows]
    noted = [replace(row, notes=(*row.notes, *_noted(source, row.claim, options, base))) for row, base in pairs]
    judged = (judge_adapter(adapter, row.claim, options, base) for row, base in pairs)
    return (*noted, *(replace(row, part=WEIGHTS) for row in judged))


def judge_sum(
    claim: Claim, a: RepoRef | Signature, adapter: RepoRef | Signature, base: RepoRef, options: Options
) -> Row:
    """Return the row of model A and a base plus an adapter; OptionError where B is no adapter or A no weights."""
    if isinstance(a, Signature) or isinstance(adapter, Signature) or not adapter_beside(adapter):
        raise OptionError("--merge-base needs the weights of A and an adapter of peft as B; leave it out")
    plain = opened(described(base, options.choice))
    both = attempt(lambda: with_adapter_of(adapter, plain), NothingToCompare)
    model = attempt(lambda: open_model(a, options, is_base=True), NothingToCompare)
    if isinstance(both, Verdict):
        return Row(claim, both)

    row = judge_pair(claim, model, lambda: FromWeights.from_opened(both, options, cached=False), options)
    if isinstance(model, FromWeights):
        row = replace(row, notes=(*row.notes, agreement(model.opened, plain, adapter, options.order_seed or 0)))
    return row


def _noted(source: RepoRef, claim: Claim, options: Options, base: Base) -> tuple[str, ...]:
    """The sentence about one base; none where either cannot be opened, which the verdict says."""
    whole = None if claim.problem else base()
    if not isinstance(whole, RepoRef):
        return ()

    def compare_sum() -> str:
        both = (source, counterpart(whole, ""))
        model, plain = (opened(described(options.allowed(repo), options.choice)) for repo in both)
        return agreement(model, plain, source, options.order_seed or 0)

    sentence = attempt(compare_sum, *VERDICTS)
    return (sentence,) if isinstance(sentence, str) else ()
