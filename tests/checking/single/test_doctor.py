"""What a check depends on beside its models: each thing by itself, there, absent and wrong."""

from importlib.metadata import metadata

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session  # type: ignore[attr-defined]

from hf_lineage.checking.single import doctor as module
from hf_lineage.checking.single.doctor import EXTRAS, State, diagnosis
from hf_lineage.errors import installation
from tests.server.answers import json_answer
from tests.server.client import connect_to_nothing


def found(about):
    """What is found of one thing, the last that is said of it."""
    finding = [finding for finding in diagnosis() if finding.about == about][-1]
    return finding.state, finding.sentence


def test_the_extras_are_those_that_a_user_can_install():
    others = {"bench", "dev", "docs", "lint", "site", "test"}
    assert set(EXTRAS) == set(metadata("hf-lineage").get_all("Provides-Extra")) - others


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_that_is_missing_names_the_command_that_installs_it_and_stands_in_no_way(monkeypatch, name):
    assert found(name)[0] is State.THERE
    monkeypatch.setattr(module, "find_spec", lambda package: None)
    state, said = found(name)
    assert state is State.ABSENT
    assert said.endswith(f"run {installation(name)}")


def test_a_cache_that_is_not_there_yet_is_no_fault_and_one_that_a_file_stands_for_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "a/b"))
    state, said = found("signatures")
    assert (state, said.partition(", with ")[0]) == (State.THERE, f"kept in {tmp_path / 'a/b'}")
    (tmp_path / "a").write_text("")
    state, said = found("signatures")
    assert (state, said.partition(";")[0]) == (State.WRONG, f"{tmp_path / 'a'} is not a writable folder")


def test_a_cache_in_a_checkout_is_refused_as_a_check_refuses_it(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(tmp_path / "cache"))
    state, said = found("signatures")
    assert state is State.WRONG
    assert "HF_LINEAGE_CACHE" in said


def test_the_account_is_named_and_its_token_is_not(server, monkeypatch):
    assert found("account") == (State.THERE, "the token belongs to acme")
    server.account = None
    state, said = found("account")
    assert state is State.WRONG
    assert said.startswith("the Hub does not know the token; run `hf auth login`")
    server.account = ["acme"]
    assert "this answer did not come from a Hub" in found("Hub")[1]
    monkeypatch.delenv("HF_TOKEN")
    assert found("account")[0] is State.ABSENT


def test_the_way_to_the_hub_is_named_and_a_password_on_it_is_not(online, monkeypatch):
    assert found("Hub") == (State.THERE, f"reached by HF_ENDPOINT {online.url}")
    monkeypatch.setattr(constants, "ENDPOINT", online.url.replace("//", "//me:secret@"))
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:9")
    close_session()
    state, said = found("Hub")
    assert state is State.WRONG
    assert f" by HF_ENDPOINT {online.url.partition('//')[2]} and HTTP_PROXY (" in said
    assert "secret" not in said


def test_a_hub_that_nobody_answers_for_is_wrong_and_one_that_nobody_may_ask_is_not(tmp_path, monkeypatch):
    connect_to_nothing(tmp_path, monkeypatch)
    assert found("Hub")[0] is State.WRONG
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert found("Hub") == (
        State.ABSENT,
        "HF_HUB_OFFLINE forbids requests; unset it to read more than the cache",
    )


def test_an_answer_that_is_no_list_of_models_is_wrong(online):
    online.plan(lambda right: json_answer({}), "/api/models")
    state, sentence = found("Hub")
    assert state is State.WRONG
    assert "this answer did not come from a Hub" in sentence


def test_a_server_that_is_no_hub_is_wrong(online, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", f"{online.url}/elsewhere")
    said = f"the server that answers by HF_ENDPOINT {online.url}/elsewhere is not a Hub; check HF_ENDPOINT"
    assert found("Hub") == (State.WRONG, said)
