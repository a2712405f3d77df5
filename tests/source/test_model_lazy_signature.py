"""Every layer of a model is read once, whatever is requested in which order, and the whole is cached once."""

from collections import Counter

import pytest

from hf_lineage.errors import CheckpointError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature import cache
from hf_lineage.signature.sample import Sample
from hf_lineage.signature.store import encode
from hf_lineage.source.headers import headers
from hf_lineage.source.model import LazySignature
from hf_lineage.source.options import Options
from tests.models import WEIGHTS, tiny_llama

LAYERS, MLP = 4, Options(paths=("mlp",))


@pytest.fixture
def model(tmp_path):
    return headers(RepoRef("org/model", tiny_llama(tmp_path / "model", layers=LAYERS)))


@pytest.fixture
def reads(model, monkeypatch):
    """How often each tensor is read."""
    counts, read = Counter(), model.checkpoint.read

    def counted(name, *arguments):
        counts[name] += 1
        return read(name, *arguments)

    monkeypatch.setattr(model.checkpoint, "read", counted)
    return counts


@pytest.fixture
def writes(monkeypatch):
    """What is cached."""
    cached = []
    monkeypatch.setattr(cache, "write", lambda repo, factorization, signature: cached.append(signature))
    return cached


def layers_of(signature):
    return signature.numbers("mlp")


def test_no_layer_is_read_twice(model, reads):
    reading = LazySignature(model, MLP, cached=False)
    for layers in ([2], [2, 0], None, [1], None):
        reading.read(layers)
    assert set(reads.values()) == {1}
    assert len([name for name in reads if "down_proj" in name]) == LAYERS


def test_only_the_layers_that_are_requested_are_read(model, reads):
    assert layers_of(LazySignature(model, MLP, cached=False).read([1, 3])) == (1, 3)
    assert {name.split(".")[2] for name in reads} == {"1", "3"}


@pytest.mark.parametrize("order", [[[3], [1], [0, 2]], [[0], None], [None], [[1, 2], [2, 3], None]])
def test_the_signature_is_the_same_in_whatever_order_it_was_read(model, order):
    reading = LazySignature(model, MLP, cached=False)
    for layers in order:
        reading.read(layers)
    assert encode(reading.read()) == encode(LazySignature(model, MLP, cached=False).read())


def test_it_is_cached_once_and_not_before_all_layers_are_read(model, writes):
    reading = LazySignature(model, MLP, cached=True)
    for layers in ([0], [1, 2]):
        reading.read(layers)
    assert writes == []
    for layers in ([3], None, [1]):
        reading.read(layers)
    assert [layers_of(signature) for signature in writes] == [tuple(range(LAYERS))]


def test_one_that_is_not_to_be_cached_is_not(model, writes):
    LazySignature(model, MLP, cached=False).read()
    assert writes == []


def test_a_layer_that_cannot_be_read_names_the_model(model):
    (model.described.repo.folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"^org/model: .* cannot be read: No such file or directory"):
        LazySignature(model, MLP, cached=False).read([0])


def test_the_last_sample_is_kept_and_no_other(model, monkeypatch):
    taken = []
    monkeypatch.setattr(LazySignature, "_sampled", lambda _self, *asked: taken.append(asked) or object())
    reading = LazySignature(model, MLP, cached=False)
    first = reading.sampled(("mlp",), (0, 1), Sample(0))
    assert reading.sampled(("mlp",), (0, 1), Sample(0)) is first
    assert reading.sampled(("mlp",), (0, 1), Sample(1)) is not first
    assert reading.sampled(("mlp",), (0, 1), Sample(0)) is not first
    assert len(taken) == 3
