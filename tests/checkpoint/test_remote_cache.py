import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from huggingface_hub import snapshot_download

from hf_lineage.hub.repo import resolve
from tests.invoking import COMMAND, lineage, process
from tests.models import SMALL, WEIGHTS, open_checkpoint, shard, tiny_llama
from tests.server import faults
from tests.server.client import cached, remote


def test_files_that_the_cache_has_whole_are_read_from_there(online):
    for name in SMALL:
        snapshot_download(name)
    online.forget()
    assert lineage("check", "fern/llama-finetune-a").code == 0
    assert online.parts == []


def test_a_shard_that_is_whole_is_read_from_there_and_the_other_from_the_hub(online, tmp_path):
    folder = shard(tiny_llama(tmp_path / "sharded"))
    online.publish("acme/sharded", folder)
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    snapshot_download("acme/sharded", allow_patterns=[first])
    online.forget()
    there, here = open_checkpoint(resolve("acme/sharded")), open_checkpoint(resolve(str(folder)))
    assert all(np.array_equal(there.read(name), here.read(name)) for name in here.tensors)
    assert {part.file for part in online.parts} == {f"acme/sharded/{second}"}


def test_weights_that_another_commit_left_there_are_read_from_there(online, tmp_path):
    snapshot_download("acme/llama-base")
    edited = shutil.copytree(SMALL["acme/llama-base"], tmp_path / "edited")
    (edited / "README.md").write_text("# New\n")
    online.publish("acme/llama-base", edited)
    online.forget()
    assert lineage("inspect", "acme/llama-base").code == 0
    assert online.parts == []


def test_offline_what_is_there_suffices_and_what_is_not_is_said(online, monkeypatch):
    snapshot_download("acme/llama-base")
    resolve("fern/llama-finetune-a")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    online.forget()
    assert lineage("inspect", "acme/llama-base").code == 0
    error = lineage("inspect", "fern/llama-finetune-a").error
    assert error.startswith("fern/llama-finetune-a is not in the cache, or not completely")
    assert (online.requests, online.parts) == ([], [])


def test_nothing_is_written_to_the_cache_that_is_not_a_whole_file(online, tmp_path):
    assert lineage("check", "fern/llama-finetune-a").code == 0
    kept = cached(tmp_path / "cache")
    assert not [file for file in kept if WEIGHTS in file or "incomplete" in file or "tmp" in file]
    links = {file.rpartition("/")[2] for file in kept if "/snapshots/" in file}
    assert links == {"README.md", "config.json"}
    assert lineage("check", "fern/llama-finetune-a").code == 0
    assert cached(tmp_path / "cache") == kept


def test_without_files_that_can_be_opened_by_number_whole_files_are_fetched(online, monkeypatch, tmp_path):
    monkeypatch.setattr("hf_lineage.checkpoint.remote.OPEN_FILES", tmp_path / "nowhere")
    assert lineage("check", "fern/llama-finetune-a").code == 0
    assert {part.file for part in online.parts if part.start == 0} == {f"{name}/{WEIGHTS}" for name in SMALL}


def waiting(arguments, hub, home, timeout):
    """A process that is in the middle of a slow answer of the CDN."""
    hub.plan(faults.slow(60), "cdn", times=1000)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    running = subprocess.Popen(
        [*COMMAND, *arguments],
        env=remote(hub, home, HF_HUB_DOWNLOAD_TIMEOUT=timeout),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not hub.at_once and time.monotonic() < deadline:
        time.sleep(0.02)
    assert hub.at_once
    return running


def test_a_process_that_is_killed_leaves_a_cache_in_which_the_next_succeeds(served, tmp_path):
    running = waiting(["check", "fern/llama-finetune-a"], served, tmp_path / "home", timeout="60")
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert not [file for file in cached(tmp_path / "home") if "incomplete" in file or WEIGHTS in file]
    served.faults.clear()
    found = process("check", "fern/llama-finetune-a", env=remote(served, tmp_path / "home"))
    assert (found.code, found.err, found.rows[0][-1]) == (0, "", "inherited")


@pytest.mark.long
def test_a_process_that_is_interrupted_does_not_wait_for_what_is_slow(served, tmp_path):
    running = waiting(["check", "fern/llama-finetune-a"], served, tmp_path / "home", timeout="3")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err.strip()) == (130, "", "hf-lineage: interrupted")
