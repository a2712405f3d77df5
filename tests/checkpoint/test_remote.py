import os
import re
import shutil
from concurrent.futures import CancelledError, Future
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage import RECIPES, Options, compare
from hf_lineage.checkpoint import remote as reading
from hf_lineage.checkpoint.remote import Held, RemoteCheckpoint
from hf_lineage.checkpoint.stored import header
from hf_lineage.checkpoint.tensor import DTYPES
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import ranges
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import extract
from tests.invoking import lineage
from tests.models import EXAMPLES, SMALL, WEIGHTS, open_checkpoint, raw_safetensors, shard, tiny_llama
from tests.server import faults

PATHS = "mlp,mlp_gate,value_output,query_key"
TOKEN = "hf_averysecrettoken"
AS_JSON = ("--format", "json", "--seed", "0")
"""The order in which layers are read is drawn anew for each report unless its seed is given."""


@pytest.fixture
def exact(monkeypatch):
    """Nothing more is read than what is asked for."""
    monkeypatch.setattr(ranges, "HEAD", 8)
    monkeypatch.setattr(reading, "GAP", 0)


def touched(hub, name, file=WEIGHTS):
    """The tensors of which any byte was sent."""
    stored = header(hub.published[name]["main"] / file, file)
    parts = [part for part in hub.parts if part.file == f"{name}/{file}"]
    return {
        tensor
        for tensor, info in stored
        if any(part.start < info.start + info.size and info.start < part.stop for part in parts)
    }


def test_a_check_moves_the_mlp_alone_and_nothing_twice(online, exact):
    found = lineage("check", "fern/llama-finetune-a")
    assert (found.code, found.err, found.rows[0][-1]) == (0, "", "inherited")
    for name in SMALL:
        norms = {f"model.layers.{layer}.post_attention_layernorm.weight" for layer in range(6)}
        matrices = {
            f"model.layers.{layer}.mlp.{role}_proj.weight" for layer in range(6) for role in ("up", "gate", "down")
        }
        beside = touched(online, name) - norms - matrices
        known = {"model.embed_tokens.weight", "model.norm.weight"} | {
            f"model.layers.{layer}.{part}.weight"
            for layer in range(6)
            for part in ("input_layernorm", "self_attn.v_proj", "self_attn.o_proj")
        }
        assert beside <= known  # of which some rows are read, to know what the MLPs are added to
    assert online.twice() == []
    assert online.downloads() == {
        *(f"{name}/{file}" for name in SMALL for file in ("README.md", "config.json", WEIGHTS))
    }


@pytest.mark.long
def test_with_what_comes_besides_embeddings_and_heads_still_stay_where_they_are(online):
    assert lineage("check", "fern/llama-finetune-a", "--paths", "mlp,value_output").code == 0
    assert online.twice() == []
    for name in SMALL:
        stored = dict(header(online.published[name]["main"] / WEIGHTS, WEIGHTS))
        outside = [info for tensor, info in stored.items() if ".layers." not in tensor and info.size > ranges.HEAD]
        assert outside
        for info in outside:
            begin, end = max(info.start, ranges.HEAD), info.start + info.size
            moved = [
                min(part.stop, end) - max(part.start, begin) for part in online.parts if part.file.startswith(name)
            ]
            assert sum(size for size in moved if size > 0) < 0.7 * info.size  # 64 of 256 rows, and what is between them


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "command",
    [
        ("check", "{}fern/llama-finetune-a", "--base", "{}acme/llama-base", *AS_JSON, "--explain"),
        ("compare", "{}acme/llama-base", "{}fern/llama-finetune-a", "--paths", PATHS, *AS_JSON),
        ("inspect", "{}acme/llama-base", "--format", "json"),
    ],
    ids=["check", "compare", "inspect"],
)
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
    assert compare("acme/llama-base", "fern/llama-finetune-a", exact).exit_code == 0
    assert online.twice() == []


def test_a_signature_is_the_same_from_the_network_as_from_disk(online, tmp_path):
    for prefix, file in ((f"{EXAMPLES}/", "here"), ("", "there")):
        assert lineage("extract", f"{prefix}acme/llama-base", "-o", tmp_path / file).code == 0
    here, there = load_file(tmp_path / "here"), load_file(tmp_path / "there")
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_shards_are_read_as_one_file_is(online, tmp_path):
    online.publish("acme/sharded", shard(shutil.copytree(SMALL["acme/llama-base"], tmp_path / "sharded")))
    single, sharded = (open_checkpoint(resolve(name)) for name in ("acme/llama-base", "acme/sharded"))
    assert isinstance(sharded, RemoteCheckpoint)
    assert single.shapes == sharded.shapes
    sharded.prefetch(*sharded.tensors)
    assert all(np.array_equal(single.read(name), sharded.read(name)) for name in reversed(single.tensors))
    assert online.twice() == []


