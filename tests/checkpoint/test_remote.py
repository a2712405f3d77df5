"""Models on the Hub: of what is compared nothing is downloaded twice, and what the cache has whole is read there."""

import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import CancelledError, Future
from dataclasses import replace

import numpy as np
import pytest
import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file

from hf_lineage import RECIPES, Options, compare
from hf_lineage.checkpoint import remote as reading
from hf_lineage.checkpoint.remote import RangeList, RemoteCheckpoint
from hf_lineage.checkpoint.tensor import DTYPES, header
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import ranges
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import extract
from tests.checkpoint.conftest import FIRST, SECOND, same
from tests.checkpoint.formats.test_bitsandbytes import FOUR, four_bits
from tests.checkpoint.formats.test_grouped import AWQ, awq
from tests.checkpoint.test_tensor import LIES
from tests.invoking import COMMAND, lineage, process
from tests.models import EXAMPLES, SMALL, WEIGHTS, open_checkpoint, raw_safetensors, tiny_llama
from tests.quantizing import BASE, opened, repacked
from tests.server import faults
from tests.server.client import cached, remote

NAME, CHILD = "acme/llama-base", "fern/llama-finetune-a"
PATHS = "mlp,mlp_gate,value_output,query_key"
TOKEN = "hf_averysecrettoken"
AS_JSON = ("--format", "json", "--seed", "0")
"""The order in which layers are read is drawn anew for each report unless its seed is given."""
UP, GATE, DOWN = (f"model.layers.0.mlp.{role}_proj.weight" for role in ("up", "gate", "down"))
MISSING = {(0, 50): [(0, 10), (20, 30), (40, 50)], (15, 35): [(20, 30)], (20, 30): [(20, 30)], (0, 10): [(0, 10)]}
MISSING |= {asked: [] for asked in ((12, 18), (10, 20), (25, 25))}
QUANTIZED = "fern/quantized"
COMMANDS = [
    ("check", f"{{}}{CHILD}", "--base", f"{{}}{NAME}", *AS_JSON, "--explain"),
    ("compare", f"{{}}{NAME}", f"{{}}{CHILD}", "--paths", PATHS, *AS_JSON),
    ("inspect", f"{{}}{NAME}", "--format", "json"),
]


def base():
    return open_checkpoint(resolve(NAME))


@pytest.fixture
def headers(monkeypatch):
    monkeypatch.setattr(ranges, "HEAD", 8)


@pytest.fixture
def exact(headers, monkeypatch):
    monkeypatch.setattr(reading, "GAP", 0)


def touched(hub, name):
    """The stored tensors of which any byte was sent."""
    parts = [part for part in hub.parts if part.file == f"{name}/{WEIGHTS}"]
    return {
        tensor
        for tensor, info in header(hub.published[name]["main"] / WEIGHTS, WEIGHTS)
        if any(part.start < info.start + info.size and info.start < part.stop for part in parts)
    }


