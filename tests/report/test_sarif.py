"""SARIF keeps to its schema; each claim is a result of its level, at its line, under one fingerprint."""

import json
from pathlib import Path

import pytest

from hf_lineage import Options, check
from hf_lineage.checking.report import Report
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.report import FORMATS
from hf_lineage.report.sarif import places
from tests import pages
from tests.models import card, edit_json, tiny_llama
from tests.pages import measured, report, row
from tests.report.test_cyclonedx import CODES


def log(report):
    return json.loads(FORMATS["sarif"](report, False))


def validate(document):
    pages.validate(document, Path(__file__).parents[1] / "data" / "schemas" / "sarif-2.1.0.json")


def test_each_verdict_has_its_rule_its_level_and_its_numbers(every_kind):
    (run,) = log(every_kind)["runs"]
    rules, codes = run["tool"]["driver"]["rules"], [f"lineage/{code}" for code in CODES]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == codes
    assert [result["ruleId"] for result in run["results"]] == codes
    assert [(result["kind"], result["level"]) for result in run["results"]] == [
        ("pass", "none"), ("fail", "error"), ("fail", "warning"),
        ("fail", "warning"), ("fail", "note"), ("fail", "error"),
    ]  # fmt: skip
    assert run["results"][0]["properties"] == {
        "verdict": "VERIFIED", "code": "inherited", "verified": True, "base": "org/base", "baseCommit": "0" * 40,
        "relation": "finetune", "sources": ["README.md"], "score": pytest.approx(0.973), "pValue": 0.001,
        "inherited": pytest.approx(1.0),
    }  # fmt: skip
    said = "org/base is VERIFIED inherited (score 0.973, 100% inherited, p = 0.001)."
    assert run["results"][0]["message"]["text"] == said
    assert "score" not in run["results"][3]["properties"]


@pytest.mark.parametrize(("share", "rule"), [(0.3, "part"), (0.0, "embedding")])
def test_a_code_that_verifies_no_claim_is_a_warning_unless_it_is_accepted(share, rule):
    def result(*accept):
        (run,) = log(report(row(mlp=measured(share=share), criteria=Criteria(accept=accept))))["runs"]
        (result,) = run["results"]
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        return result["ruleId"], result["kind"], result["level"]

    validate(log(report(row(mlp=measured(share=share)))))
    assert result() == (f"lineage/{rule}", "fail", "warning")
    assert result("part", "embedding") == (f"lineage/{rule}", "pass", "none")


def test_fingerprints_outlive_commits_and_what_belongs_to_no_claim_is_a_notification(every_kind, folder):
    def prints(model):
        results = log(Report(model, None, every_kind.rows[:2], (), Options()))["runs"][0]["results"]
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]

    def notes(report):
        (run,) = log(report)["runs"]
        return [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]

    assert prints("org/model@v1") == prints("org/model@v2")
    assert len({*prints("org/model"), *prints("org/other")}) == 4
    conflict = "Conflicting claims: README.md declares a/b; adapter_config.json declares c/d"
    assert notes(every_kind) == [conflict, "org/base: All 4 layers come from it"]
    assert notes(check(str(card(folder))))[0].startswith("Nothing is declared")


def test_no_message_holds_a_link_or_a_placeholder(hostile_report):
    (run,) = log(hostile_report)["runs"]
    unrelated = [result for result in run["results"] if result["ruleId"] == "lineage/unrelated"]
    said = (result["message"]["text"].partition(" is ")[0] for result in unrelated)
    (text,) = {name for name in said if "a link" in name}
    assert text.startswith(r"\[a link\](https://evil.example) @everyone {{0}} ${{{{ secrets.TOKEN }}}}")


CARD = "---\nbase_model: org/a\n---\n"


@pytest.fixture
def places_of(tmp_path, monkeypatch):
    """Where the claims of a model with this card are, which is in the working directory."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    model = tiny_llama(tmp_path / "a model")

    def read(card, *bases):
        (model / "README.md").write_text(card, encoding="utf-8")
        return places(check(str(model), bases))

    return read


def test_each_claim_is_at_its_line_of_every_file_and_no_path_of_this_machine(places_of, tmp_path, monkeypatch):
    card = "---\ntags: [org/b]\nbase_model:\n- org/a\n- 'org/b'\n---\norg/a\n"
    assert [line for ((_, line),) in places_of(card)] == [4, 5]
    assert places_of("---\nlicense: mit\n---\n", "org/a") == [[("a%20model/README.md", None)]]
    edit_json(tmp_path / "a model/adapter_config.json", base_model_name_or_path="org/a")
    (tmp_path / "a model/mergekit_config.yml").write_text("models:\n- model: org/a+org/lora\n")
    (found,) = places_of(CARD)
    lines = (("README.md", 2), ("adapter_config.json", 1), ("mergekit_config.yml", 2))
    assert found == [(f"a%20model/{file}", line) for file, line in lines]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert places_of(CARD)[0][0] == ("README.md", 2)


@pytest.mark.parametrize("rest", ["* * *: [", "\t- {", "key: &a [*a]\n" * 3, "'"])
def test_what_follows_the_metadata_does_not_matter(places_of, rest):
    assert places_of(f"{CARD}{rest}") == [[("a%20model/README.md", 2)]]
