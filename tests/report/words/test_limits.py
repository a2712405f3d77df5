"""Limits: a report says those of what was measured, and nothing where nothing was."""

from dataclasses import replace

from hf_lineage.evidence.executed import Executed
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report.words.limits import describe_limits
from hf_lineage.report.words.verdicts import sentences
from tests.example_evidence import trace
from tests.pages import measured, report, row

ONE = row(mlp=measured())
LIMITS = (*sentences("limits").values(), sentences("weights")["stored"])


def with_verdict(**changes):
    return report(replace(ONE, verdict=replace(ONE.verdict, **changes)))


def test_a_model_has_the_limits_of_models_and_an_adapter_those_of_adapters():
    assert describe_limits(report(ONE)) == LIMITS
    assert describe_limits(with_verdict(evidence={}, by_path={}, trace=trace())) == (*sentences("adapters").values(),)
    assert describe_limits(report(replace(ONE, verdict=Verdict(Code.NO_WEIGHTS)))) == ()


def test_units_are_weighed_by_what_they_wrote_only_where_the_models_ran():
    assert describe_limits(with_verdict(executed=Executed()))[-1] == sentences("weights")["run"]
    assert describe_limits(with_verdict(executed=Executed(problem="no memory"))) == LIMITS
