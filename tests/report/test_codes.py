"""Word, code, `verified` and exit code agree in every format, for every code and whatever options say."""

import datetime
import json
from dataclasses import replace
from itertools import product

import pytest

from hf_lineage import Options
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.evaluate import with_run, with_strict
from hf_lineage.evidence.executed import Executed, Strict
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import resolve
from hf_lineage.report import FORMATS
from hf_lineage.report.verdicts import texts

CODES = [code for code in Code if code is not Code.UNDECLARED]
HELD = Strict("org/base", {"": 12})
MISSED = replace(HELD, added=("model.extra",))
RUNS = (None, Executed(), Executed(problem="it needs more memory"))
STRICT = (None, HELD, MISSED)


def report(folder, *verdicts, **more):
    rows = tuple(ClaimResult(Claim("org/base", "finetune", ("README.md",)), verdict) for verdict in verdicts)
    return Report("model", None, rows, (), Options(), resolve(str(folder)), **more)


def document(found):
    return json.loads(FORMATS["json"](found, False))


@pytest.mark.parametrize("code", CODES)
def test_every_format_names_the_word_and_the_code(folder, code):
    found = report(folder, Verdict(code, "because of a reason"))
    (claim,) = document(found)["claims"]
    assert (claim["verdict"], claim["code"]) == (code.word, code)
    assert claim["next"] == list(texts()[code].next)
    (result,) = json.loads(FORMATS["sarif"](found, False))["runs"][0]["results"]
    assert (result["ruleId"], result["properties"]["verdict"]) == (f"lineage/{code}", code.word)
    outputs = json.loads(FORMATS["github"](found, False))["outputs"]
    assert [outputs[key] for key in ("verdict", "code")] == [code.word, code]
    assert outputs["verified"] == str(claim["verified"]).lower()
    listed = json.loads(FORMATS["cyclonedx"](found, False))["metadata"]["component"]["properties"]
    bill = {one["name"]: one["value"] for one in listed}
    assert (bill["hf-lineage:claim:0:verdict"], bill["hf-lineage:claim:0:code"]) == (code.word, code)
    for form, explain in product(("text", "markdown", "html"), (False, True)):
        page = FORMATS[form](found, explain).replace("\\", "")
        assert code.label in " ".join(page.split()), form
    assert f"Next: {texts()[code].next[0]}" in " ".join(FORMATS["text"](found, False).split())


@pytest.mark.parametrize(("run", "strict"), list(product(RUNS, STRICT)))
@pytest.mark.parametrize("code", [Code.INHERITED, Code.MERGE, Code.PART, Code.UNRELATED, Code.NO_BASE])
def test_what_was_asked_for_and_does_not_hold_is_never_verified(folder, code, run, strict):
    verdict = Verdict(code)
    verdict = verdict if run is None else with_run(verdict, run)
    verdict = verdict if strict is None else with_strict(verdict, strict)
    assert verdict.verified is (verdict.word == "VERIFIED") is (verdict.exit_code == 0)
    refused = (run is not None and bool(run.problem)) or strict is MISSED
    assert verdict.verified is (code.word == "VERIFIED" and not refused)
    if code.word != "VERIFIED":
        assert verdict.code is code, "what is asked for besides changes no other verdict"
    found = report(folder, verdict)
    assert {key: document(found)[key] for key in ("verdict", "verified", "exit_code")} == {
        "verdict": verdict.word, "verified": verdict.verified, "exit_code": int(verdict.exit_code)
    }  # fmt: skip


def test_of_several_claims_the_worst_counts(folder):
    order = [Code.INHERITED, Code.PART, Code.UNRELATED, Code.DAMAGED]
    for number in range(1, len(order) + 1):
        found = report(folder, *map(Verdict, order[:number]))
        assert (found.code, document(found)["code"]) == (order[number - 1], order[number - 1])
    assert report(folder).code is Code.UNDECLARED


@pytest.mark.parametrize("form", ["json", "markdown", "html", "cyclonedx"])
def test_the_time_is_when_the_check_began_and_not_when_the_file_was_written(form, every_kind, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    began = replace(every_kind, checked_at=datetime.datetime(2020, 2, 3, 23, 59, tzinfo=datetime.UTC))
    text = FORMATS[form](began, False)
    assert "2020-02-03" in text or "3 February 2020" in text
    assert f"{datetime.datetime.now(datetime.UTC):%Y-%m}" not in text
