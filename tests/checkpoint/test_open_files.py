"""Opening: the tensors of one file or of the shards of an index, and damage that is found before they are read."""

import os
import pickle
import re
from typing import Any

import pytest
from safetensors.torch import load_file

from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.conftest import FIRST, INDEX, SECOND, opened, repository, same
from tests.models import WEIGHTS, Trap, edit_json, tiny_llama

NO_MAP = "has no `weight_map` from tensor names to file names"
STRANGE = "names a shard that is not a safetensors file of this folder: "
PATHS = ["../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..\\x.safetensors", "C:x.safetensors", ".."]
GONE = ["gone.safetensors", f"{'x' * 300}.safetensors", "\ud800.safetensors"]
LYING: list[Any] = [(None, f"{NO_MAP}; save it again"), *((odd, NO_MAP) for odd in ("text", {"a": 7}, {"a": ["x"]}))]
LYING += [({"a": name}, f"{STRANGE}{name}; do not trust") for name in (*PATHS, "pytorch_model.bin", "")]
LYING += [({"a": "x\0.safetensors"}, rf"{STRANGE}x\x00.safetensors")]
LYING += [({"a": name}, f"names the shard {name}, which is missing".replace("\ud800", r"\ud800")) for name in GONE]


def test_shards_hold_the_same_as_one_file_and_a_tensor_in_two_is_refused(sharded, tmp_path):
    same(opened(sharded), opened(tiny_llama(tmp_path / "a")))
    names = set(open_file(repository(sharded), FIRST).stored)
    assert names
    assert names < set(opened(sharded).stored)
    (sharded / SECOND).write_bytes((sharded / FIRST).read_bytes())
    with pytest.raises(CheckpointError, match=rf"is in both {FIRST} and {SECOND}; remove one of them"):
        opened(sharded)


def test_a_single_file_beside_an_index_of_others_is_two_models(sharded, tmp_path):
    (tmp_path / WEIGHTS).write_bytes(tiny_llama(tmp_path / "other", seed=1).joinpath(WEIGHTS).read_bytes())
    with pytest.raises(NothingToCompare) as error:
        opened(sharded)
    named = "org/model holds model.safetensors, and its model.safetensors.index.json names other files"
    told = "transformers loads the file, other loaders follow the index; keep one of them"
    assert str(error.value) == f"{named}: {told}"
    edit_json(sharded / INDEX, weight_map=dict.fromkeys(load_file(sharded / WEIGHTS), WEIGHTS))
    assert {info.file.name for info in opened(sharded).stored.values()} == {WEIGHTS}


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("gone")])
def test_weights_that_are_no_file_are_never_waited_for(tmp_path, make):
    make(tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"org/model: model\.safetensors is not a readable file but a folder, a"):
        opened(tmp_path)


@pytest.mark.parametrize(("weight_map", "message"), LYING)
def test_an_index_that_lies_is_refused(sharded, weight_map, message):
    edit_json(sharded / INDEX, weight_map=weight_map)
    with pytest.raises(CheckpointError, match=rf"^org/model: .*{re.escape(message)}"):
        opened(sharded)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_a_pickle_is_never_loaded(tmp_path, name):
    trap = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(trap)))
    message = rf"its weights as a pickle \({name}\), which is never loaded; convert it .* let --allow-pickle"
    with pytest.raises(NothingToCompare, match=message):
        opened(tmp_path)
    assert not trap.exists()
    pickle.loads((tmp_path / name).read_bytes())
    assert trap.exists()