def test_rows_of_a_matrix_come_piece_by_piece_and_nothing_besides(online, exact):
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    name, before = "model.layers.0.mlp.up_proj.weight", checkpoint.bytes_read
    stored = checkpoint.rows(name).tensor
    pieces = [stored.rows(slice(*ends)) for ends in ((2, 5), (9, 10))]
    for _ in range(2):
        checkpoint.prefetch_pieces(pieces)
        rows = checkpoint.read_pieces(name, pieces)
    assert checkpoint.bytes_read - before == 4 * stored.shape[1] * DTYPES[stored.dtype].itemsize
    np.testing.assert_array_equal(rows, checkpoint.read(name)[[2, 3, 4, 9]])


def test_pieces_that_lie_close_together_come_with_one_request(online, monkeypatch):
    monkeypatch.setattr(ranges, "HEAD", 8)
    for gap, requests in ((0, 3), (1000, 1)):
        monkeypatch.setattr(reading, "GAP", gap)
        checkpoint = open_checkpoint(resolve("acme/llama-base"))
        stored = checkpoint.rows("model.layers.0.mlp.up_proj.weight").tensor
        online.forget()
        pieces = [stored.rows(slice(row, row + 1)) for row in (6, 2, 4)]
        assert stored.rows(slice(0, 1)).size < 1000
        rows = checkpoint.read_pieces("model.layers.0.mlp.up_proj.weight", pieces)
        assert len(online.parts) == requests
        np.testing.assert_array_equal(rows, checkpoint.read("model.layers.0.mlp.up_proj.weight")[[6, 2, 4]])


def test_pieces_that_are_still_to_come_are_cancelled(online, exact):
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    stored = checkpoint.rows("model.layers.0.mlp.up_proj.weight").tensor
    checkpoint.prefetch_pieces(stored.rows(slice(row, row + 1)) for row in range(stored.shape[0]))
    checkpoint.release()
    with pytest.raises(CancelledError):
        checkpoint.read_pieces("model", [stored.rows(slice(row, row + 1)) for row in range(stored.shape[0])])


