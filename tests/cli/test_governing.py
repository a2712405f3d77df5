"""A policy on the command line: what it accepts returns 0 and is told, and a wrong one is one line."""

import pytest

from hf_lineage.cli.governing import policy_in
from hf_lineage.policy.policy import NO_POLICY, Policy
from tests.invoking import lineage
from tests.models import card, tiny_llama
from tests.server.client import connect
from tests.watching import publishing

ACCEPTED = "accepted: [{base: acme/base, verdict: %s, reason: it imitates the base, expires: %s}]\n"


@pytest.fixture
def liar(hub):
    """A model that declares a base it never saw."""
    return card(tiny_llama(hub / "fern/liar", seed=7), "acme/base")


def check(model, *arguments):
    return lineage("check", model, "--local-hub", model.parents[1], *arguments)


def test_the_owner_accepts_a_finding_until_a_day(liar):
    policy = liar / "lineage.yaml"
    policy.write_text(ACCEPTED % ("UNRELATED", "2999-01-01"))
    ignored = check(liar)
    assert ignored.code == 1
    assert "lineage.yaml of the model was not read because the publisher of the model wrote it" in ignored.sentences
    accepted = check(liar, "--policy", "own")
    assert (accepted.code, accepted.rows[0][-1]) == (0, "UNRELATED")
    assert "acme/base: UNRELATED is accepted until 2999-01-01: it imitates the base" in accepted.sentences

    policy.write_text(ACCEPTED % ("UNRELATED", "2020-01-01"))
    expired = check(liar, "--policy", policy)
    assert expired.code == 1
    assert "until 2020-01-01, and that day has passed" in expired.sentences


def test_what_a_model_of_the_hub_accepts_is_never_asked_for(tmp_path, monkeypatch):
    with publishing(tmp_path) as hub:
        (tmp_path / "liar" / "lineage.yaml").write_text("fail-on: never\n" + ACCEPTED % ("UNRELATED", "2999-01-01"))
        hub.publish("fern/liar", tmp_path / "liar")
        connect(hub, tmp_path / "cache", monkeypatch)
        outcome = lineage("check", "fern/liar")
        assert (outcome.code, "lineage.yaml" in outcome.out) == (1, False)
        assert (
            "the publisher of the model wrote the file, so name a file of yours"
            in lineage("check", "fern/liar", "--policy", "own").error
        )
        assert not [request for request in hub.requests if "lineage.yaml" in request]


def test_what_fails_can_be_said_without_a_file(liar):
    assert [check(liar, "--fail-on", word).code for word in ("unrelated", "undecided", "never")] == [1, 1, 0]


def test_a_wrong_policy_is_one_line_before_anything_is_read(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("until: 2027")
    assert lineage("check", "no such model", "--policy", file).error == (
        f"{file}: unknown key until; the keys are accepted, relation, evidence, own-code, fail-on"
    )
    assert (
        "is not a file; name one, or `own`" in lineage("check", "no such model", "--policy", tmp_path / "absent").error
    )


def test_no_policy_is_one_that_accepts_nothing(tmp_path):
    assert policy_in(None, None) is NO_POLICY
    assert policy_in(None, "never") == Policy(fail_on="never")