def test_a_check_moves_the_mlp_alone_and_nothing_twice(online, exact, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = lineage("check", CHILD)
    assert (found.code, found.err, found.rows[0][-1]) == (0, "", "inherited")
    own = ("post_attention_layernorm", "mlp.up_proj", "mlp.gate_proj", "mlp.down_proj")
    around = ("input_layernorm", "self_attn.v_proj", "self_attn.o_proj")
    matrices = [{f"model.layers.{n}.{part}.weight" for n in range(6) for part in parts} for parts in (own, around)]
    compared, known = matrices
    for name in SMALL:  # some rows of what is known are read, to know what the MLPs are added to
        assert touched(online, name) - compared <= known | {"model.embed_tokens.weight", "model.norm.weight"}
    assert online.twice() == []
    files = ("README.md", "config.json", WEIGHTS)
    assert online.downloads() == {f"{name}/{file}" for name in SMALL for file in files}
    assert (online.tokens, online.leaked) == ({f"Bearer {TOKEN}"}, set()), "the token goes to the Hub alone"


@pytest.mark.long
def test_with_what_comes_besides_embeddings_and_heads_still_stay_where_they_are(online):
    assert lineage("check", CHILD, "--paths", "mlp,value_output").code == 0
    assert online.twice() == []
    for name in SMALL:
        stored = dict(header(online.published[name]["main"] / WEIGHTS, WEIGHTS))
        outside = [info for tensor, info in stored.items() if ".layers." not in tensor and info.size > ranges.HEAD]
        parts = [part for part in online.parts if part.file.startswith(name)]
        assert outside
        for info in outside:
            begin, end = max(info.start, ranges.HEAD), info.start + info.size
            moved = sum(max(0, min(part.stop, end) - max(part.start, begin)) for part in parts)
            assert moved < 0.7 * info.size  # 64 of 256 rows, and what is between them


@pytest.mark.few(1)
@pytest.mark.parametrize("command", COMMANDS, ids=["check", "compare", "inspect"])
def test_over_the_network_the_report_is_that_from_disk_to_the_last_bit(online, command, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def without_commits(text):
        for name in SMALL:
            text = re.sub(rf" ?@ ?{online.commit(name, 'main')}", "", text).replace(online.commit(name, "main"), "null")
        text = re.sub(r'"traffic": \{(?:[^{}]|\{[^{}]*\})*\}', "", text)
        return " ".join(text.replace('"null"', "null").replace(f"{EXAMPLES}/", "").replace(" ./", " ").split())

    here, there = (lineage(*(part.format(prefix) for part in command)) for prefix in (f"{EXAMPLES}/", ""))
    assert (here.code, here.err) == (there.code, there.err)
    assert without_commits(there.out) == without_commits(here.out)
    assert online.parts
    assert online.twice() == []


@pytest.mark.long
def test_exact_mode_in_several_rounds_fetches_nothing_twice(online, monkeypatch):
    monkeypatch.setattr(extract.Extraction, "room", 32)
    exact = Options(recipe=replace(RECIPES["robust"], probes=None))
    assert compare(NAME, CHILD, exact).exit_code == 0
    assert online.twice() == []


def test_a_signature_is_the_same_from_the_network_as_from_disk(online, tmp_path):
    for prefix, file in ((f"{EXAMPLES}/", "here"), ("", "there")):
        assert lineage("extract", f"{prefix}{NAME}", "-o", tmp_path / file).code == 0
    here, there = (load_file(tmp_path / file) for file in ("here", "there"))
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_shards_are_read_as_one_file_is_and_one_that_the_cache_has_from_there(online, sharded):
    online.publish("acme/sharded", sharded)
    found = open_checkpoint(resolve("acme/sharded"))
    found.prefetch(*found.tensors)
    same(found, open_checkpoint(resolve(str(sharded))))
    assert (type(found), online.twice()) == (RemoteCheckpoint, [])
    snapshot_download("acme/sharded", allow_patterns=[FIRST])
    online.forget()
    same(open_checkpoint(resolve("acme/sharded")), found)
    assert {part.file for part in online.parts} == {f"acme/sharded/{SECOND}"}


@pytest.mark.parametrize(("gap", "rows"), [(0, 8), (400, 10)])
def test_rows_of_a_matrix_come_piece_by_piece_and_the_rest_when_it_is_asked_for(online, exact, gap, rows):
    checkpoint = base()
    stored, before = checkpoint.rows(UP).tensor, checkpoint.bytes_read
    pieces = [stored.rows(slice(*ends)) for ends in ((2, 5), (4, 9), (11, 12))]
    for _ in range(2):
        checkpoint.prefetch_pieces(pieces, gap=gap)
        some = checkpoint.read_pieces(UP, pieces)
    assert checkpoint.bytes_read - before == rows * stored.shape[1] * DTYPES[stored.dtype].itemsize
    whole = checkpoint.read(UP)
    np.testing.assert_array_equal(some, whole[[2, 3, 4, 4, 5, 6, 7, 8, 11]])
    np.testing.assert_array_equal(checkpoint.read_pieces(UP, [stored.rows(slice(0, 3))]), whole[:3])
    assert checkpoint.bytes_read - before == stored.size
    assert (checkpoint.at_hand(UP), checkpoint.at_hand(GATE)) == (True, False)
    assert online.twice() == []


@pytest.mark.parametrize(("gap", "requests"), [(0, 3), (1000, 1)])
def test_pieces_that_lie_close_together_come_with_one_request(online, headers, monkeypatch, gap, requests):
    monkeypatch.setattr(reading, "GAP", gap)
    checkpoint = base()
    stored = checkpoint.rows(UP).tensor
    online.forget()
    assert stored.rows(slice(0, 1)).size < 1000
    rows = checkpoint.read_pieces(UP, [stored.rows(slice(row, row + 1)) for row in (6, 2, 4)])
    assert len(online.parts) == requests
    np.testing.assert_array_equal(rows, checkpoint.read(UP)[[6, 2, 4]])


def test_pieces_that_are_still_to_come_are_cancelled_and_not_waited_for(online, exact):
    checkpoint = base()
    online.plan(faults.slow(30), "cdn", times=1000)
    stored = checkpoint.rows(UP).tensor
    checkpoint.prefetch_pieces(stored.rows(slice(row, row + 1)) for row in range(stored.shape[0]))
    checkpoint.release()
    with pytest.raises(CancelledError):
        checkpoint.read_pieces(UP, [stored.rows(slice(row, row + 1)) for row in range(stored.shape[0])])


def test_neighbours_come_with_one_request_and_large_ones_with_several(online, exact, monkeypatch):
    checkpoint = base()
    online.forget()
    checkpoint.prefetch(DOWN, UP, GATE)
    checkpoint.read(DOWN)
    assert len(online.parts) == 1
    monkeypatch.setattr(ranges, "LARGEST_RANGE", 10_000)
    monkeypatch.setattr(reading, "LARGEST_RANGE", 10_000)
    online.forget()
    name = "model.layers.1.mlp.up_proj.weight"
    checkpoint.read(name)
    assert len(online.parts) == -(-checkpoint.stored[name].size // 10_000)


def test_what_lies_in_a_small_gap_is_not_fetched_again(online, headers):
    checkpoint = base()
    checkpoint.prefetch(DOWN, UP)
    checkpoint.read(UP)
    online.forget()
    checkpoint.read(GATE)
    assert online.parts == []


def test_no_more_than_eight_requests_are_open_at_once(online, exact):
    online.plan(faults.slow(0.05), "cdn", times=1000)
    checkpoint = base()
    checkpoint.prefetch(*list(checkpoint.tensors)[::2])
    checkpoint.read("model.layers.5.self_attn.q_proj.weight")
    assert online.most_at_once == 8


def test_a_header_longer_than_what_is_read_first_is_read_on_and_all_that_is_counted(online, monkeypatch):
    monkeypatch.setattr(ranges, "HEAD", 100)
    checkpoint = base()
    assert checkpoint.shapes == open_checkpoint(resolve(str(SMALL[NAME]))).shapes
    checkpoint.read("model.norm.weight")
    on_hub = [request for request in online.requests if request.endswith(WEIGHTS)]
    assert checkpoint.requests == len(online.parts) + len(on_hub)
    assert checkpoint.bytes_read == online.moved()
    assert online.twice() == []


@pytest.mark.few(6)
@pytest.mark.parametrize("written", LIES.values(), ids=LIES)
def test_a_header_that_lies_is_refused_as_on_disk(online, tmp_path, written):
    folder = tiny_llama(tmp_path / "liar")
    raw_safetensors(folder / WEIGHTS, *written)
    online.publish("liar/model", folder)
    with pytest.raises(CheckpointError, match=r"liar/model: model\.safetensors"):
        open_checkpoint(resolve("liar/model"))


def test_reading_stops_where_the_disk_is_full(online, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    told = "No space left on device, on the disk with the cache; make room, or set HF_HOME to another disk"
    assert lineage("inspect", NAME).error == f"acme/llama-base: model.safetensors: {told}"


@pytest.mark.parametrize(("asked", "missing"), MISSING.items())
def test_what_was_asked_for_is_not_missing_and_known_by_the_bytes_that_it_holds(asked, missing):
    """Bytes 10 to 20 and 30 to 40 were asked for, the later ones first."""
    held = RangeList()
    for begin in (30, 10):
        held.add(begin, begin + 10, Future())
    assert list(held.missing(*asked)) == missing
    assert [(one.start, one.stop) for one in held.among(19, 31)] == [(10, 20), (30, 40)]
    assert held.among(20, 30) == []


@pytest.mark.parametrize("revision", ["v2", "refs/pr/1", "feature/x"])
def test_a_branch_a_tag_and_a_pull_request_are_followed(online, tmp_path, revision):
    other, repo = tiny_llama(tmp_path / "v2", seed=1), resolve(NAME)
    commit = online.publish(NAME, other, revision=revision)
    assert resolve(f"{NAME}@{revision}").commit == commit
    for name in (revision, commit):
        same(open_checkpoint(resolve(f"{NAME}@{name}")), open_checkpoint(resolve(str(other))))
    online.publish(NAME, other)
    same(open_checkpoint(repo), open_checkpoint(resolve(str(SMALL[NAME]))))  # a branch that moves is read as it was


def test_a_model_that_was_renamed_is_followed_and_is_not_its_own_base(online, caplog, tmp_path):
    online.renamed |= {"meta/old-name": NAME, "fern/before": "fern/own"}
    assert lineage("check", CHILD, "--base", "meta/old-name").rows[0][-1] == "inherited"
    assert "meta/old-name is now called acme/llama-base" in caplog.text
    own = shutil.copytree(SMALL[CHILD], tmp_path / "own")
    (own / "README.md").write_text("---\nbase_model: fern/before\n---\n")
    online.publish("fern/own", own)
    found = lineage("check", "fern/own")
    assert found.rows[0][-1] == "no-base"
    assert "The model declares itself, and a model cannot be its own base." in found.sentences


@pytest.mark.parametrize(("pack", "settings"), [(awq(), AWQ), (four_bits(nested=True), FOUR)], ids=["AWQ", "NF4"])
def test_of_a_quantized_model_only_the_parts_that_are_compared_come(online, tmp_path, exact, pack, settings):
    """Beside them what describes others, of the first layer: with NF4 so much of each of its seven matrices."""
    folder = repacked(BASE, tmp_path / "model", pack, **settings)
    online.publish(QUANTIZED, folder)
    repo, name = resolve(QUANTIZED), "model.layers.3.mlp.down_proj.weight"
    checkpoint = open_checkpoint(repo, repo.config())
    assert (checkpoint.read(name) == opened(folder).read(name)).all()
    checkpoint.release()
    described = {part for part in touched(online, QUANTIZED) if "quant_state" in part and ".layers.0." in part}
    assert touched(online, QUANTIZED) - described == set(checkpoint.tensors[name].parts)
    assert len(described) in (0, 7)
    online.forget()
    outcome = compare(QUANTIZED, str(BASE), Options(seed=0, recompute=True, paths=("mlp",))).rows[0].verdict
    assert outcome.code == "inherited"
    names, stored = touched(online, QUANTIZED), dict(header(folder / WEIGHTS, WEIGHTS))
    assert {name for name in names if ".mlp." in name} == {name for name in stored if ".mlp." in name}
    rest = {name for name in names if ".mlp." not in name and "norm" not in name}
    beside = {name for name in rest if re.search(r"self_attn\.(v|o)_proj\.|embed_tokens", name)}
    assert all(".layers.0." in name and "quant_state" in name for name in rest - beside)
    # What the MLPs are added to is known from the attention of some of the layers, which has to be decoded as a whole.
    assert len({name.split(".")[2] for name in beside if ".layers." in name and "quant_state" not in name}) <= 4


def test_files_that_the_cache_has_whole_are_read_from_there_also_of_another_commit(online, tmp_path):
    for name in SMALL:
        snapshot_download(name)
    edited = shutil.copytree(SMALL[NAME], tmp_path / "edited")
    (edited / "README.md").write_text("# New\n")
    online.publish(NAME, edited)
    online.forget()
    assert lineage("check", CHILD).code == 0
    assert lineage("inspect", NAME).code == 0
    assert online.parts == []


def test_offline_what_is_there_suffices_and_what_is_not_is_said(online, monkeypatch):
    snapshot_download(NAME)
    resolve(CHILD)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    online.forget()
    assert lineage("inspect", NAME).code == 0
    error = lineage("inspect", CHILD).error
    assert error.startswith("fern/llama-finetune-a is not in the cache, or not completely")
    assert (online.requests, online.parts) == ([], [])


def test_nothing_is_written_to_the_cache_that_is_not_a_whole_file(online, tmp_path):
    assert lineage("check", CHILD).code == 0
    kept = cached(tmp_path / "cache")
    assert not [file for file in kept if WEIGHTS in file or "incomplete" in file or "tmp" in file]
    links = {file.rpartition("/")[2] for file in kept if "/snapshots/" in file}
    assert links == {"README.md", "config.json"}
    assert lineage("check", CHILD).code == 0
    assert cached(tmp_path / "cache") == kept


def test_without_files_that_can_be_opened_by_number_whole_files_are_fetched(online, monkeypatch, tmp_path):
    monkeypatch.setattr("hf_lineage.checkpoint.remote.OPEN_FILES", tmp_path / "nowhere")
    assert lineage("check", CHILD).code == 0
    assert {part.file for part in online.parts if part.start == 0} == {f"{name}/{WEIGHTS}" for name in SMALL}


def waiting(hub, home, timeout):
    hub.plan(faults.slow(60), "cdn", times=1000)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and so by what is run
    settings = {"env": remote(hub, home, HF_HUB_DOWNLOAD_TIMEOUT=timeout), "text": True}
    running = subprocess.Popen([*COMMAND, "check", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings)
    deadline = time.monotonic() + 60
    while not hub.at_once and time.monotonic() < deadline:
        time.sleep(0.02)
    assert hub.at_once
    return running


def test_a_process_that_is_killed_leaves_a_cache_in_which_the_next_succeeds(served, tmp_path):
    running = waiting(served, tmp_path / "home", timeout="60")
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert not [file for file in cached(tmp_path / "home") if "incomplete" in file or WEIGHTS in file]
    served.faults.clear()
    found = process("check", CHILD, env=remote(served, tmp_path / "home"))
    assert (found.code, found.err, found.rows[0][-1]) == (0, "", "inherited")


@pytest.mark.long
def test_a_process_that_is_interrupted_does_not_wait_for_what_is_slow(served, tmp_path):
    running = waiting(served, tmp_path / "home", timeout="3")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err.strip()) == (130, "", "hf-lineage: interrupted")
