"""What every format says: which row and which path count, and a sentence for whatever the reader must know."""

from dataclasses import replace

import pytest

from hf_lineage.checking.result import NAMED
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge, judge_equal
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import wording
from hf_lineage.report.findings import reasons
from hf_lineage.report.wording import COLUMNS, columns
from tests.evidence.test_evaluate import equal_numbers
from tests.example_evidence import evidence, inheriting
from tests.pages import report
from tests.report.families import claimed


def judged(**paths):
    return judge(paths, Criteria())


def test_a_row_has_a_line_for_each_path_and_only_a_declared_base_is_called_declared():
    measured = claimed(judged(mlp=evidence(score=0.9734), query_key=evidence(score=0.4, shares=())))
    lines = list(wording.cells(measured))
    assert lines == [
        ("org/base", "finetune", "mlp", "0.973", "100%", "0.001", "VERIFIED inherited"),
        ("", "", "query_key", "0.400", "-", "0.001", "RELATED embedding"),
    ]
    assert {len(line) for line in lines} == {len(COLUMNS)}
    assert wording.line(measured) == ("org/base", "0.400", "-", "0.001", "RELATED embedding")
    assert columns(report(measured)) == ("Declared base", "Score", "Inherited", "p", "Verdict")
    named = replace(measured, claim=replace(measured.claim, sources=NAMED))
    assert columns(report(named), explain=True) == ("Base", *COLUMNS[1:])
    assert columns(report(measured), explain=True) == COLUMNS
    assert columns(report(named, measured))[0] == columns(report())[0] == COLUMNS[0]
    assert report(named).to_text().splitlines()[2].startswith(" Base ")
    assert "| Base |" in report(named).to_markdown()
    broken = claimed(judged(mlp=evidence(score=0.0, p=1.0, shares=(), not_finite=((), (1,)))))
    reason = "org/base: weights in layer 1 of the candidate are not finite, or too large for float32"
    assert list(reasons(report(broken))) == [reason], "and nothing is said but that"


def test_the_path_that_decided_says_what_all_say_and_is_the_weakest_of_those():
    mixed = judged(mlp=evidence(score=0.5), value_output=evidence(score=0.9, shares=(0.0,) * 4))
    assert (mixed.label, mixed.decisive) == ("RELATED embedding", "value_output")
    assert judged(mlp=evidence(score=0.9), value_output=evidence(score=0.5)).decisive == "value_output"
    most = judged(mlp=evidence(score=0.9, shares=(1.0, 1.0, 1.0, 0.0)), value_output=evidence(score=0.5))
    assert (most.label, most.decisive) == ("VERIFIED inherited", "mlp")
    far = judged(mlp=evidence(score=0.1, p=0.5), value_output=evidence(score=0.2, p=0.4))
    assert (far.label, far.decisive) == ("UNRELATED", "value_output")
    assert Verdict(Code.INCONCLUSIVE).decisive is None
    assert wording.best(claimed(Verdict(Code.INCONCLUSIVE))) is None


@pytest.mark.parametrize(("shares", "error", "shown"), [
    ((1.0, 1.0, 1.0, 1.0), 0.0, "100%"), ((1.0, 0.0, 0.0, 0.0), 0.05, "25% (20-30%)"),
    ((0.0, 0.0, 0.0, 0.0), 0.05, "0% (0-5%)"), ((1.0, 0.0, 0.0, 0.0), 0.001, "25%"),
])  # fmt: skip
def test_a_share_is_shown_with_its_interval_where_that_is_wider_than_what_is_printed(shares, error, shown):
    assert wording.share(evidence(inherited=inheriting(*shares, error=error))) == shown


def test_the_p_of_equal_numbers_is_shown_where_they_decide_and_not_beside_a_path():
    part, unrelated = judged(mlp=evidence(shares=(1.0, 0.0, 0.0, 0.0))), judged(mlp=evidence(score=0.0, p=0.5))
    accepting, equal = Criteria(accept=("part",)), equal_numbers(1.0, tests=2)
    by_path = claimed(judge_equal(equal, part, accepting))
    assert (by_path.verdict.code, by_path.verdict.equal) == ("part", equal)
    assert wording.p_value(by_path) == part.evidence["mlp"].p_value == 0.001
    by_numbers = replace(judge_equal(equal, unrelated, accepting), evidence=unrelated.evidence)
    assert wording.p_value(claimed(replace(by_numbers, by_path=unrelated.by_path))) == equal.p_value == 0.002
