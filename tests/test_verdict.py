"""Verdicts follow the table of the method, and nothing else."""

import numpy as np
import pytest

from hf_lineage.calibrate import EmpiricalNull, PermutationNull
from hf_lineage.comparison import Comparison
from hf_lineage.evaluate import Criteria, holm, judge
from hf_lineage.inherited import Inherited
from hf_lineage.verdict import Evidence, ExitCode, Inconclusive, Related, Unrelated


def evidence(score=0.9, p=0.001, usable=4, empirical=None, coordinates=128, share=0.97):
    layers = 4
    return Evidence(
        comparison=Comparison(
            similarity=np.eye(layers) * score,
            gate=np.ones((layers, layers)),
            pairs=(np.arange(layers), np.arange(layers)),
            usable=np.arange(layers) < usable,
            concentration=(np.ones(layers), np.ones(layers)),
            standard_error=0.0,
        ),
        permutation=PermutationNull(score, np.zeros(999), seed=0, coordinates=coordinates),
        empirical=empirical and EmpiricalNull({"other": empirical}, "a test"),
        p_value=p,
        layers=(tuple(range(layers)), tuple(range(layers))),
        inherited=Inherited(np.full(layers, share), np.full(layers, 1 / layers), 0.02),
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        pytest.param(evidence(), Related, id="significant and high"),
        pytest.param(evidence(p=0.0100001), Unrelated, id="not significant, however high"),
        pytest.param(evidence(p=0.01), Related, id="exactly alpha"),
        pytest.param(evidence(score=0.0199), Inconclusive, id="significant under the floor"),
        pytest.param(evidence(score=0.02), Related, id="exactly the floor"),
        pytest.param(evidence(usable=2), Inconclusive, id="half of the layers usable"),
        pytest.param(evidence(usable=3), Related, id="most of the layers usable"),
        pytest.param(evidence(coordinates=7), Inconclusive, id="too narrow to relabel"),
        pytest.param(evidence(coordinates=8), Related, id="just wide enough to relabel"),
        pytest.param(evidence(empirical=0.95), Unrelated, id="under the empirical threshold"),
        pytest.param(evidence(empirical=0.5), Related, id="over the empirical threshold"),
        pytest.param(evidence(empirical=0.5, p=0.5), Unrelated, id="over the empirical threshold, not significant"),
    ],
)
def test_one_path(found, verdict):
    assert type(judge({"mlp": found}, Criteria())) is verdict


def test_several_paths_are_related_when_any_is():
    outcome = judge({"mlp": evidence(p=0.5), "value_output": evidence()}, Criteria())
    assert isinstance(outcome, Related)
    assert {path: single.name for path, single in outcome.by_path.items()} == {
        "mlp": "UNRELATED",
        "value_output": "RELATED",
    }


def test_several_paths_are_unrelated_only_when_all_are():
    assert isinstance(judge({"mlp": evidence(p=0.5), "query_key": evidence(p=0.9)}, Criteria()), Unrelated)
    assert isinstance(judge({"mlp": evidence(p=0.5), "query_key": evidence(score=0.01)}, Criteria()), Inconclusive)


def test_where_the_permutation_null_does_not_hold_only_an_empirical_one_decides():
    why = "sinusoidal positions"
    undecided = judge({"mlp": evidence()}, Criteria(objection=why))
    assert isinstance(undecided, Inconclusive)
    assert undecided.reason == why
    assert isinstance(judge({"mlp": evidence(empirical=0.5)}, Criteria(objection=why)), Related)
    assert isinstance(judge({"mlp": evidence(empirical=0.95)}, Criteria(objection=why)), Unrelated)


def test_the_exit_codes_are_the_documented_ones():
    codes = {kind.__name__: kind().exit_code for kind in (Related, Unrelated, Inconclusive)}
    assert codes == {"Related": ExitCode.RELATED, "Unrelated": ExitCode.UNRELATED, "Inconclusive": ExitCode.UNDECIDED}
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ({"a": 0.01}, {"a": 0.01}),
        ({"a": 0.01, "b": 0.04}, {"a": 0.02, "b": 0.04}),
        ({"a": 0.04, "b": 0.03}, {"a": 0.06, "b": 0.06}),
        ({"a": 0.7, "b": 0.9, "c": 0.001}, {"a": 1.0, "b": 1.0, "c": 0.003}),
    ],
)
def test_holm_adjusts_as_published(raw, adjusted):
    assert holm(raw) == pytest.approx(adjusted)
