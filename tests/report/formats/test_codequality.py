"""Entries for GitLab's widget keep to its schema and documentation; a finding is known again from run to run."""

import datetime
import json
from dataclasses import replace
from pathlib import Path, PurePosixPath

import jsonschema
import pytest

from hf_lineage import check
from hf_lineage.checking.results.policies import under
from hf_lineage.evidence.verdict import Kind
from hf_lineage.policy.policy import Policy, Waiver
from hf_lineage.report import FORMATS
from tests.models import card
from tests.pages import measured, report, row

PARSED = json.loads((Path(__file__).parents[2] / "data/schemas/gitlab-codequality.json").read_text("utf-8"))
"""What GitLab's parser demands of an entry; any other entry is dropped without a word."""
DOCUMENTED = {
    "type": "object",
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string", "minLength": 1},
        "check_name": {"type": "string", "pattern": "^lineage/[a-z-]+$"},
        "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
        "location": {
            "type": "object",
            "required": ["path", "lines"],
            "additionalProperties": False,
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "lines": {
                    "type": "object",
                    "required": ["begin"],
                    "additionalProperties": False,
                    "properties": {"begin": {"type": "integer", "minimum": 1}},
                },
            },
        },
    },
}
"""What its documentation asks for: docs.gitlab.com/ci/testing/code_quality, "Code Quality report format"."""
TODAY = datetime.date(2026, 11, 22)


def entries(report):
    return json.loads(FORMATS["codequality"](report, False))


def validate(found):
    for entry in found:
        for schema in (PARSED, DOCUMENTED):
            jsonschema.Draft7Validator(schema).validate(entry)
        assert not PurePosixPath(entry["location"]["path"]).is_absolute()


def test_it_keeps_to_what_gitlab_parses_and_documents(any_report):
    assert FORMATS["codequality"](any_report, False).startswith("[")
    validate(entries(any_report))


@pytest.mark.parametrize("spoiled", [{"severity": "fatal"}, {"location": {"path": "README.md"}}, {"fingerprint": ""}])
def test_the_check_would_notice_what_is_wrong(every_kind, spoiled):
    with pytest.raises(jsonschema.ValidationError):
        validate([entries(every_kind)[0] | spoiled])


def test_what_holds_is_no_entry_and_the_rest_is_as_severe_as_its_rule(every_kind):
    assert [(entry["check_name"], entry["severity"]) for entry in entries(every_kind)] == [
        ("lineage/unrelated", "critical"),
        ("lineage/inconclusive", "major"),
        ("lineage/incompatible", "major"),
        ("lineage/unverifiable", "minor"),
        ("lineage/unreadable", "critical"),
    ]
    assert entries(report(row(mlp=measured()))) == []


def test_an_entry_says_of_which_model_and_stands_where_the_claim_is_made(folder, monkeypatch):
    """The path is one of the checkout, spaces and all: GitLab takes it for a path, and not for an address."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = "---\nlicense: mit\nbase_model:\n- org/absent\n---\n"
    folder.rename(folder.with_name("a model")).joinpath("README.md").write_text(text, encoding="utf-8")
    (entry,) = entries(check("./a model"))
    assert entry["location"] == {"path": "a model/README.md", "lines": {"begin": 4}}
    assert entry["description"].startswith("Lineage of ./a model: org/absent is UNVERIFIABLE: ")


def test_where_nothing_is_declared_that_is_the_entry(folder):
    (entry,) = entries(check(str(card(folder))))
    assert (entry["check_name"], entry["severity"]) == ("lineage/undeclared", "minor")
    assert "Nothing is declared" in entry["description"]
    asked = under(check(str(card(folder))), Policy("p.yaml", relations=("merge",)), TODAY)
    (failing,) = entries(asked)
    assert (failing["severity"], failing["fingerprint"]) == ("major", entry["fingerprint"])
    assert "p.yaml asks for the relation merge, but the model declares no base." in failing["description"]


def marks(*rows, **more):
    return [entry["fingerprint"] for entry in entries(report(*rows, **more))]


def test_a_fingerprint_stays_from_run_to_run_and_moves_with_what_is_found():
    unrelated, draw = measured(score=0.005, p=0.5, share=0.0), measured(score=0.006, p=0.4, share=0.0, seed=1)
    (first,) = marks(row(mlp=unrelated))
    assert marks(row(mlp=draw, sources=("adapter_config.json",), commit="1" * 40), model="org/model@v2") == [first]
    others = [
        *marks(row("org/another", mlp=unrelated)),
        *marks(row(mlp=unrelated), model="org/another"),
        *marks(row(mlp=measured(share=0.3))),
        *marks(replace(row(mlp=unrelated), part="unet")),
        *marks(replace(row(mlp=unrelated), part="vae")),
    ]
    assert len({first, *others}) == 6


def test_what_is_accepted_is_information_and_what_is_not_met_a_warning():
    day = datetime.date(2027, 3, 31)
    policy = Policy("p.yaml", (Waiver("org/base", Kind.UNRELATED, "distilled", day),), relations=("merge",))
    rows = row("org/base", mlp=measured(score=0.005, p=0.5, share=0.0)), row("org/other", mlp=measured())
    accepted, unmet = entries(under(report(*rows), policy, TODAY))
    assert (accepted["severity"], unmet["severity"]) == ("info", "major")
    assert "accepted until 2027-03-31: distilled" in accepted["description"]
    assert "the policy asks for the relation merge" in unmet["description"]
    expired, _ = entries(under(report(*rows), policy, datetime.date(2027, 4, 1)))
    assert (expired["severity"], expired["fingerprint"]) == ("critical", accepted["fingerprint"])
    assert "accepted only until 2027-03-31, and that day has passed" in expired["description"]
