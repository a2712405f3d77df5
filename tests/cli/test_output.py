"""Where a report goes, and what a policy on the command line accepts, asks for and refuses."""

import json

import pytest

from tests.invoking import check, lineage
from tests.models import WEIGHTS, card, tiny_llama

ACCEPTED = "accepted: [{base: acme/base, code: %s, reason: it imitates the base, expires: %s}]\n"


@pytest.fixture
def liar(hub):
    return card(tiny_llama(hub / "fern/liar", seed=7), "acme/base")


def checked(model, *arguments):
    return lineage("check", model, "--local-hub", model.parents[1], *arguments)


def test_the_owner_accepts_a_finding_until_a_day(liar):
    policy = liar / "lineage.yaml"
    policy.write_text(ACCEPTED % ("unrelated", "2999-01-01"))
    ignored = checked(liar)
    assert ignored.code == 1
    assert "lineage.yaml of the model was not read because the publisher of the model wrote it" in ignored.sentences
    accepted = checked(liar, "--policy", "own")
    assert (accepted.code, accepted.rows[0][-1]) == (0, "UNRELATED")
    assert "Accepted until 2999-01-01: it imitates the base." in accepted.sentences

    policy.write_text(ACCEPTED % ("unrelated", "2020-01-01"))
    expired = checked(liar, "--policy", policy)
    assert (expired.code, "until 2020-01-01, and that day has passed" in expired.sentences) == (1, True)
    assert [checked(liar, "--fail-on", word).code for word in ("unrelated", "undecided", "never")] == [1, 1, 0]
    policy.write_text("until: 2027")
    assert lineage("check", "no such model", "--policy", policy).error == (
        f"{policy}: unknown key until; the keys are accepted, relation, require, own-code, undeclared-parent, fail-on"
    )


def test_what_a_model_of_the_hub_accepts_is_never_asked_for(liar, online):
    (liar / "lineage.yaml").write_text("fail-on: never\n" + ACCEPTED % ("unrelated", "2999-01-01"))
    online.publish("acme/base", liar.parents[1] / "acme/base")
    online.publish("fern/liar", liar)
    outcome = lineage("check", "fern/liar")
    assert (outcome.code, "lineage.yaml" in outcome.out) == (1, False)
    error = lineage("check", "fern/liar", "--policy", "own").error
    assert "the publisher of the model wrote the file, so name a file of yours" in error
    assert not [request for request in online.requests if "lineage.yaml" in request]


def test_annotate_writes_reports_too_and_a_format_with_nothing_to_say_is_left_out(hub, tmp_path):
    outcome = lineage("annotate", "fern/child", "--local-hub", hub, f"--output=json={tmp_path / 'report.json'}")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("acme/base: VERIFIED inherited\n")
    assert json.loads((tmp_path / "report.json").read_text())["claims"][0]["verified"]
    (tmp_path / "report.json").unlink()
    (hub / "fern/child" / WEIGHTS).unlink()
    files = {form: tmp_path / f"report.{form}" for form in ("intoto", "json")}
    outcome = check(hub, *(f"--output={form}={file}" for form, file in files.items()))
    assert (outcome.code, outcome.rows[0][-1]) == (3, "no-weights")
    assert outcome.err.startswith("hf-lineage: report.intoto was not written: ")
    assert [form for form, file in files.items() if file.exists()] == ["json"]
