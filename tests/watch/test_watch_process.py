"""Watching in processes of their own: stopped, killed, two at a time."""

import signal
import subprocess
import time

import pytest

from tests.invoking import COMMAND, process
from tests.server import faults
from tests.server.client import connect, remote
from tests.watching import ALWAYS, EVERY, models, publishing, watch


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with publishing(tmp_path) as running:
        connect(running, tmp_path / "cache", monkeypatch)
        yield running


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def environment(hub, tmp_path):
    return remote(hub, tmp_path / "home", HF_HUB_DOWNLOAD_TIMEOUT="1")


def test_nothing_but_the_result_is_written_where_there_is_no_terminal(ledger, environment):
    result = process("watch", "fern/plain", "--ledger", ledger, env=environment)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)], ids=str)
def test_while_one_runs_no_other_writes_and_when_it_is_stopped_the_next_goes_on(hub, ledger, environment, sent, code):
    hub.plan(faults.slow(60), "cdn/fern/liar", times=ALWAYS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    command = [*COMMAND, "watch", "fern", "--ledger", ledger]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        while hub.faults[0].left == ALWAYS:
            assert running.poll() is None
            time.sleep(0.01)
        assert watch(ledger).error == (
            f"{ledger} is in use by another run of watch; wait for it, or name another --ledger"
        )
        assert watch(ledger, "fern", "--dry-run").rows[0][0] == "fern/liar"
        running.send_signal(sent)
        assert running.wait(30) == code
    assert models(ledger) == EVERY[:2]
    hub.faults.clear()
    hub.forget()
    assert watch(ledger).code == 1
    assert models(ledger) == EVERY
    assert not [request for request in hub.requests if "fern/child" in request]


def test_a_line_that_was_never_finished_is_dropped_and_its_model_checked_again(hub, ledger, caplog):
    watch(ledger)
    ledger.write_bytes(ledger.read_bytes()[:-10])
    assert watch(ledger).code == 1
    assert f"{ledger}: its last line is not complete and is dropped" in caplog.text
    assert models(ledger) == EVERY
