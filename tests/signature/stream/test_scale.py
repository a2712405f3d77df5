"""The stream is measured from a few rows: what the embedding begins it with, and what the other branches add to it."""

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from hf_lineage.checking.source.lazy_signature import stream_of
from hf_lineage.checking.source.naming import locate
from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.stream import drawn_parts
from hf_lineage.signature.stream import scale as stream
from hf_lineage.signature.writers import LARGEST
from tests.checkpoint.formats.test_mlx import released
from tests.decoys import made
from tests.gguf_models import KINDS, write
from tests.models import EXAMPLES, WEIGHTS, tiny_llama

LLAMA, GPT2, GEMMA, GRANITE, BERT, BLOOM, DEEPSEEK, MIXTRAL = (
    "LlamaForCausalLM",
    "GPT2LMHeadModel",
    "GemmaForCausalLM",
    "GraniteForCausalLM",
    "BertForMaskedLM",
    "BloomForCausalLM",
    "DeepseekV3ForCausalLM",
    "MixtralForCausalLM",
)


def streams(folder, seeds=range(12), path="mlp", layer=1):
    """The median of what streams that read other rows say: how it begins, and what stands beside a path."""
    model = headers(resolve(str(folder)))
    return np.median([stream_of(model, seed).joins(path, (layer,))[0, :2] for seed in seeds], axis=0)


def scaled(folder, name, size):
    """A folder in which the tensors of a name are so many times as large."""
    tensors = load_file(folder / WEIGHTS)
    chosen = [key for key in tensors if key.endswith((name, f"{name}.weight"))]
    assert chosen
    save_file({key: value * (size if key in chosen else 1) for key, value in tensors.items()}, folder / WEIGHTS)
    return folder


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0"])
def test_a_converted_file_has_the_stream_of_the_model_it_was_made_from(tmp_path, kind):
    """Rows that have to be decoded are read alone as others are."""
    base = EXAMPLES / "acme/llama-base"
    file = write(base, tmp_path / "model.gguf", kind=getattr(KINDS, kind))
    plain, converted = (headers(locate(str(name))) for name in (base, file))
    layers = range(6)
    one, other = (stream_of(model, 0).joins("mlp", layers)[:, :2] for model in (plain, converted))
    assert other == pytest.approx(one, rel=0.02)
    assert one.min() > 0


def test_rows_of_several_parts_are_read_alone_as_well(tmp_path, monkeypatch):
    """Those of MLX, however large the matrix is."""
    for module in (stream, drawn_parts):
        monkeypatch.setattr(module, "MOST_DECODED", 0)
    base = tiny_llama(tmp_path / "base", layers=4, width=64)
    packed = released(base, tmp_path / "packed", bits=8)
    assert headers(resolve(str(packed))).checkpoint.rows("model.embed_tokens.weight") is None
    one, other = (stream_of(headers(resolve(str(name))), 0).joins("mlp", range(4))[:, :2] for name in (base, packed))
    assert other == pytest.approx(one, rel=0.02)
    assert one.min() > 0


def test_an_embedding_that_is_not_finite_is_as_loud_as_can_be(tmp_path):
    assert streams(scaled(made(LLAMA, {}, tmp_path).a, "embed_tokens", np.inf))[0] == LARGEST


def test_attention_that_is_louder_is_seen_to_be(tmp_path):
    folder = made(LLAMA, {}, tmp_path).a
    before = streams(folder)[1]
    assert streams(scaled(folder, "o_proj", 1e4))[1] == pytest.approx(1e4 * before, rel=1e-3)


@pytest.mark.parametrize("loud", range(4))
def test_attention_that_is_loud_in_one_layer_is_seen_whatever_is_drawn(loud, tmp_path):
    folder = scaled(tiny_llama(tmp_path, layers=4, width=64), f"{loud}.self_attn.o_proj", 1e4)
    model = headers(resolve(str(folder)))
    for seed in range(12):
        beside = stream_of(model, seed).joins("mlp", range(4))[:, 1]
        assert np.flatnonzero(beside > 1e3 * np.median(beside)).tolist() == [loud]


@pytest.mark.parametrize(
    ("name", "wanted", "factor"), [(LLAMA, {}, 1), (GEMMA, {}, 32**0.5), (GRANITE, {"embedding_multiplier": 12.0}, 12)]
)
def test_a_stream_begins_with_the_embedding_times_what_the_class_multiplies_it_with(name, wanted, factor, tmp_path):
    folder = made(name, wanted, tmp_path).a
    rows = load_file(folder / WEIGHTS)["model.embed_tokens.weight"]
    begins, _ = streams(folder)
    assert begins == pytest.approx(factor * float(rows.norm(dim=1).median()), rel=0.25)


def test_a_few_loud_tokens_and_rows_that_are_not_numbers_change_nothing(tmp_path):
    folder = made(LLAMA, {"vocab_size": 512}, tmp_path).a
    before = streams(folder)[0]
    tensors = load_file(folder / WEIGHTS)
    tensors["model.embed_tokens.weight"][::16] = 1e30
    tensors["model.embed_tokens.weight"][1::16] = float("nan")
    save_file(tensors, folder / WEIGHTS)
    assert streams(folder)[0] == pytest.approx(before, rel=0.25)


@pytest.mark.parametrize(
    ("name", "norm", "wanted"),
    [(BERT, "attention.output.LayerNorm", {}), (BLOOM, "word_embeddings_layernorm", {})],
)
def test_a_norm_on_the_stream_gives_it_the_size_of_its_gain(name, norm, wanted, tmp_path):
    folder = made(name, wanted, tmp_path).a
    before = streams(folder)[0]
    scaled(folder, "word_embeddings", 1e6)
    assert streams(folder)[0] == before
    assert streams(scaled(folder, norm, 1e3))[0] == pytest.approx(1e3 * before, rel=1e-4)
