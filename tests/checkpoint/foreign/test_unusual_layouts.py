"""Weights under names that transformers does not load are read where it is clear which file is the model."""

import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import check, compare
from hf_lineage.checkpoint.files import files_beside, weight_files
from hf_lineage.checkpoint.foreign.unusual_layouts import DEEPEST, WRAPPERS, wrapping
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.models import WEIGHTS, family, fine_tuned, shard, tiny_llama

INDEX = "model.safetensors.index.json"


def repository(folder):
    return RepoRef("org/model", folder)


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "model")


def same(model, tmp_path):
    plain = open_checkpoint(repository(tiny_llama(tmp_path / "plain")))
    own = open_checkpoint(repository(model))
    assert own.shapes == plain.shapes
    assert all(np.array_equal(own.read(name), plain.read(name)) for name in plain.shapes)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("model.fp16.safetensors", "read; transformers loads it only with the variant fp16"),
        ("weights.safetensors", "the only file with weights; transformers loads model.safetensors alone"),
        ("pytorch_model.safetensors", "the only file with weights"),
        ("model-00001-of-00001.safetensors", "the only file with weights"),
    ],
)
def test_a_single_file_of_another_name_is_read(model, tmp_path, name, note):
    (model / WEIGHTS).rename(model / name)
    same(model, tmp_path)
    assert weight_files(repository(model)) == [name]
    (sentence,) = files_beside(repository(model))
    assert sentence.startswith(f"{name} was read")
    assert note in sentence


@pytest.mark.parametrize("form", ["model-{}", "model.fp16-{}", "consolidated-{}", "model-{}.fp16"])
def test_shards_without_an_index_are_read(model, tmp_path, form):
    shard(model)
    (model / INDEX).unlink()
    for number in (1, 2):
        part = f"{number:05}-of-00002"
        (model / f"model-{part}.safetensors").rename(model / f"{form.format(part)}.safetensors")
    same(model, tmp_path)
    (sentence,) = files_beside(repository(model))
    assert sentence.startswith("the 2 shards such as ")


def test_a_missing_shard_is_an_error(model):
    shard(model)
    for file in (INDEX, "model-00001-of-00002.safetensors"):
        (model / file).unlink()
    with pytest.raises(CheckpointError, match=r"has 1 of 2 shards, model-00002-of-00002\.safetensors; download"):
        open_checkpoint(repository(model))


@pytest.mark.parametrize(
    "names", [["a", "b"], ["model.fp16", "model.bf16"], ["model-00001-of-00001", "other"], "abcdefgh"]
)
def test_of_several_files_none_is_taken_and_all_are_listed(model, names):
    weights = (model / WEIGHTS).read_bytes()
    (model / WEIGHTS).unlink()
    for name in names:
        (model / f"{name}.safetensors").write_bytes(weights)
    with pytest.raises(NothingToCompare, match="it is not clear which file is the model:") as error:
        open_checkpoint(repository(model))
    assert str(error.value).count(".safetensors") == min(len(names), 6) + 1
    assert ("and 2 more" in str(error.value)) == (len(names) == 8)


def test_a_pickle_of_the_usual_name_is_what_transformers_loads(model):
    (model / WEIGHTS).rename(model / "weights.safetensors")
    (model / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(NothingToCompare, match=r"transformers loads the pickle pytorch_model\.bin"):
        open_checkpoint(repository(model))


@pytest.mark.parametrize("name", ["adapter_model", "optimizer", "scaler", "rng_state_0"])
def test_what_lies_beside_a_model_is_never_the_model(model, name):
    (model / WEIGHTS).rename(model / f"{name}.safetensors")
    with pytest.raises(NothingToCompare):
        open_checkpoint(repository(model))


def test_the_usual_name_is_read_whatever_lies_beside(model, tmp_path):
    tiny_llama(tmp_path / "other", seed=3)
    shutil.copy(tmp_path / "other" / WEIGHTS, model / "model.fp16.safetensors")
    same(model, tmp_path)
    assert "model.fp16.safetensors may hold weights too" in files_beside(repository(model))[0]


@pytest.mark.parametrize("other", ["model.gguf", "model.onnx", "tf_model.h5", "flax_model.msgpack", "weights.pt"])
def test_a_file_of_another_library_beside_an_unusual_one_may_be_the_model(model, other):
    """Transformers loads neither: whoever uses the repository loads the other, which may be any model."""
    (model / WEIGHTS).rename(model / "weights.safetensors")
    (model / other).write_bytes(b"")
    with pytest.raises(NothingToCompare, match=rf"not clear which file is the model: {other}, weights\.safetensors"):
        files_beside(repository(model))


def wrapped(folder, prefix, keep=()):
    tensors = load_file(folder / WEIGHTS)
    save_file({(name if name in keep else prefix + name): one for name, one in tensors.items()}, folder / WEIGHTS)
    return folder


@pytest.mark.parametrize("prefix", [*WRAPPERS, "module._orig_mod.", "_orig_mod.module.base_model.model."])
def test_a_prefix_of_the_whole_file_is_taken_off(model, tmp_path, prefix):
    wrapped(model, prefix)
    same(model, tmp_path)
    assert open_checkpoint(repository(model)).wrapping == prefix


def test_a_prefix_in_the_index_is_taken_off_as_well(model, tmp_path):
    shard(wrapped(model, "module."))
    same(model, tmp_path)


def test_a_prefix_of_some_tensors_is_none(model):
    wrapped(model, "module.", keep={"model.norm.weight"})
    checkpoint = open_checkpoint(repository(model))
    assert (checkpoint.wrapping, "module.model.embed_tokens.weight" in checkpoint.tensors) == ("", True)


def test_no_name_is_unwrapped_without_end():
    assert wrapping([]) == ""
    assert wrapping(["module." * 100 + "x"]) == "module." * DEEPEST


def test_no_class_has_names_that_begin_as_a_wrapper_does():
    from hf_lineage.architecture.registry.lookups import factorizations
    from hf_lineage.architecture.registry.schema import prefixes

    assert not [name for one in factorizations() for name in prefixes(one) if name.startswith(WRAPPERS)]


def test_a_child_that_is_wrapped_is_related_and_the_report_says_so(tmp_path):
    child = wrapped(family(tmp_path) / "fern/child", "_orig_mod.")
    (row,) = check(str(child), [str(tmp_path / "acme/base")]).rows
    assert row.verdict.name == "RELATED"
    assert row.notes == (
        f"{child}: the name of every tensor begins with _orig_mod.; it was removed, but transformers does not",
    )
    other = wrapped(tiny_llama(tmp_path / "other", seed=5), "module.")
    (row,) = compare(str(tmp_path / "acme/base"), str(other)).rows
    assert row.verdict.name == "UNRELATED"


def test_a_file_of_another_name_on_the_hub_is_read_by_ranges(online, tmp_path):
    base = tiny_llama(tmp_path / "base")
    child = fine_tuned(base, tmp_path / "child")
    (child / WEIGHTS).rename(child / "model.bf16.safetensors")
    online.publish("acme/base", base)
    online.publish("fern/child", child)
    (row,) = compare("acme/base", "fern/child").rows
    assert row.verdict.name == "RELATED"
    assert "the variant bf16" in " ".join(row.notes)