def test_neighbours_come_with_one_request_and_large_ones_with_several(online, exact, monkeypatch):
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    prefix = "model.layers.0.mlp"
    wanted = [f"{prefix}.{role}_proj.weight" for role in ("down", "up", "gate")]
    online.forget()
    checkpoint.prefetch(*wanted)
    checkpoint.read(wanted[0])
    assert len(online.parts) == 1
    monkeypatch.setattr(ranges, "LARGEST_RANGE", 10_000)
    monkeypatch.setattr(reading, "LARGEST_RANGE", 10_000)
    online.forget()
    name = "model.layers.1.mlp.up_proj.weight"
    checkpoint.read(name)
    assert len(online.parts) == -(-checkpoint.stored[name].size // 10_000)


def test_what_lies_in_a_small_gap_is_not_fetched_again(online, monkeypatch):
    monkeypatch.setattr(ranges, "HEAD", 8)
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    prefix = "model.layers.3.mlp"
    checkpoint.prefetch(f"{prefix}.down_proj.weight", f"{prefix}.up_proj.weight")
    checkpoint.read(f"{prefix}.up_proj.weight")
    online.forget()
    checkpoint.read(f"{prefix}.gate_proj.weight")
    assert online.parts == []


def test_requests_and_bytes_are_counted(online):
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    checkpoint.read("model.norm.weight")
    on_hub = [request for request in online.requests if request.endswith(WEIGHTS)]
    assert checkpoint.requests == len(online.parts) + len(on_hub)
    assert checkpoint.bytes_read == online.moved()


def test_no_more_than_eight_requests_are_open_at_once(online, exact):
    online.plan(faults.slow(0.05), "cdn", times=1000)
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    checkpoint.prefetch(*list(checkpoint.tensors)[::2])
    checkpoint.read("model.layers.5.self_attn.q_proj.weight")
    assert online.most_at_once == 8


def test_the_token_goes_to_the_hub_alone(online, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert lineage("check", "fern/llama-finetune-a").code == 0
    assert online.tokens == {f"Bearer {TOKEN}"}
    assert online.leaked == set()


def test_a_header_longer_than_what_is_read_first_is_read_on(online, monkeypatch):
    monkeypatch.setattr(ranges, "HEAD", 100)
    there, here = (open_checkpoint(resolve(name)) for name in ("acme/llama-base", str(SMALL["acme/llama-base"])))
    assert there.shapes == here.shapes
    assert online.twice() == []


@pytest.mark.parametrize(
    ("header", "data", "length"),
    [
        (b"{}", b"", 10**6),
        (b"{}", b"", 2**63),
        (b"not json", b"", None),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 5, None),
        ({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}, b"\0" * 4, None),
        (
            {
                "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]},
            },
            b"\0" * 6,
            None,
        ),
    ],
    ids=["beyond the file", "2**63", "text", "bytes left over", "beyond the data", "overlap"],
)
def test_a_header_that_lies_is_refused_as_on_disk(online, tmp_path, header, data, length):
    folder = tiny_llama(tmp_path / "liar")
    raw_safetensors(folder / WEIGHTS, header, data, length)
    online.publish("liar/model", folder)
    with pytest.raises(CheckpointError, match=r"liar/model: model\.safetensors"):
        open_checkpoint(resolve("liar/model"))


def test_an_error_does_not_wait_for_what_is_still_on_its_way(online, exact):
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    online.plan(faults.slow(30), "cdn", times=1000)
    checkpoint.prefetch("model.norm.weight")
    checkpoint.release()
    assert checkpoint._downloads.stopped.is_set()


def test_reading_stops_where_the_disk_is_full(online, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    error = lineage("inspect", "acme/llama-base").error
    assert error == (
        "acme/llama-base: model.safetensors: No space left on device, on the disk with the cache; make room, or set "
        "HF_HOME to another disk"
    )


ROWS, WHOLE = "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture
def held():
    """Bytes 10 to 20 and 30 to 40 were asked for, the later ones first."""
    held = Held()
    for start in (30, 10):
        held.add(start, start + 10, Future())
    return held


@pytest.mark.parametrize(
    ("start", "stop", "missing"),
    [
        (0, 50, [(0, 10), (20, 30), (40, 50)]),
        (15, 35, [(20, 30)]),
        (20, 30, [(20, 30)]),
        (12, 18, []),
        (10, 20, []),
        (0, 10, [(0, 10)]),
        (25, 25, []),
    ],
)
def test_what_was_asked_for_is_not_missing(held, start, stop, missing):
    assert list(held.missing(start, stop)) == missing


def test_what_is_on_its_way_is_known_by_the_bytes_that_it_holds(held):
    assert [(one.start, one.stop) for one in held.among(19, 31)] == [(10, 20), (30, 40)]
    assert held.among(20, 30) == []


@pytest.mark.parametrize("gap", [0, 300])
def test_a_matrix_of_which_rows_were_read_is_completed(online, monkeypatch, gap):
    monkeypatch.setattr(ranges, "HEAD", 8)
    monkeypatch.setattr(reading, "GAP", 0)
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    stored = checkpoint.rows(ROWS).tensor
    before = checkpoint.bytes_read
    pieces = [stored.rows(slice(*ends)) for ends in ((2, 5), (4, 9), (11, 12))]
    checkpoint.prefetch_pieces(pieces, gap=gap)
    some = checkpoint.read_pieces(ROWS, pieces)
    whole = checkpoint.read(ROWS)
    np.testing.assert_array_equal(some, whole[[2, 3, 4, 4, 5, 6, 7, 8, 11]])
    np.testing.assert_array_equal(checkpoint.read_pieces(ROWS, [stored.rows(slice(0, 3))]), whole[:3])
    assert checkpoint.bytes_read - before == stored.size
    assert checkpoint.at_hand(ROWS)
    assert not checkpoint.at_hand(WHOLE)
    assert online.twice() == []


@pytest.mark.parametrize("revision", ["v2", "refs/pr/1", "feature/x"])
def test_a_branch_a_tag_and_a_pull_request_are_followed(online, tmp_path, revision):
    other = tiny_llama(tmp_path / "v2", seed=1)
    commit = online.publish("acme/llama-base", other, revision=revision)
    found, here = open_checkpoint(resolve(f"acme/llama-base@{revision}")), open_checkpoint(resolve(str(other)))
    assert resolve(f"acme/llama-base@{revision}").commit == commit
    assert np.array_equal(found.read("model.norm.weight"), here.read("model.norm.weight"))
    assert open_checkpoint(resolve(f"acme/llama-base@{commit}")).shapes == here.shapes


def test_a_branch_that_moves_is_read_as_it_was(online, tmp_path):
    repo = resolve("acme/llama-base")
    online.publish("acme/llama-base", tiny_llama(tmp_path / "v2", seed=1))
    found, here = open_checkpoint(repo), open_checkpoint(resolve(str(SMALL["acme/llama-base"])))
    assert np.array_equal(found.read("model.norm.weight"), here.read("model.norm.weight"))


def test_a_model_that_was_renamed_is_followed_and_that_is_said(online, caplog):
    online.renamed["meta/old-name"] = "acme/llama-base"
    found = lineage("check", "fern/llama-finetune-a", "--base", "meta/old-name")
    assert found.rows[0][-1] == "inherited"
    assert "meta/old-name is now called acme/llama-base" in caplog.text


def test_a_model_that_declares_its_own_former_name_has_no_base(online, tmp_path):
    own = shutil.copytree(SMALL["fern/llama-finetune-a"], tmp_path / "own")
    (own / "README.md").write_text("---\nbase_model: fern/before\n---\n")
    online.publish("fern/own", own)
    online.renamed["fern/before"] = "fern/own"
    found = lineage("check", "fern/own")
    assert found.rows[0][-1] == "no-base"
    assert "The model declares itself, and a model cannot be its own base." in found.sentences
