"""The receiver of webhooks, on the Hub client's own server: who may send, what is checked, what is answered."""

import json
import urllib.error
import urllib.request

import pytest

from tests.examples import spaces
from tests.models import card, fine_tuned, tiny_llama
from tests.server import serving
from tests.server.client import remote
from tests.server.commits import Commits

SECRET = "a secret of the webhook"
READY = "Webhooks are correctly setup"
pytestmark = spaces.needed


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A Hub on which somebody publishes a descendant and a liar, and the receiver may open discussions."""
    room = tmp_path_factory.mktemp("hub")
    base = tiny_llama(room / "base")
    (room / "commits").mkdir()
    with serving() as running:
        running.publish("acme/base", base)
        running.publish("fern/child", card(fine_tuned(base, room / "child"), "acme/base", "finetune"))
        running.publish("fern/liar", card(tiny_llama(room / "liar", seed=1), "acme/base"))
        yield Commits(running, room / "commits", account="wren").attach()


@pytest.fixture(scope="module")
def receiver(hub, tmp_path_factory):
    room = tmp_path_factory.mktemp("receiver")
    env = remote(hub.hub, room, WEBHOOK_SECRET=SECRET, LINEAGE_ANSWER="discussion", HF_TOKEN="hf_averysecrettoken")
    with spaces.running("webhook/receiver.py", READY, env, room / "log") as server:
        yield server


def event(hub, model, ref="refs/heads/main", scope="repo.content", kind="model"):
    """What the Hub sends after a push, as its documentation shows it."""
    commit = hub.hub.commit(model, "main")
    return {
        "event": {"action": "update", "scope": scope},
        "repo": {
            "type": kind, "name": model, "id": "0", "private": False, "headSha": commit,
            "url": {"web": f"{hub.hub.url}/{model}", "api": f"{hub.hub.url}/api/models/{model}"}, "owner": {"id": "1"},
        },
        "webhook": {"id": "2", "version": 3},
        "updatedRefs": [{"ref": ref, "oldSha": None, "newSha": commit}],
    }  # fmt: skip


def send(receiver, body, secret=SECRET):
    """The status and the answer to an event."""
    headers = {"Content-Type": "application/json"} | ({"X-Webhook-Secret": secret} if secret else {})
    asked = urllib.request.Request(f"{receiver.url}/webhooks/lineage", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_only_who_knows_the_secret_is_heard(hub, receiver):
    assert send(receiver, event(hub, "fern/child"), secret=None)[0] == 401
    assert send(receiver, event(hub, "fern/child"), secret="another one")[0] == 403


@pytest.mark.parametrize(
    "other",
    [{"ref": "refs/pr/1"}, {"scope": "discussion"}, {"scope": "repo.config"}, {"kind": "dataset"}],
    ids=lambda other: next(iter(other.values())),
)
def test_what_is_no_push_to_a_model_is_not_checked(hub, receiver, other):
    assert send(receiver, event(hub, "fern/liar", **other)) == (200, {"checked": False})


def test_a_name_or_a_commit_that_is_none_is_not_checked(hub, receiver):
    odd = event(hub, "fern/liar")
    odd["repo"]["name"] = "--help"
    assert send(receiver, odd) == (200, {"checked": False})
    odd = event(hub, "fern/liar")
    odd["updatedRefs"][0]["newSha"] = "main; touch owned"
    assert send(receiver, odd) == (200, {"checked": False})


def test_each_push_is_checked_and_a_contradicted_one_is_discussed_once_whatever_others_have_opened(hub, receiver):
    """The owner of the liar has opened a discussion with our title, so that we might think it were ours."""
    title = f"Lineage of commit {hub.hub.commit('fern/liar', 'main')[:12]}"
    hub.propose("fern/liar", "fern", title, pull_request=False)
    assert [send(receiver, event(hub, model))[0] for model in ("fern/child", "fern/liar", "fern/liar")] == [202] * 3
    honest, liar, again = map(json.loads, receiver.lines(3, '"model"'))
    assert (honest["exit_code"], honest.get("discussion")) == (0, None)
    assert (liar["exit_code"], again["discussion"]) == (1, liar["discussion"])
    assert liar["report"].startswith("### Lineage of fern/liar")
    ours = [proposal for proposal in hub.proposals if proposal["author"]["name"] == "wren"]
    assert [proposal["title"] for proposal in ours] == [title]
    assert ours[0]["description"] == liar["report"].strip()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Set WEBHOOK_SECRET to the secret of the webhook, 16 characters at least: anybody can send events"),
        ({"WEBHOOK_SECRET": SECRET, "LINEAGE_ANSWER": "shout"}, "LINEAGE_ANSWER is log or discussion"),
    ],
)
def test_without_a_secret_or_with_a_wrong_setting_it_does_not_start(hub, tmp_path, settings, message):
    env = remote(hub.hub, tmp_path, **settings)
    with pytest.raises(AssertionError, match=message):  # noqa: SIM117 - the inner one is what ends early
        with spaces.running("webhook/receiver.py", READY, env, tmp_path / "log"):
            pass
