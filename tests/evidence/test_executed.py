"""What a loss says: nothing that is inherited counts unless the model loses something without it."""

import numpy as np
import pytest

from hf_lineage.evidence.executed import CHANGE, NATS, Ablation, Executed, Loss, Ran, amount


def loss(*nats):
    return Loss(np.array(nats), 10)


def ablation(inherited, equal=None, others=None, unit=NATS, says=1.0):
    return Ablation(unit, "short", says, inherited, equal, others)


def test_the_interval_of_a_loss_holds_its_mean_and_no_negative_number():
    low, high = loss(0.0, 1.0, 2.0, 3.0).interval
    assert (low, round(high, 3)) == (0.0, round(1.5 + 2.576 * np.std([0, 1, 2, 3], ddof=1) / 2, 3))
    assert loss(4.0).interval == (4.0, 4.0)
    assert loss().mean == 0


@pytest.mark.parametrize(
    ("seen", "used"),
    [
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
    ],
)
def test_what_is_inherited_is_used_if_it_carries_a_tenth_of_what_equal_parts_do_or_more_than_all_others(seen, used):
    assert seen.is_used is used


def test_nothing_is_said_of_others_where_there_are_none():
    assert ablation(loss(4.0)).carries is None
    assert ablation(loss(4.0), loss(1.0), loss(2.0)).carries == 0.5


def test_a_loss_is_told_in_its_unit():
    assert amount(NATS, 4.13) == "4.1 nats a token"
    assert ablation(loss(0.07), unit=CHANGE).amount == "7.0% of its last state"


def test_evidence_is_complete_only_where_it_ran_and_something_was_taken_out():
    ran = Ran("m", {"short": (32, 16)}, 100)
    assert Executed(ran, ablation(loss(1.0))).complete
    assert not Executed(ran).complete
    assert not Executed(ran, ablation(loss(0.001))).complete
    assert not Executed(problem="it has no safetensors files").complete
