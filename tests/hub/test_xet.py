"""What the Hub tells of the chunks of its files, in both forms; what does not fit is no answer."""

import time
from dataclasses import replace

import pytest

from hf_lineage.hub import xet
from tests.server import serving
from tests.server.answers import Answer, json_answer
from tests.server.chunks import xet_hash
from tests.server.client import connect

TOKEN, TERMS = "xet-read-token", "reconstructions"


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Ask for the terms of a file of 20,000 bytes on a Hub."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(i * i % 251 for i in range(20_000)))
    with serving() as hub:
        hub.chunk = 1000
        commit = hub.publish("acme/base", folder)
        connect(hub, tmp_path / "cache", monkeypatch)
        file = xet.Stored("acme/base", commit, xet_hash(folder / "model.safetensors"), 20_000)

        def asked(**changes):
            one = replace(file, **changes)
            xet.ask_terms((one,))
            return one.terms

        asked.hub = hub
        yield asked


def test_the_terms_of_a_file_tell_where_all_of_its_bytes_are(stored):
    terms = stored()
    assert sum(term.unpacked_length for term in terms) == 20_000
    assert stored.hub.requests == [f"GET /api/models/acme/base/{TOKEN}/{stored.hub.commit('acme/base', 'main')}"]


@pytest.mark.parametrize("unknown", [{"v2"}, {"v1"}])
def test_one_form_of_the_answer_is_enough(stored, unknown):
    stored.hub.unknown_forms = unknown
    assert stored()


def test_a_token_is_sent_to_the_hub_and_another_one_to_the_storage(stored):
    stored()
    assert stored.hub.leaked == {"Bearer chunks"}
    assert "Bearer chunks" not in stored.hub.tokens


def answers(said):
    return lambda _right: said


LONG = b'{"terms": [' + b" " * (xet.LARGEST_ANSWER + 1) + b"]}"
TERM = {"hash": "a" * 64, "unpacked_length": 20_000, "range": {"start": 0, "end": 4}}
WRONG = {
    "refused": Answer(403),
    "unavailable": Answer(503),
    "no connection": Answer(0),
    "no JSON": Answer(200, b"<html>"),
    "a list": json_answer([]),
    "deep": Answer(200, b"[" * 100_000),
    "too long": Answer(200, LONG),
    "negative": json_answer({"terms": [TERM | {"range": {"start": -1, "end": 4}}]}),
    "empty range": json_answer({"terms": [TERM | {"range": {"start": 4, "end": 4}}]}),
    "no hash": json_answer({"terms": [TERM | {"hash": "../x"}]}),
    "another size": json_answer({"terms": [TERM | {"unpacked_length": 19_999}]}),
    "a part": json_answer({"terms": [TERM], "offset_into_first_range": 8}),
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_an_answer_that_does_not_fit_is_none(stored, said):
    stored.hub.plan(answers(said), TERMS, times=2)
    assert stored() == ()


@pytest.mark.parametrize(
    "said",
    [Answer(401), json_answer({}), json_answer({"casUrl": "ftp://localhost", "accessToken": "a", "exp": 1})],
    ids=["refused", "empty", "no address"],
)
def test_without_a_token_nothing_is_asked(stored, said):
    stored.hub.plan(answers(said), TOKEN)
    assert stored() == ()
    assert not any(TERMS in place for place in stored.hub.sent)


def test_a_slow_answer_is_not_waited_for(stored, monkeypatch):
    monkeypatch.setattr(xet, "PATIENCE", 0.5)
    stored.hub.plan(answers(Answer(200, pause=5)), TERMS, times=2)
    begun = time.monotonic()
    assert stored() == ()
    assert time.monotonic() - begun < 3


def test_a_file_that_the_storage_does_not_know_has_no_terms(stored):
    assert stored(hash="b" * 64) == ()


def test_a_file_that_was_asked_for_is_not_asked_for_again(stored):
    file = xet.Stored("acme/base", stored.hub.commit("acme/base", "main"), "b" * 64, 1)
    xet.ask_terms((file,))
    asked = len(stored.hub.requests)
    xet.ask_terms((file,))
    assert (file.terms, len(stored.hub.requests)) == ((), asked)
