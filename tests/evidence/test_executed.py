"""What a loss says: nothing that is inherited counts unless the model loses something without it."""

from dataclasses import replace

import numpy as np

from hf_lineage.evidence.executed import CHANGE, NATS, Ablation, Beyond, Loss, Ran, RunOutcome, Strict


def loss(*nats):
    return Loss(np.array(nats), 10)


def ablation(inherited, equal=None, others=None, unit=NATS, says=1.0):
    return Ablation(unit, "short", says, inherited, equal, others)


def test_what_is_inherited_is_used_if_it_carries_a_tenth_of_what_equal_parts_do():
    for seen, used in (
        (ablation(loss(4.0)), True),
        (ablation(loss(0.009)), False),
        (ablation(loss(0.002), says=0.1), True),
        (ablation(loss(float("nan"))), False),
        (ablation(loss(0.5), loss(0.4), loss(3.9)), True),
        (ablation(loss(0.5), loss(0.38), loss(3.9)), False),
        (ablation(loss(4.0), loss(0.01), loss(3.9)), True),
        (ablation(loss(0.5), loss(0.0), loss(0.0)), True),
        (ablation(loss(4.0), says=0.0), False),
        (ablation(loss(0.5), unit=CHANGE, says=0.009), False),
    ):
        assert seen.is_used is used, seen


def test_a_run_is_complete_and_strict_holds_where_every_part_is_there():
    ran = Ran("m", {"short": (32, 16)}, 100)
    assert RunOutcome(ran, ablation(loss(1.0))).complete
    assert not RunOutcome(ran).complete
    assert not RunOutcome(ran, ablation(loss(0.001))).complete
    assert not RunOutcome(problem="it has no safetensors files").complete
    assert (RIGHT.holds, RIGHT.right, RIGHT.tensors) == (True, 32, 32)
    assert [part for part in WRONG if replace(RIGHT, **{part: WRONG[part]}).holds] == []
    assert RIGHT.what == "the quantization (Q4_K, Q6_K) of"
    assert replace(RIGHT, stored={"": 3, "BF16": 1}).what == "the rounding to bfloat16 of"
    assert replace(RIGHT, stored={"": 3}).what == "the same numbers as"
    # Few numbers of most tensors look like an edit, and many like training.
    assert (FEW.wide, MANY.wide) == (False, True)
    assert replace(RIGHT, beyond=(FEW, FEW, MANY)).is_edit
    assert not replace(RIGHT, beyond=(FEW, MANY, MANY)).is_edit


RIGHT = Strict("org/base", {"Q4_K": 20, "Q6_K": 2, "": 9, "F16": 1})
FEW, MANY = Beyond("a", 1000, 3, 5.0, (1, 2)), Beyond("b", 1000, 400, 9.0, (0, 0))


WRONG = {
    "beyond": (FEW,),
    "unbound": {"a": "why"},
    "added": ("a",),
    "lacking": ("a",),
    "settings": ("rope_theta is 1, and 2 in the base",),
    "problem": "why",
    "stored": {},
}
