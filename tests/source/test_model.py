"""A model is opened by its headers; each layer is read once, in whatever order, and the whole is cached once."""

import os
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from hf_lineage.checking.check import extract
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError, SignatureError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature import cache
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sample import Sample
from hf_lineage.signature.store import encode, save_signature
from hf_lineage.signature.values import Signature
from hf_lineage.source import model as model_module
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import locate
from hf_lineage.source.model import LazySignature, open_model
from hf_lineage.source.options import Options
from tests.models import WEIGHTS, edit_json, tiny_gpt2, tiny_llama

LACKING = [
    (Options(paths=("mlp", "query_key")), "path query_key"),
    (Options(recipe=RECIPES["paper"]), "recipe robust with other parameters"),
]
ADAPTER = {"config.json": "gone", WEIGHTS: "adapter_model.safetensors"}
LAYERS, MLP = 4, Options(paths=("mlp",))


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "model")


@pytest.fixture
def stored(model):
    save_signature(extract(str(model)), model.with_suffix(".sig"))
    return locate(str(model.with_suffix(".sig")))


def test_a_folder_is_a_repository_and_a_file_a_signature_that_serves_what_it_can(model, stored):
    source = locate(str(model))
    assert (type(source), type(stored)) == (RepoRef, Signature)
    of_folder, of_file = (open_model(each, Options()) for each in (source, stored))
    assert (of_folder.layers, of_folder.width, of_folder.local, of_folder.identity) == (2, 32, True, (str(model),))
    assert (of_file.layers, of_file.width, of_file.name, of_file.identity) == (2, 32, str(model), None)
    assert of_folder.signature() is of_folder.signature()
    for options, what in LACKING:
        with pytest.raises(SignatureError) as error:
            open_model(stored, options).signature()
        told = f"the stored signature lacks what this check needs ({what}); extract it again"
        assert str(error.value) == f"{model}: {told}"


def test_a_signature_has_the_layers_that_are_asked_for_whatever_was_read_before(tmp_path):
    model = tiny_llama(tmp_path / "model", layers=5)
    save_signature(extract(str(model)), tmp_path / "model.sig")
    for source in (model, tmp_path / "model.sig"):
        subject = open_model(locate(str(source)), Options())
        whole = extract(str(model)).paths["mlp"]
        for layers in ((4, 1), (0,), (0, 1, 2, 3, 4), (3,)):
            part = subject.signature(layers)
            assert part.numbers("mlp") == tuple(sorted(layers))
            np.testing.assert_array_equal(part.paths["mlp"].sketch, whole.sketch[sorted(layers)])
        assert subject.signature().without == {}


def rename(folder, names):
    for old, new in names.items():
        (folder / old).rename(folder / new)


@pytest.mark.parametrize(
    ("damage", "kind", "said"),
    [
        ({"num_hidden_layers": 9}, NothingToCompare, ""),
        ({"num_attention_heads": 0}, CheckpointError, ""),
        ({"num_attention_heads": 5}, CheckpointError, ""),
        (lambda folder: os.truncate(folder / WEIGHTS, 5000), CheckpointError, ""),
        (lambda folder: rename(folder, {WEIGHTS: "weights.bin"}), NothingToCompare, ""),
        (lambda folder: rename(folder, {"config.json": "gone"}), RepositoryError, "has no config.json"),
        (lambda folder: rename(folder, ADAPTER), NothingToCompare, " holds an adapter without its adapter_config"),
    ],
)
def test_what_is_wrong_with_a_model_names_it_once(model, damage, kind, said):
    edit_json(model / "config.json", **damage) if isinstance(damage, dict) else damage(model)
    with pytest.raises(kind) as error:
        headers(RepoRef(str(model), model))
    assert str(error.value).count(str(model)) == 1
    assert said in str(error.value)


@pytest.fixture
def deep(tmp_path):
    return headers(RepoRef("org/model", tiny_llama(tmp_path / "deep", layers=LAYERS)))


def test_no_layer_is_read_twice_and_only_those_that_are_requested(deep, monkeypatch):
    reads, read, reading = Counter(), deep.checkpoint.read, LazySignature(deep, MLP, cached=False)
    monkeypatch.setattr(deep.checkpoint, "read", lambda name, *more: (reads.update([name]), read(name, *more))[1])
    assert reading.read([1, 3]).numbers("mlp") == (1, 3)
    assert {name.split(".")[2] for name in reads} == {"1", "3"}
    for layers in ([2], [2, 0], None, [1], None):
        reading.read(layers)
    assert set(reads.values()) == {1}
    assert len([name for name in reads if "down_proj" in name]) == LAYERS


@pytest.mark.parametrize("order", [[[3], [1], [0, 2]], [[0], None], [None], [[1, 2], [2, 3], None]])
def test_the_signature_is_the_same_in_whatever_order_it_was_read(deep, order):
    reading = LazySignature(deep, MLP, cached=False)
    for layers in order:
        reading.read(layers)
    assert encode(reading.read()) == encode(LazySignature(deep, MLP, cached=False).read())


def test_it_is_cached_once_where_it_is_to_be_and_not_before_all_layers_are_read(deep, monkeypatch):
    writes = []
    monkeypatch.setattr(cache, "write", lambda repo, factorization, signature: writes.append(signature.numbers("mlp")))
    LazySignature(deep, MLP, cached=False).read()
    reading = LazySignature(deep, MLP, cached=True)
    for layers in ([0], [1, 2]):
        reading.read(layers)
    assert writes == []
    for layers in ([3], None, [1]):
        reading.read(layers)
    assert writes == [tuple(range(LAYERS))]


def test_a_layer_or_a_path_that_cannot_be_read_names_the_model(deep, tmp_path):
    (deep.model_config.repo.folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"^org/model: .* cannot be read: No such file or directory"):
        LazySignature(deep, MLP, cached=False).read([0])
    subject = open_model(RepoRef("org/model", tiny_gpt2(tmp_path / "gpt2")), Options(paths=("mlp_gate",)))
    with pytest.raises(NothingToCompare, match=r"^org/model: gpt2 has no path mlp_gate; it has mlp, value_output"):
        subject.signature()


def test_the_last_sample_is_kept_and_no_other(deep, monkeypatch):
    taken, path = [], SimpleNamespace(corner=np.zeros((1, 1)))
    monkeypatch.setattr(model_module, "sample_path", lambda *given: taken.append(given) or path)
    monkeypatch.setattr(LazySignature, "_build", lambda *_: object())
    reading = LazySignature(deep, MLP, cached=False)
    first, again, other, last = (reading.sample(("mlp",), (0, 1), Sample(seed)) for seed in (0, 0, 1, 0))
    assert [one is first for one in (again, other, last)] == [True, False, False]
    assert len(taken) == 3
