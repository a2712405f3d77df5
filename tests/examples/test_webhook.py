"""The receiver of webhooks, on the Hub client's own server: who may send, what is checked, what is answered."""

import json
import socket
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
    env |= {"LINEAGE_CACHE": str(room), "GRADIO_TEMP_DIR": str(room / "uploads")}
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


@pytest.fixture
def busy(hub, tmp_path):
    """A receiver whose check of the first push does not end, since its Hub does not answer."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        env = remote(hub.hub, tmp_path, WEBHOOK_SECRET=SECRET, LINEAGE_CACHE=str(tmp_path))
        env["HF_ENDPOINT"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with spaces.running("webhook/receiver.py", READY, env, tmp_path / "log") as server:
            yield server


def test_an_event_that_comes_again_is_checked_once_and_takes_no_place_from_others(hub, busy):
    """A hundred may wait: those of another hundred commits do although one has come three hundred times."""
    assert {send(busy, event(hub, "fern/liar"))[0] for _ in range(300)} == {202}
    others = [event(hub, "fern/liar") for _ in range(101)]
    for number, other in enumerate(others):
        other["updatedRefs"][0]["newSha"] = f"{number:040x}"
    assert [send(busy, other)[0] for other in others] == [202] * 100 + [503]


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


class TestStrangers:
    def test_without_the_secret_no_body_is_read(self, receiver):
        """The first lines are answered, although the 48 MB that they speak of never come."""
        assert spaces.ask(receiver, "/webhooks/lineage", length=48 * 10**6)[0] == 401
        assert spaces.ask(receiver, "/webhooks/lineage", length=48 * 10**6, **{"X-Webhook-Secret": "wrong"})[0] == 403

    def test_with_the_secret_a_body_is_read_up_to_a_limit(self, receiver):
        known = {"X-Webhook-Secret": SECRET}
        assert spaces.ask(receiver, "/webhooks/lineage", length=48 * 10**6, **known)[0] == 413
        assert spaces.ask(receiver, "/webhooks/lineage", b"[" * 10**5, **known)[0] == 413

    @pytest.mark.parametrize("body", [b'["<secret words>"]', b"<secret words>", b"[" * 60_000, b'{"event": 1}', b""])
    def test_an_event_that_is_none_is_answered_without_a_word_of_it(self, receiver, body):
        status, answer = spaces.ask(receiver, "/webhooks/lineage", body, **{"X-Webhook-Secret": SECRET})
        assert (status in {400, 422}, answer) == (True, b'{"error": "this cannot be answered"}')

    @pytest.mark.parametrize("path", ["/gradio_api/upload", "/gradio_api/queue/join", "/gradio_api/process_recording"])
    def test_nothing_else_takes_a_body(self, receiver, path):
        status, _ = spaces.ask(receiver, path, **spaces.UPLOAD)
        assert status == 404
        assert spaces.kept(receiver.log.parent / "uploads") == []


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
    assert [send(receiver, event(hub, model))[0] for model in ("fern/child", "fern/liar")] == [202] * 2
    receiver.lines(2, '"model"')
    assert send(receiver, event(hub, "fern/liar"))[0] == 202
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
