"""Texts of verdicts: every code has all of them, and word, code, verified and exit code agree in every format."""

import datetime
import json
from dataclasses import replace
from itertools import product

import pytest

from hf_lineage.evidence.evaluate import with_run, with_strict
from hf_lineage.evidence.executed import RunOutcome, Strict
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict, Word
from hf_lineage.report import FORMATS, verdicts, wording
from hf_lineage.report.page import SIGNS
from hf_lineage.report.verdicts import describe_limits, sentences, texts
from tests.example_evidence import evidence, trace
from tests.pages import measured, report, row
from tests.report.families import claimed


def test_every_code_has_its_texts_and_what_is_verified_alone_looks_good():
    assert list(texts()) == list(Code)
    assert {text.tone for text in texts().values()} == set(SIGNS)
    assert all((texts()[code].tone == "good") is (code.word is Word.VERIFIED) for code in Code)
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


def test_null_models_are_counted_and_layers_named_that_come_from_other_numbers():
    known = EmpiricalNull({"x": 0.1, "y": -0.1, "z": 0.0}, "a\nb", alpha=0.3)
    *_, last = verdicts.null_sentences(evidence(empirical=known))
    assert last == "empirical null: 3 independent models reach 0.1; a\\nb, p = 0.25; another null decides"
    plain = evidence(layers=((2, 3, 5, 7), (2, 3, 5, 7)), shares=(1.0, 1.0, 0.2, 1.0))
    assert list(wording.came_from(plain)) == []
    moved = replace(plain, inherited=replace(plain.inherited, partners=(1, 2, 0, 3)))
    assert moved.origins == {2: 3, 3: 5, 7: 7}
    assert list(wording.came_from(moved)) == ["layer 2 from layer 3, layer 3 from layer 5, layer 7 from layer 7"]
    same = replace(plain, inherited=replace(plain.inherited, partners=(0, 1, 2, 3)))
    assert list(wording.came_from(same)) == []


def test_a_model_has_the_limits_of_models_an_adapter_its_own_and_of_a_run_its_weight():
    def limits(verdict=None, **changes):
        one = row(mlp=measured())
        return describe_limits(report(replace(one, verdict=verdict or replace(one.verdict, **changes))))

    usual = (*sentences("limits").values(), sentences("weights")["stored"])
    assert limits() == limits(executed=RunOutcome(problem="no memory")) == usual
    assert limits(evidence={}, by_path={}, trace=trace()) == (*sentences("adapters").values(),)
    assert limits(Verdict(Code.NO_WEIGHTS)) == ()
    assert limits(executed=RunOutcome())[-1] == sentences("weights")["run"]


def loaded(form, found):
    return json.loads(FORMATS[form](found, False))


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.UNDECLARED])
def test_every_format_names_the_word_and_the_code(code):
    found = report(claimed(Verdict(code, "because of a reason")))
    (claim,) = loaded("json", found)["claims"]
    assert (claim["verdict"], claim["code"], claim["next"]) == (code.word, code, list(texts()[code].next))
    (result,) = loaded("sarif", found)["runs"][0]["results"]
    assert (result["ruleId"], result["properties"]["verdict"]) == (f"lineage/{code}", code.word)
    outputs = loaded("github", found)["outputs"]
    assert [outputs[key] for key in ("verdict", "code")] == [code.word, code]
    assert outputs["verified"] == str(claim["verified"]).lower()
    listed = loaded("cyclonedx", found)["metadata"]["component"]["properties"]
    bill = {one["name"]: one["value"] for one in listed}
    assert (bill["hf-lineage:claim:0:verdict"], bill["hf-lineage:claim:0:code"]) == (code.word, code)
    for form, explain in product(("text", "markdown", "html"), (False, True)):
        page = FORMATS[form](found, explain).replace("\\", "")
        assert code.label in " ".join(page.split()), form
    assert f"Next: {texts()[code].next[0]}" in " ".join(FORMATS["text"](found, False).split())


@pytest.mark.parametrize("strict", [None, Strict("org/base", {"": 12}), Strict("org/base", {"": 12}, added=("extra",))])
@pytest.mark.parametrize("run", [None, RunOutcome(), RunOutcome(problem="it needs more memory")])
@pytest.mark.parametrize("code", [Code.INHERITED, Code.MERGE, Code.PART, Code.UNRELATED, Code.NO_BASE])
def test_what_was_asked_for_and_does_not_hold_is_never_verified(code, run, strict):
    verdict = Verdict(code)
    verdict = verdict if run is None else with_run(verdict, run)
    verdict = verdict if strict is None else with_strict(verdict, strict)
    assert verdict.verified is (verdict.word == "VERIFIED") is (verdict.exit_code == 0)
    refused = bool((run and run.problem) or (strict and strict.added))
    assert verdict.verified is (code.word == "VERIFIED" and not refused)
    if code.word != "VERIFIED":
        assert verdict.code is code, "what is asked for besides changes no other verdict"
    told = {"verdict": verdict.word, "verified": verdict.verified, "exit_code": int(verdict.exit_code)}
    assert told.items() <= loaded("json", report(claimed(verdict))).items()


def test_of_several_claims_the_worst_counts():
    order = [Code.INHERITED, Code.PART, Code.UNRELATED, Code.DAMAGED]
    for number, worst in enumerate(order, 1):
        found = report(*map(claimed, map(Verdict, order[:number])))
        assert (found.code, loaded("json", found)["code"]) == (worst, worst)
    assert report().code is Code.UNDECLARED


@pytest.mark.parametrize("form", ["json", "markdown", "html", "cyclonedx"])
def test_the_time_is_when_the_check_began_and_not_when_the_file_was_written(form, every_kind, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    began = replace(every_kind, checked_at=datetime.datetime(2020, 2, 3, 23, 59, tzinfo=datetime.UTC))
    text = FORMATS[form](began, False)
    assert "2020-02-03" in text or "3 February 2020" in text
    assert f"{datetime.datetime.now(datetime.UTC):%Y-%m}" not in text
