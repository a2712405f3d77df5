"""Which files hold the weights: what transformers would load, and what may be instead."""

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checkpoint.weight_files import find_weights, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef
from tests.checkpoint.conftest import FIRST, INDEX, SECOND, opened, repository
from tests.models import WEIGHTS, edit_json, open_checkpoint, shard, tiny_llama


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "org/model holds no weights (model.safetensors or model.safetensors.index.json)"),
        (
            ["adapter_config.json", "adapter_model.safetensors"],
            "org/model holds only a LoRA adapter; `hf-lineage check",
        ),
        (["one.safetensors", "two.safetensors"], "it is not clear which file is the model: one.safetensors, two.safet"),
    ],
)
def test_without_weights_the_reason_says_what_is_there_instead(tmp_path, files, message):
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(NothingToCompare) as error:
        opened(tmp_path)
    assert message in str(error.value)


def test_the_files_that_are_read_are_the_single_one_or_the_shards(tmp_path):
    assert weight_files(repository(tiny_llama(tmp_path / "a"))) == [WEIGHTS]
    assert weight_files(repository(shard(tiny_llama(tmp_path / "b")))) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("files", "sentences"),
    [
        ([], ()),
        (["optimizer.pt", "training_args.bin", "tokenizer.bin", "scheduler.pt", "notes.txt"], ()),
        (["a.gguf"], ("a.gguf may hold weights too and was not read: transformers loads model.safetensors, other",)),
        (["b.bin", "a.onnx", "c.h5"], ("a.onnx and 2 more may hold weights too and was not read",)),
    ],
)
def test_other_files_that_may_hold_weights_are_named(tmp_path, files, sentences):
    tiny_llama(tmp_path)
    for file in files:
        (tmp_path / file).touch()
    found = find_weights(repository(tmp_path)).notes()
    assert len(found) == len(sentences)
    assert all(sentence.startswith(wanted) for sentence, wanted in zip(found, sentences, strict=True))


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

    def test_beside_the_usual_one_it_makes_two_models(self, tmp_path):
        edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights="other.safetensors")
        with pytest.raises(NothingToCompare, match=r"loads other\.safetensors, which config\.json names .* keep"):
            opened(tmp_path)

    def test_one_that_is_missing_is_damage(self, tmp_path):
        (tiny_llama(tmp_path) / WEIGHTS).unlink()
        edit_json(tmp_path / "config.json", transformers_weights="gone.safetensors")
        with pytest.raises(CheckpointError, match=r"names the weights gone\.safetensors, which are missing"):
            opened(tmp_path)

    @pytest.mark.parametrize("name", ["../x.safetensors", "pytorch_model.bin", "", 7, ["a"], {"a": 1}])
    def test_one_that_is_no_safetensors_file_of_the_folder_is_refused(self, tmp_path, name):
        edit_json(tiny_llama(tmp_path) / "config.json", transformers_weights=name)
        with pytest.raises(NothingToCompare, match=r"which is not a safetensors file of this folder; leave the key"):
            opened(tmp_path)


def test_a_distributed_checkpoint_is_named_and_not_read(tmp_path):
    (tiny_llama(tmp_path) / "shard-00001-model-00001-of-00002.safetensors").touch()
    with pytest.raises(NothingToCompare, match=r"holds a distributed checkpoint \(shard-00001-model-00001-of-00002"):
        opened(tmp_path)


class TestPickles:
    """Files of torch.save, which the user allows."""

    @staticmethod
    def allowed(folder):
        return RepoRef("org/model", folder, allow_pickle=True)

    @pytest.fixture
    def single(self, tmp_path):
        tensors = load_file(tiny_llama(tmp_path) / WEIGHTS)
        (tmp_path / WEIGHTS).unlink()
        torch.save(tensors, tmp_path / "pytorch_model.bin")
        return tmp_path

    def test_the_same_tensors_are_read_as_from_safetensors(self, single, tmp_path_factory):
        found = open_checkpoint(self.allowed(single))
        other = opened(tiny_llama(tmp_path_factory.mktemp("safe")))
        assert found.shapes == other.shapes
        assert all((found.read(name) == other.read(name)).all() for name in other.tensors)

    def test_the_report_says_that_it_is_one(self, single):
        assert find_weights(self.allowed(single)).notes() == (
            "pytorch_model.bin is a pickle; its tensors were read and nothing was run (--allow-pickle)",
        )

    def test_safetensors_come_first_as_in_transformers(self, single):
        tiny_llama(single)
        assert weight_files(self.allowed(single)) == [WEIGHTS]
        note = find_weights(self.allowed(single)).notes()[0]
        assert note.startswith("pytorch_model.bin may hold weights too and was not")

    def test_what_belongs_to_a_training_run_is_no_model(self, single):
        (single / "pytorch_model.bin").rename(single / "model.pt")
        torch.save({"a": torch.ones(1)}, single / "training_args.bin")
        torch.save({"a": torch.ones(1)}, single / "optimizer.pt")
        assert weight_files(self.allowed(single)) == ["model.pt"]

    def test_of_several_none_is_taken(self, single):
        torch.save({"a": torch.ones(1)}, single / "last.pt")
        assert weight_files(self.allowed(single)) == ["pytorch_model.bin"]
        (single / "pytorch_model.bin").rename(single / "best.pt")
        with pytest.raises(NothingToCompare, match=r"not clear which file is the model: best\.pt, last\.pt"):
            weight_files(self.allowed(single))

    @pytest.mark.parametrize("name", ["../x.bin", "model.safetensors", "/etc/x.bin", ""])
    def test_an_index_that_lies_is_refused(self, single, name):
        (single / "pytorch_model.bin").unlink()
        edit_json(single / "pytorch_model.bin.index.json", weight_map={"a": name})
        with pytest.raises(CheckpointError, match=r"a shard that is not a bin file of this folder: .*; do not trust"):
            open_checkpoint(self.allowed(single))

    def test_a_shard_that_is_missing_is_damage(self, single):
        (single / "pytorch_model.bin").unlink()
        edit_json(single / "pytorch_model.bin.index.json", weight_map={"a": "gone.bin"})
        with pytest.raises(CheckpointError, match=r"names the shard gone\.bin, which is missing; fetch it"):
            open_checkpoint(self.allowed(single))
