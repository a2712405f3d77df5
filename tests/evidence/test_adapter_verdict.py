"""The verdict on an adapter: RELATED by its own test, UNRELATED only where the test would have found the trace."""

import numpy as np
import pytest

from hf_lineage.evidence.adapter_trace import Trace
from hf_lineage.evidence.adapter_verdict import clear, judge_trace
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.verdict import ExitCode, Kind


def measured(observed, directions=400.0, analyses=1):
    """A test of one role with 999 permutations between 0 and 1."""
    ratios = np.concatenate([[observed], np.linspace(0, 1, 999)])[:, None]
    return Trace(("value",), (0,), ratios, np.array([directions]), np.zeros(1), 0, analyses)


def test_a_trace_makes_the_adapter_related_and_verifies_its_claim():
    outcome = judge_trace(measured(2.0), Criteria())
    assert (outcome.kind, outcome.name, outcome.verified) == (Kind.ADAPTER, "RELATED", True)
    assert outcome.exit_code is ExitCode.RELATED
    assert outcome.reason == (
        "the adapter carries the trace of this base: it was trained on it or on a near relative of it"
    )


def test_no_trace_is_unrelated_where_the_power_is_predicted_to_be_large():
    outcome = judge_trace(measured(0.5), Criteria())
    assert (outcome.name, outcome.verified) == ("UNRELATED", False)
    assert "one trained on it would show it with a predicted probability above 0.99" in outcome.reason


def test_no_trace_is_inconclusive_where_the_power_is_small_and_says_how_small():
    outcome = judge_trace(measured(0.5, directions=4.0), Criteria())
    assert outcome.name == "INCONCLUSIVE"
    assert f"only with a predicted probability of {outcome.trace.power(0.01):.2f}" in outcome.reason


def test_a_start_that_depends_on_the_order_of_rows_decides_nothing():
    outcome = judge_trace(measured(2.0), Criteria(), "loftq")
    assert outcome.name == "INCONCLUSIVE"
    assert outcome.reason.startswith("the adapter started from loftq")


def test_alpha_decides():
    assert judge_trace(measured(2.0), Criteria(alpha=0.001)).name == "RELATED"
    assert judge_trace(measured(2.0), Criteria(alpha=0.0005)).name == "UNRELATED"


@pytest.mark.parametrize(
    ("trace", "stands"),
    [
        (measured(2.0, analyses=2), True),
        (measured(0.5, analyses=2), True),
        (measured(0.95, analyses=2), False),
        (measured(0.5, directions=4.0, analyses=2), False),
    ],
)
def test_more_layers_are_read_unless_the_verdict_on_a_few_is_clear(trace, stands):
    assert clear(judge_trace(trace, Criteria())) is stands
