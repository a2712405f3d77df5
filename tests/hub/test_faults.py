"""Every fault of a network, at every place: a right result, or one line and exit code 4, 2 if a file changed."""

import functools
import itertools
from unittest.mock import Mock

import pytest
from huggingface_hub import constants

from hf_lineage.errors import CheckpointError, NetworkError, RepositoryError
from hf_lineage.hub import client, ranges
from tests.invoking import lineage
from tests.long import first_of
from tests.models import WEIGHTS, card, fine_tuned, tiny_llama
from tests.server import faults, serving
from tests.server.client import cached, connect

ALWAYS = 10**6
CDN = {
    "slow": (faults.slow(0.5), " (model.safetensors: "),
    "429": (faults.too_many(), "(model.safetensors: 429 Too Many Requests); check the connection and try again"),
    "503": (faults.unavailable, "(model.safetensors: 503 Service Unavailable); check the connection and try again"),
    "expired": (faults.expired, "(model.safetensors: 403, although its address is new)"),
    "404": (faults.missing, "(model.safetensors: 404 instead of the part that was requested)"),
    "200": (faults.whole, "the server sent the whole file instead of a part; `hf download fern/child` downloads"),
    "short": (faults.short, "(model.safetensors ended at byte "),
    "shifted": (faults.shifted, "(model.safetensors: the server sent another part than the one requested)"),
    "compressed": (faults.compressed, "(model.safetensors: 206 instead of the part that was requested)"),
    "dropped": (faults.dropped, "(model.safetensors: "),
    "hung up": (faults.hung_up, "(model.safetensors: "),
}


@pytest.fixture
def hub(tmp_path):
    base = tiny_llama(tmp_path / "base")
    with serving() as running:
        running.publish("acme/base", base)
        running.publish("fern/child", card(fine_tuned(base, tmp_path / "child"), "acme/base", "finetune"))
        yield running


@pytest.fixture(autouse=True)
def waited(hub, tmp_path, monkeypatch):
    """The seconds that would have been waited; everything is read from the network, however often."""
    monkeypatch.setattr("hf_lineage.signature.cache.find", lambda *arguments: None)
    monkeypatch.setattr(ranges, "HEAD", 2**10)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    return connect(hub, tmp_path / "cache", monkeypatch)


def broken(cache):
    """What the cache holds besides whole small files, and links to nothing."""
    files = cached(cache)
    return {file for file in files if "incomplete" in file or WEIGHTS in file or not (cache / file).exists()}


@functools.cache
def undisturbed():
    """What is said where nothing goes wrong, of models that are the same in every test."""
    return lineage("check", "fern/child")


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CDN)
@pytest.mark.parametrize("skip", [0, 3], ids=["header", "tensor"])
@pytest.mark.crossed("name", "skip")
def test_what_goes_wrong_once_changes_nothing(hub, tmp_path, name, skip):
    right = undisturbed()
    for where in ("cdn/fern", "cdn/acme"):
        hub.plan(CDN[name][0], where, skip=skip)
    found = lineage("check", "fern/child")
    assert (found.code, found.err, found.rows) == (0, right.err, right.rows)
    assert [plan.left for plan in hub.faults] == [0, 0]
    assert not broken(tmp_path / "cache")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CDN)
@pytest.mark.parametrize("skip", first_of({"tensor": 3, "header": 0}))
def test_what_goes_wrong_for_good_is_one_line(hub, tmp_path, name, skip):
    fault, message = CDN[name]
    hub.plan(fault, "cdn/fern", times=ALWAYS, skip=skip)
    found = lineage("check", "fern/child")
    assert (found.code, message in found.error, "signature" in found.error) == (4, True, False)
    assert not broken(tmp_path / "cache")
    hub.faults.clear()
    assert lineage("check", "fern/child").code == 0


@pytest.mark.parametrize("fault", [faults.dropped, faults.hung_up, faults.unavailable], ids=["cut", "hung up", "503"])
@pytest.mark.long
def test_a_connection_cut_in_any_request_leaves_no_wrong_result_and_no_broken_cache(hub, tmp_path, fault, monkeypatch):
    for number in itertools.count():
        cache = tmp_path / f"cache-{number}"
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        hub.faults.clear()
        hub.plan(fault, skip=number)
        found = lineage("check", "fern/child")
        assert (found.code, found.rows[0][-1]) == (0, "inherited") if found.code != 4 else found.error
        assert not broken(cache)
        if hub.faults[0].left:
            break
    assert number > 20


