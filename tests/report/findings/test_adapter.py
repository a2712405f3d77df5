"""What reports say of an adapter: the same in each format, with new keys only in those for machines."""

import json

import pytest

from hf_lineage import Options
from hf_lineage.checking.api import Report
from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.adapter_verdict import judge_trace
from hf_lineage.report import FORMATS
from tests.example_evidence import trace
from tests.pages import document

WEAK = 2.0
"""A statistic that no permutation reaches, and yet less than is predicted of such an adapter."""


def shown(name, *traces, explain=False):
    return FORMATS[name](report(*traces), explain)


def report(*traces, layers=2):
    """A report on an adapter with a row for each of these tests."""
    rows = tuple(
        Row(Claim("acme/base", "adapter", ("adapter_config.json",)), judge_trace(one, Criteria()), layers=layers)
        for one in traces
    )
    return Report("fern/lora", None, rows, (), Options(seed=3))


@pytest.mark.long
def test_the_values_are_those_of_the_schema():
    tests = trace(), trace(0.5), trace(0.5, size=float("inf")), trace(WEAK)
    related, unrelated, open_one, weak = document(report(*tests))["claims"]
    assert (related["code"], related["verified"], related["paths"]) == ("adapter", True, [])
    assert (related["adapter"]["p_value"], related["adapter"]["permutations"]) == (0.001, 999)
    assert (related["adapter"]["effect"], related["adapter"]["least_effect"]) == pytest.approx((12.1, 9.2), abs=0.05)
    assert (weak["verdict"], weak["code"], weak["verified"], weak["exit_code"]) == ("RELATED", "weak", False, 3)
    assert weak["adapter"]["effect"] < weak["adapter"]["least_effect"]
    value, down = related["adapter"]["projections"]
    assert (value["projection"], value["permuted"]) == ("value", "dimensions of value heads")
    assert [layer["layer"] for layer in down["layers"]] == [0, 1]
    assert (unrelated["verdict"], unrelated["code"]) == ("UNRELATED", "unrelated")
    assert (open_one["verdict"], open_one["adapter"]["projections"][0]["layers"][0]["size"]) == ("UNDECIDED", None)


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_every_format_for_people_shows_the_verdict_the_projections_and_p(name):
    text = " ".join(shown(name, trace(), explain=True).split())
    assert "VERIFIED adapter" in text
    assert "0.001" in text
    assert "value z 12.1" in text.lower()


def test_an_alert_has_the_p_value_and_says_that_a_trace_is_weak():
    unrelated, weak = json.loads(shown("sarif", trace(0.5), trace(WEAK)))["runs"][0]["results"]
    assert unrelated["properties"]["pValue"] > 0.01
    assert "score" not in unrelated["properties"]
    assert (weak["ruleId"], weak["level"]) == ("lineage/weak", "warning")


@pytest.mark.parametrize("name", ["text", "markdown", "html", "github"])
def test_a_weak_trace_is_called_so_in_every_format_for_people(name):
    assert "RELATED weak" in " ".join(shown(name, trace(WEAK)).split())
