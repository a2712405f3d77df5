"""Texts of verdicts: every code has all of them, in short sentences."""

from dataclasses import replace

from hf_lineage.evidence.executed import Executed
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict, Word
from hf_lineage.report import verdicts, wording
from hf_lineage.report.page import SIGNS
from hf_lineage.report.verdicts import CODES, describe_limits, sentences, texts
from tests.example_evidence import evidence, trace
from tests.pages import measured, report, row


def test_every_code_has_its_texts_and_a_rule():
    assert list(texts()) == list(CODES) == list(Code)
    assert {text.tone for text in texts().values()} == set(SIGNS)


def test_a_contradiction_looks_bad_and_only_a_verified_claim_looks_good():
    assert [code for code in Code if texts()[code].tone == "good"] == [
        code for code in Code if code.word is Word.VERIFIED
    ]
    assert [code for code in Code if texts()[code].tone == "bad"] == [Code.UNRELATED, Code.DAMAGED]
    assert {texts()[code].level for code in Code if code.exit_code in (ExitCode.UNRELATED, ExitCode.ERROR)} == {"error"}
    assert {texts()[code].level for code in Code if code.exit_code is ExitCode.VERIFIED} == {"none"}


def test_there_is_advice_for_every_code_in_sentences_of_at_most_25_words():
    for text in texts().values():
        cases = [sentence for case in text.cases for sentence in (case.title or text.title, case.meaning, *case.next)]
        parts = [text.title, text.meaning, *text.next, *filter(None, cases)]
        sentences = [sentence for part in parts for sentence in part.replace(". ", ".\n").splitlines()]
        assert text.next
        assert all(sentence.endswith(".") and len(sentence.split()) <= 25 for sentence in sentences), sentences
        assert not text.headline.endswith(".")


KNOWN = EmpiricalNull({"x": 0.1, "y": -0.1, "z": 0.0}, "a\nb", alpha=0.3)


def test_independent_models_that_were_named_are_counted_and_their_source_is_escaped():
    *_, last = verdicts.null_sentences(evidence(empirical=KNOWN))
    assert last == "empirical null: 3 independent models reach 0.1; a\\nb, p = 0.25; another null decides"


def test_layers_that_come_from_others_than_those_of_their_number_are_named_in_runs():
    plain = evidence(layers=((2, 3, 5, 7), (2, 3, 5, 7)), shares=(1.0, 1.0, 0.2, 1.0))
    assert list(wording.came_from(plain)) == []
    moved = replace(plain, inherited=replace(plain.inherited, partners=(1, 2, 0, 3)))
    assert moved.origins == {2: 3, 3: 5, 7: 7}
    assert list(wording.came_from(moved)) == ["layer 2 from layer 3, layer 3 from layer 5, layer 7 from layer 7"]
    same = replace(plain, inherited=replace(plain.inherited, partners=(0, 1, 2, 3)))
    assert list(wording.came_from(same)) == []


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
