"""Which files hold the weights: what transformers would load, and what may be instead."""

import re

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checkpoint.weight_files import find_weights, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.conftest import FIRST, INDEX, SECOND, opened, repository, same
from tests.models import WEIGHTS, edit_json, open_checkpoint, shard, tiny_llama

PICKLE = "pytorch_model.bin"
ADAPTER = ["adapter_config.json", "adapter_model.safetensors"]
DISTRIBUTED = "shard-00001-model-00001-of-00002.safetensors"
TRAINING = "optimizer.pt training_args.bin tokenizer.bin scheduler.pt notes.txt"
UNREAD = "may hold weights too and was not read"
NOTES = {"": "", TRAINING: "", "b.bin a.onnx c.h5": f"a.onnx and 2 more {UNREAD}"}
NOTES["a.gguf"] = f"a.gguf {UNREAD}: transformers loads model.safetensors, other"
WITHOUT = [
    ([], "holds no weights (model.safetensors or model.safetensors.index.json)"),
    (ADAPTER, "holds only a LoRA adapter; `hf-lineage check"),
    (["one.safetensors", "two.safetensors"], "it is not clear which file is the model: one.safetensors, two.safet"),
    ([DISTRIBUTED, WEIGHTS], "holds a distributed checkpoint (shard-00001-model"),
]


@pytest.mark.parametrize(("names", "message"), WITHOUT)
def test_without_weights_that_are_read_the_reason_says_what_is_there_instead(files, names, message):
    repo = files(*names)
    with pytest.raises(NothingToCompare, match=rf"^org/model.*{re.escape(message)}"):
        open_checkpoint(repo)


@pytest.mark.parametrize(("names", "sentence"), NOTES.items())
def test_other_files_that_may_hold_weights_are_named(tmp_path, files, names, sentence):
    tiny_llama(tmp_path)
    found = find_weights(files(*names.split())).notes()
    assert len(found) == bool(sentence)
    assert "".join(found).startswith(sentence)


def test_the_single_file_or_the_shards_are_read_or_those_that_the_config_names(tmp_path):
    """`transformers_weights` in config.json."""
    single, sharded = tiny_llama(tmp_path / "a"), shard(tiny_llama(tmp_path / "b"))
    for folder, old, name in ((single, WEIGHTS, "other.safetensors"), (sharded, INDEX, "other.safetensors.index.json")):
        (folder / old).rename(folder / name)
        edit_json(folder / "config.json", transformers_weights=name)
    assert weight_files(repository(single)) == ["other.safetensors"]
    assert "model.norm.weight" in opened(single).stored
    assert weight_files(repository(sharded)) == [FIRST, SECOND]
    assert weight_files(repository(tiny_llama(tmp_path / "a"))) == [WEIGHTS]
    assert weight_files(repository(shard(tiny_llama(tmp_path / "b")))) == [FIRST, SECOND]


def test_a_named_file_beside_the_usual_one_makes_two_models_and_missing_it_is_damage(tmp_path):
    edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights="other.safetensors")
    with pytest.raises(NothingToCompare, match=r"loads other\.safetensors, which config\.json names .* keep"):
        opened(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"names the weights other\.safetensors, which are missing"):
        opened(tmp_path)
    for name in ("../x.safetensors", "pytorch_model.bin", "", 7, ["a"], {"a": 1}):
        edit_json(tmp_path / "config.json", transformers_weights=name)
        with pytest.raises(NothingToCompare, match=r"which is not a safetensors file of this folder; leave the key"):
            opened(tmp_path)


@pytest.fixture
def single(tmp_path):
    """A folder with a file of torch.save, which the user allows."""
    tensors = load_file(tiny_llama(tmp_path) / WEIGHTS)
    (tmp_path / WEIGHTS).unlink()
    torch.save(tensors, tmp_path / PICKLE)
    return tmp_path


@pytest.fixture
def repo(single):
    return repository(single, allow_pickle=True)


def test_tensors_of_a_pickle_are_read_as_from_safetensors_which_come_first(single, repo, tmp_path_factory):
    read = "pytorch_model.bin is a pickle; its tensors were read and nothing was run (--allow-pickle)"
    assert find_weights(repo).notes() == (read,)
    same(open_checkpoint(repo), opened(tiny_llama(tmp_path_factory.mktemp("safe"))))
    tiny_llama(single)
    repo = repository(single, allow_pickle=True)
    assert weight_files(repo) == [WEIGHTS]
    assert find_weights(repo).notes()[0].startswith("pytorch_model.bin may hold weights too and was not")


def test_what_belongs_to_a_training_run_is_no_model_and_of_several_none_is_taken(single, repo):
    for name in ("training_args.bin", "optimizer.pt", "last.pt"):
        torch.save({"a": torch.ones(1)}, single / name)
    assert weight_files(repo) == [PICKLE]
    (single / PICKLE).rename(single / "best.pt")
    with pytest.raises(NothingToCompare, match=r"not clear which file is the model: best\.pt, last\.pt"):
        weight_files(repository(single, allow_pickle=True))
    (single / "last.pt").unlink()
    assert weight_files(repository(single, allow_pickle=True)) == ["best.pt"]


@pytest.mark.parametrize("name", ["../x.bin", WEIGHTS, "/etc/x.bin", "", "gone.bin"])
def test_an_index_of_pickles_that_lies_is_refused(single, repo, name):
    (single / PICKLE).unlink()
    edit_json(single / f"{PICKLE}.index.json", weight_map={"a": name})
    gone = r"names the shard gone\.bin, which is missing; fetch it"
    with pytest.raises(
        CheckpointError, match=gone if name == "gone.bin" else "not a bin file of this folder: .*; do not"
    ):
        open_checkpoint(repo)
