"""check --verify: the exit code says whether words and codes are those of the file, and the file chooses little."""

import json

import pytest

from tests.invoking import lineage


@pytest.fixture
def record(hub):
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write").code == 0
    return hub / "fern/child/lineage/claims.json"


def test_a_record_beside_a_card_is_checked_again_with_and_without_a_model(hub, record):
    for model in ((), ("fern/child",), (hub / "fern/child",)):
        done = lineage("check", *model, "--verify", record, "--local-hub", hub)
        assert (done.code, done.err) == (0, "")
        assert done.out == f"Checked {model[0] if model else 'fern/child'} against acme/base; differences: none.\n"


@pytest.mark.parametrize(("change", "code"), [({"code": "part"}, 1), ({"score": 0.1}, 3), ({}, 0)])
def test_the_exit_code_says_how_grave_it_is(hub, record, change, code):
    document = json.loads(record.read_text())
    document["claims"][0].update(change)
    record.write_text(json.dumps(document))
    assert lineage("check", "--verify", record, "--local-hub", hub).code == code


def test_what_is_no_report_is_an_error(hub):
    refused = lineage("check", "--verify", hub / "fern/child/config.json")
    assert (refused.code, refused.out) == (2, "")
    assert "config.json is not a file that hf-lineage wrote" in refused.error


@pytest.mark.parametrize("option", [("--paths", "mlp"), ("--strict",), ("--explain",), ("--fail-on", "never")])
def test_what_the_file_settles_is_not_given_beside_it(record, option):
    refused = lineage("check", "--verify", record, *option)
    assert (refused.code, f"--verify takes the settings of FILE; leave {option[0]} out" in refused.error) == (2, True)


def test_without_it_a_model_is_needed_and_with_it_one_at_most(record):
    assert "Missing argument 'MODEL...'" in lineage("check").error
    assert "--verify is about one model" in lineage("check", "a/b", "c/d", "--verify", record).error
