"""The empirical null: a threshold, a conformal p-value, and how many models it takes."""

from dataclasses import replace

import pytest

from hf_lineage.evidence.p_values import EmpiricalNull


def test_an_empirical_null_gives_a_threshold_and_a_conformal_p_value():
    null = EmpiricalNull({"a": 0.01, "b": -0.02, "c": 0.03}, "three seeds")
    assert null.threshold == 0.03
    assert [replace(null, observed=score).p_value for score in (0.5, 0.02, -1.0)] == [1 / 4, 2 / 4, 1.0]
    twice = [replace(null, observed=score, tests=2).p_value for score in (0.5, -1.0)]
    assert twice == [2 / 4, 1.0], "after Bonferroni over two paths"
    assert [replace(null, observed=score).admits for score in (0.02, 0.03, 0.031)] == [False, False, True]


@pytest.mark.parametrize(("models", "alpha", "tests"), [(99, 0.01, 1), (199, 0.01, 2), (4, 0.2, 1), (19, 0.05, 1)])
def test_as_many_models_as_are_asked_for_reach_alpha_and_one_less_does_not(models, alpha, tests):
    def null(count):
        return EmpiricalNull({str(number): 0.0 for number in range(count)}, "", tests, observed=0.5, alpha=alpha)

    assert null(models).objection == ""
    assert null(models).p_value <= alpha * (1 + 1e-12)
    assert null(models - 1).p_value > alpha
    assert null(models - 1).objection == (
        f"{models - 1} independent model(s) cannot show p <= {alpha:g}; that needs at least {models}; name more with "
        "--null"
    )
