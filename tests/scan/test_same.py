"""Models with the same tensors are told together: by the names of blobs, or by the bytes of every tensor."""

import shutil

import pytest

from hf_lineage.scan.places import find_models
from hf_lineage.scan.same import Digest, digest, group_by_digests, group_by_names
from tests.gguf_models import write
from tests.models import EXAMPLES, edit_json, shard, spoil
from tests.ollama_store import pulled

CHILD = EXAMPLES / "fern/llama-finetune-a"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "models/store"


@pytest.fixture
def child(tmp_path):
    return write(CHILD, tmp_path / "child.gguf", said={"general.name": "Child"})


def names(groups):
    return [sorted(name.rpartition("/")[2] for name in group) for group in groups]


def by_names(tmp_path):
    return names(group_by_names(find_models([tmp_path / "models"])))


def by_bytes(tmp_path):
    models = list(find_models([tmp_path / "models"]))
    return names(group_by_digests(models, list(map(digest, models))))


def test_blobs_of_one_name_are_the_same_files_and_no_byte_is_read(store, child, tmp_path):
    pulled(store, "a", child)
    pulled(store, "b:renamed", child)
    pulled(store, "c", write(CHILD, tmp_path / "other.gguf", said={"general.name": "Other"}))
    assert by_names(tmp_path) == [["a:latest", "b:renamed"]]


def test_a_file_of_the_hub_and_one_of_ollama_are_known_by_their_digest(disk, store, child, tmp_path):
    from tests.scan.test_places import cached

    folder = tmp_path / "hub"
    folder.mkdir()
    shutil.copy(child, folder / "child.gguf")
    cached(tmp_path / "models/cache", "fern/child-GGUF", folder)
    pulled(store, "child", child)
    assert by_names(tmp_path) == [["child-GGUF --file child.gguf", "child:latest"]]


def test_rewritten_metadata_and_other_shards_are_seen_through_by_the_bytes_alone(store, child, tmp_path):
    pulled(store, "child", child)
    write(CHILD, tmp_path / "models/rewritten.gguf", said={"general.name": "My own work", "general.author": "me"})
    write(EXAMPLES / "acme/llama-base", tmp_path / "models/base.gguf")
    shutil.copytree(CHILD, tmp_path / "models/whole")
    moved = shard(shutil.copytree(CHILD, tmp_path / "models/moved"))
    edit_json(moved / "config.json", _name_or_path="mine")
    tuned = shutil.copytree(CHILD, tmp_path / "models/tuned")
    spoil(tuned, lambda tensors: next(iter(tensors.values())).view(-1)[:1].add_(1))
    assert by_names(tmp_path) == []
    assert sorted(by_bytes(tmp_path)) == [["child:latest", "rewritten.gguf"], ["moved", "whole"]]


def test_a_blob_that_is_not_what_its_name_says_is_seen_where_bytes_are_read(store, child, tmp_path):
    """A name is a claim: two models of one name may be a forgery, and the bytes decide."""
    pulled(store, "child", child)
    (file,) = [file for file in (store / "blobs").iterdir() if file.stat().st_size > 10_000]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    (model,) = find_models([tmp_path / "models"])
    assert not model.problem
    assert digest(model) == Digest(
        problem=f"{file.name} is not what its name says: it was changed, or is damaged; download it again"
    )


def test_every_byte_that_is_read_is_told(child, tmp_path):
    shutil.copytree(CHILD, tmp_path / "models/whole")
    (model,) = find_models([tmp_path / "models"])
    read = []
    assert len(digest(model, read.append).sha256) == 64
    assert 0 < model.size - sum(read) < 20_000


def test_what_is_not_read_says_why(tmp_path):
    folder = tmp_path / "models/flax"
    folder.mkdir(parents=True)
    edit_json(folder / "config.json", model_type="llama")
    (folder / "tf_model.h5").write_bytes(b"x")
    shutil.copytree(CHILD, tmp_path / "models/cut")
    weights = tmp_path / "models/cut/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    cut, unread = (digest(model) for model in find_models([tmp_path / "models"]))
    assert "holds its weights for TensorFlow (tf_model.h5), which is not decoded" in unread.unread
    assert (unread.sha256, unread.problem) == ("", "")
    assert "truncated" in cut.problem
