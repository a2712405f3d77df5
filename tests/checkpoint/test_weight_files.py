"""Which files hold the weights: what transformers would load, and what may be instead."""

import re

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checkpoint.weight_files import find_weights, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.conftest import FIRST, INDEX, SECOND, opened, repository, same
from tests.models import WEIGHTS, edit_json, open_checkpoint, shard, tiny_llama


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "holds no weights (model.safetensors or model.safetensors.index.json)"),
        (["adapter_config.json", "adapter_model.safetensors"], "holds only a LoRA adapter; `hf-lineage check"),
        (["one.safetensors", "two.safetensors"], "it is not clear which file is the model: one.safetensors, two.safet"),
        (
            ["shard-00001-model-00001-of-00002.safetensors", WEIGHTS],
            "holds a distributed checkpoint (shard-00001-model",
        ),
    ],
)
def test_without_weights_that_are_read_the_reason_says_what_is_there_instead(tmp_path, files, message):
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(NothingToCompare, match=rf"^org/model.*{re.escape(message)}"):
        opened(tmp_path)


def test_the_files_that_are_read_are_the_single_one_or_the_shards(tmp_path):
    assert weight_files(repository(tiny_llama(tmp_path / "a"))) == [WEIGHTS]
    assert weight_files(repository(shard(tiny_llama(tmp_path / "b")))) == [FIRST, SECOND]


TRAINING = "optimizer.pt training_args.bin tokenizer.bin scheduler.pt notes.txt"
UNREAD = "may hold weights too and was not read"
NOTES = {"": "", TRAINING: "", "b.bin a.onnx c.h5": f"a.onnx and 2 more {UNREAD}"}
NOTES["a.gguf"] = f"a.gguf {UNREAD}: transformers loads model.safetensors, other"


@pytest.mark.parametrize(("files", "sentence"), NOTES.items())
def test_other_files_that_may_hold_weights_are_named(tmp_path, files, sentence):
    tiny_llama(tmp_path)
    for file in files.split():
        (tmp_path / file).touch()
    found = find_weights(repository(tmp_path)).notes()
    assert len(found) == bool(sentence)
    assert "".join(found).startswith(sentence)


class TestFileThatTheConfigNames:
    """`transformers_weights` in config.json."""

    def test_it_is_the_one_that_is_read(self, tmp_path):
        (tiny_llama(tmp_path) / WEIGHTS).rename(tmp_path / "other.safetensors")
        edit_json(tmp_path / "config.json", transformers_weights="other.safetensors")
        assert weight_files(repository(tmp_path)) == ["other.safetensors"]
        assert "model.norm.weight" in opened(tmp_path).stored

    def test_it_may_be_an_index_of_shards(self, sharded):
        (sharded / INDEX).rename(sharded / "other.safetensors.index.json")
        edit_json(sharded / "config.json", transformers_weights="other.safetensors.index.json")
        assert weight_files(repository(sharded)) == [FIRST, SECOND]

    def test_beside_the_usual_one_it_makes_two_models_and_missing_it_is_damage(self, tmp_path):
        edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights="other.safetensors")
        with pytest.raises(NothingToCompare, match=r"loads other\.safetensors, which config\.json names .* keep"):
            opened(tmp_path)
        (tmp_path / WEIGHTS).unlink()
        with pytest.raises(CheckpointError, match=r"names the weights other\.safetensors, which are missing"):
            opened(tmp_path)

    @pytest.mark.parametrize("name", ["../x.safetensors", "pytorch_model.bin", "", 7, ["a"], {"a": 1}])
    def test_one_that_is_no_safetensors_file_of_the_folder_is_refused(self, tmp_path, name):
        edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights=name)
        with pytest.raises(NothingToCompare, match=r"which is not a safetensors file of this folder; leave the key"):
            opened(tmp_path)


class TestPickles:
    """Files of torch.save, which the user allows."""

    @pytest.fixture
    def single(self, tmp_path):
        tensors = load_file(tiny_llama(tmp_path) / WEIGHTS)
        (tmp_path / WEIGHTS).unlink()
        torch.save(tensors, tmp_path / "pytorch_model.bin")
        return tmp_path

    @pytest.fixture
    def repo(self, single):
        return repository(single, allow_pickle=True)

    def test_the_same_tensors_are_read_as_from_safetensors_and_the_report_says_so(self, repo, tmp_path_factory):
        assert find_weights(repo).notes() == (
            "pytorch_model.bin is a pickle; its tensors were read and nothing was run (--allow-pickle)",
        )
        same(open_checkpoint(repo), opened(tiny_llama(tmp_path_factory.mktemp("safe"))))

    def test_safetensors_come_first_as_in_transformers(self, single, repo):
        tiny_llama(single)
        assert weight_files(repo) == [WEIGHTS]
        assert find_weights(repo).notes()[0].startswith("pytorch_model.bin may hold weights too and was not")

    def test_what_belongs_to_a_training_run_is_no_model(self, single, repo):
        (single / "pytorch_model.bin").rename(single / "model.pt")
        torch.save({"a": torch.ones(1)}, single / "training_args.bin")
        torch.save({"a": torch.ones(1)}, single / "optimizer.pt")
        assert weight_files(repo) == ["model.pt"]

    def test_of_several_none_is_taken(self, single):
        torch.save({"a": torch.ones(1)}, single / "last.pt")
        assert weight_files(repository(single, allow_pickle=True)) == ["pytorch_model.bin"]
        (single / "pytorch_model.bin").rename(single / "best.pt")
        with pytest.raises(NothingToCompare, match=r"not clear which file is the model: best\.pt, last\.pt"):
            weight_files(repository(single, allow_pickle=True))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            *((odd, "not a bin file of this folder: .*; do not") for odd in ("../x.bin", WEIGHTS, "/etc/x.bin", "")),
            ("gone.bin", r"names the shard gone\.bin, which is missing; fetch it"),
        ],
    )
    def test_an_index_that_lies_is_refused(self, single, repo, name, message):
        (single / "pytorch_model.bin").unlink()
        edit_json(single / "pytorch_model.bin.index.json", weight_map={"a": name})
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(repo)