def test_an_address_that_expires_is_resolved_once_and_nothing_that_came_again(hub):
    hub.plan(lambda right: (hub.expire(), faults.expired(right))[1], "cdn/fern", skip=3)
    assert lineage("check", "fern/child").code == 0
    assert hub.requests.count(f"HEAD /fern/child/resolve/{hub.commit('fern/child', 'main')}/{WEIGHTS}") == 2
    hub.forget()
    for skip, fault in enumerate((faults.dropped, faults.short) * 3):
        hub.plan(fault, "cdn/", skip=2 * skip)
    assert lineage("check", "fern/child").code == 0
    assert hub.twice() == [], "what had come when a connection broke"


@pytest.mark.few(2)
@pytest.mark.parametrize(("fault", "pause"), [
    (faults.too_many(retry_after=7), 7), (faults.too_many(reset=9), 9), (faults.too_many(), client.WAITS[0]),
], ids=["Retry-After", "RateLimit", "nothing said"])  # fmt: skip
@pytest.mark.parametrize(("where", "skip"), [
    ("cdn/fern", 0), ("cdn/fern", 2), ("GET hub/api/models/fern", 0), ("HEAD hub/fern", 2),
], ids=["header", "tensor", "listing", "address"])  # fmt: skip
@pytest.mark.crossed("fault", "where")
def test_a_limit_is_waited_for_as_long_as_it_says(hub, waited, fault, pause, where, skip):
    hub.plan(fault, where, skip=skip)
    assert (lineage("check", "fern/child").code, pause in waited) == (0, True)


def test_a_limit_that_lasts_too_long_is_not_waited_for_and_a_long_wait_is_announced(hub, waited, caplog):
    hub.plan(faults.too_many(retry_after=10**8), "cdn/fern")
    assert "429 Too Many Requests" in lineage("check", "fern/child").error
    assert waited == []
    hub.plan(faults.too_many(retry_after=55), "cdn/fern")
    assert lineage("check", "fern/child").code == 0
    assert "fern/child: the Hub asks to wait 55 seconds" in caplog.text


def overwritten(right):
    """The connection breaks, and another file lies in the place of this one."""
    right.file.with_name("other").replace(right.file)
    return faults.dropped(right)


MOVES = {
    "another file at the same address": [(faults.changed, "cdn/fern", ALWAYS, 2)],
    "another file at a new address": [(faults.expired, "cdn/fern", 1, 2), (faults.changed, "HEAD hub/fern", 1, 3)],
    "another commit": [(faults.moved, f"resolve/{{commit}}/{WEIGHTS}", ALWAYS, 0)],
    "another file in its place": [(overwritten, "cdn/fern", 1, 2)],
}


@pytest.mark.parametrize("plans", MOVES.values(), ids=MOVES)
def test_a_file_that_is_another_one_by_now_is_noticed(hub, tmp_path, plans):
    (fine_tuned(tmp_path / "base", tmp_path / "other", seed=3) / WEIGHTS).rename(tmp_path / "child/other")
    for fault, where, times, skip in plans:
        hub.plan(fault, where.format(commit=hub.commit("fern/child", "main")), times, skip)
    error = lineage("check", "fern/child").error
    assert error == f"fern/child: {WEIGHTS} changed after it was opened, because the branch moved; run again"


def test_a_base_whose_weights_are_refused_is_undecided_and_of_a_network_an_error(hub):
    for fault, message in (
        (faults.gated, "acme/base is gated: request access on its page and set HF_TOKEN"),
        (faults.unauthorized, "acme/base is not on the Hub, or is private; check the name, or set"),
    ):
        hub.faults.clear()
        hub.plan(fault, f"{hub.commit('acme/base', 'main')}/{WEIGHTS}", times=ALWAYS)
        found = lineage("check", "fern/child")
        assert (found.code, found.rows[0][-1], message in found.sentences) == (3, "no-base", True)
        assert message in lineage("check", "acme/base", "--base", "fern/child").error
    hub.faults.clear()
    hub.plan(faults.unavailable, "cdn/acme", times=ALWAYS)
    found = lineage("check", "fern/child")
    assert (found.code, "acme/base cannot be fetched from the Hub" in found.error) == (4, True)


def test_an_error_of_ours_is_not_asked_again(waited):
    for error in (CheckpointError("no"), NetworkError("no"), RepositoryError("no")):
        question = Mock(side_effect=error)
        with pytest.raises(type(error)):
            client.ask("org/model", question)
        assert (question.call_count, waited) == (1, [])
