"""Digests of tensors: equal for the same numbers in other files, and for nothing else."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.checkpoint import stored
from hf_lineage.checkpoint.opening import stored_in
from hf_lineage.checkpoint.stored import AT_ONCE, same_bytes
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import RepoRef
from hf_lineage.scan.digests import digest_model, digest_tensors
from tests.gguf_models import write
from tests.models import WEIGHTS, edit_json, shard, spoil, tiny_llama


def tensors(folder, file=None):
    return stored_in(RepoRef("org/model", folder, file=file))


def digest(held):
    return digest_model(held, digest_tensors(held))


@pytest.fixture
def folder(tmp_path):
    return tiny_llama(tmp_path / "one")


@pytest.fixture
def other(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "two")


def same(one, two):
    """Whether two models are the same by both ways, which have to agree."""
    both = tensors(one), tensors(two)
    by_digest = digest(both[0]) == digest(both[1])
    assert same_bytes(*both) is by_digest
    return by_digest


def test_order_shards_and_metadata_do_not_count(folder, other):
    assert same(folder, other)
    shard(other)
    assert same(folder, other)
    weights = load_file(folder / WEIGHTS)
    save_file(dict(reversed(weights.items())), folder / WEIGHTS, {"format": "pt", "made by": "somebody else"})
    assert same(folder, other)


def test_a_gguf_file_whose_metadata_was_rewritten_holds_the_same(folder, tmp_path):
    files = [
        write(folder, tmp_path / f"{number}.gguf", said={"general.name": "x" * number, "general.author": "me"})
        for number in (1, 5000)
    ]
    one, two = (tensors(tmp_path, file.name) for file in files)
    assert {tensor.start for tensor in one.values()}.isdisjoint(tensor.start for tensor in two.values())
    assert digest(one) == digest(two)
    assert same_bytes(one, two)


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights["model.norm.weight"].view(torch.uint8)[:1].bitwise_xor_(1),
        lambda weights: weights.update(extra=torch.zeros(1)),
        lambda weights: weights.pop("model.norm.weight"),
        lambda weights: weights.update({"model.norm.weight": weights["model.norm.weight"].view(torch.int32)}),
        lambda weights: weights.update({"model.norm.weight": weights["model.norm.weight"].view(2, -1)}),
        lambda weights: weights.update({"model.norms.weight": weights.pop("model.norm.weight")}),
    ],
    ids=["a bit", "one more", "one less", "another format", "another shape", "another name"],
)
def test_any_other_difference_counts(change, folder, other):
    spoil(other, change)
    assert not same(folder, other)


def test_tensors_that_changed_places_are_not_the_same(folder, other):
    """A model whose layers were swapped has the same bytes in all, under other names."""

    def swap(weights):
        one, two = (f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1))
        weights[one], weights[two] = weights[two], weights[one]

    spoil(other, swap)
    assert not same(folder, other)


def test_large_tensors_are_read_in_pieces_and_every_byte_is_told(tmp_path):
    numbers = torch.arange(AT_ONCE // 4 + 5, dtype=torch.float32)
    for name, last in (("a", 0.0), ("b", 1.0)):
        (tmp_path / name).mkdir()
        edit_json(tmp_path / name / "config.json", model_type="llama")
        save_file({"x": torch.cat([numbers, torch.tensor([last])])}, tmp_path / name / WEIGHTS)
    one, two = tensors(tmp_path / "a"), tensors(tmp_path / "b")
    counted = []
    digest_tensors(one, counted.append)
    assert counted == [AT_ONCE, 24]
    assert not same_bytes(one, two)
    assert same_bytes(one, tensors(tmp_path / "a"))


def test_of_two_models_that_differ_only_the_beginnings_are_read(folder, other, monkeypatch):
    """A model whose MLP alone was trained has the attention of its base, which is not read for that."""
    spoil(other, lambda weights: weights["model.layers.1.mlp.up_proj.weight"].add_(1))
    one, two = tensors(folder), tensors(other)
    monkeypatch.setattr(stored, "PROBE", 64)
    asked = []
    read_into = stored.read_into
    monkeypatch.setattr(stored, "read_into", lambda *args: asked.append(len(args[2])) or read_into(*args))
    assert not same_bytes(one, two)
    assert max(asked) == 64


def test_of_one_file_nothing_is_read_to_see_that_it_equals_itself(folder, other):
    one = tensors(folder)
    assert same_bytes(one, tensors(folder), most=0)
    size = sum(tensor.size for tensor in one.values())
    assert [same_bytes(one, tensors(other), most) for most in (size - 1, size, None)] == [False, True, True]


def test_a_file_that_changes_meanwhile_is_an_error(folder, other):
    one, two = tensors(folder), tensors(other)
    spoil(other, lambda weights: weights["model.norm.weight"].add_(1))
    with pytest.raises(CheckpointError, match=r"cannot be read: the file changed after its header was read"):
        digest_tensors(two)
    with pytest.raises(CheckpointError, match=r"cannot be read: the file changed after its header was read"):
        same_bytes(one, two)
