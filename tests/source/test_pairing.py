"""Which tensor of the base each tensor of a model is, by names and shapes, and what only one of the two stores."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from hf_lineage.errors import CheckpointError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.headers import headers
from hf_lineage.source.pairing import pair_tensors
from tests import gguf_models
from tests.models import WEIGHTS, edit_json, spoil, tiny_gpt2, tiny_llama


def paired(base, candidate):
    return pair_tensors(*(headers(RepoRef(f"org/{folder.name}", folder)) for folder in (base, candidate)))


@pytest.fixture
def base(tmp_path):
    return tiny_llama(tmp_path / "base", width=64)


@pytest.fixture
def child(base, tmp_path):
    def write(change=lambda tensors: None, **config):
        folder = tiny_llama(tmp_path / "child", width=64)
        spoil(folder, change)
        edit_json(folder / "config.json", **config)
        return folder

    return write


def rename(old, new):
    def change(tensors):
        tensors[new] = tensors.pop(old)

    return change


def test_every_tensor_of_a_copy_has_its_counterpart(base, child):
    pairing = paired(base, child())
    assert len(pairing.pairs) == len(load_file(base / WEIGHTS))
    assert all(name == other for name, other in pairing.pairs)
    assert (pairing.added, pairing.lacking, pairing.settings) == ((), (), ())


def test_the_prefix_of_a_base_model_may_be_missing(tmp_path):
    base, bare = tiny_gpt2(tmp_path / "base"), tiny_gpt2(tmp_path / "bare")
    names = load_file(base / WEIGHTS)
    save_file({f"transformer.{name}": tensor for name, tensor in names.items()}, base / WEIGHTS)
    pairing = paired(base, bare)
    assert ("wte.weight", "transformer.wte.weight") in pairing.pairs
    assert (pairing.added, pairing.lacking) == ((), ())


def test_what_only_one_of_them_has_is_named(base, child):
    pairing = paired(base, child(rename("model.norm.weight", "model.extra.weight")))
    assert (pairing.added, pairing.lacking) == (("model.extra.weight",), ("model.norm.weight",))


@pytest.mark.parametrize("name", ["extra.weight", "up_proj.bias", "up_proj.extra"])
def test_a_tensor_that_the_class_does_not_build_counts_as_added(base, child, name):
    added = f"model.layers.0.mlp.{name}"
    assert paired(base, child(lambda tensors: tensors.update({added: torch.ones(2)}))).added == (added,)


def test_a_head_that_is_tied_says_nothing_and_one_that_is_not_is_held_against_the_embedding(base, child):
    def tie(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    tied = child(tie)
    assert paired(tied, base).copies == ("lm_head.weight is the embedding, to which it is tied",)
    assert ("lm_head.weight", "model.embed_tokens.weight") in paired(base, tied).pairs
    edit_json(tied / "config.json", tie_word_embeddings=False)
    edit_json(base / "config.json", tie_word_embeddings=False)
    assert paired(tied, base).lacking == ("lm_head.weight",)
    assert paired(base, tied).added == ("lm_head.weight",)


def test_positions_and_biases_of_zeros_say_nothing(base, child):
    def change(tensors):
        tensors["model.position_ids"] = torch.arange(9)[None]
        tensors["lm_head.bias"] = torch.zeros(4)

    pairing = paired(base, child(change))
    assert pairing.added == ()
    assert set(pairing.copies) == {"model.position_ids is a list of positions", "lm_head.bias is a bias of zeros"}


def test_other_positions_and_other_biases_are_named(base, child):
    def change(tensors):
        tensors["model.position_ids"] = torch.arange(9).flip(0)
        tensors["lm_head.bias"] = torch.ones(4)

    assert set(paired(base, child(change)).added) == {"model.position_ids", "lm_head.bias"}


def test_two_names_of_one_tensor_are_refused(base, child):
    def change(tensors):
        tensors["norm.weight"] = tensors["model.norm.weight"].clone()

    with pytest.raises(CheckpointError, match=r"has two tensors that are norm\.weight"):
        paired(base, child(change))


def test_numbers_of_32_bits_in_metadata_are_those_of_config_json(base, tmp_path):
    gguf_models.write(base, tmp_path / "gguf/model.gguf")
    pairing = paired(base, tmp_path / "gguf")
    assert not [setting for setting in pairing.settings if "eps" in setting]
    assert len(pairing.pairs) == len(load_file(base / WEIGHTS))


def test_tensors_outside_of_layers_have_other_names_in_gguf(tmp_path):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=64, num_attention_heads=4, num_hidden_layers=2, intermediate_size=96, vocab_size=100
    )
    base = tmp_path / "base"
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(base)
    gguf_models.write(base, tmp_path / "gguf/model.gguf", "bert")
    pairing = paired(base, tmp_path / "gguf")
    assert ("token_embd_norm.weight", "embeddings.LayerNorm.weight") in pairing.pairs
    assert (pairing.added, pairing.lacking) == ((), ())


@pytest.mark.parametrize(("change", "lone"), [(1.0, False), (1.01, True)])
def test_rotary_factors_that_a_converter_makes_of_the_configuration_say_nothing(base, child, change, lone):
    positions, low, high, factor, theta = 8192, 1.0, 4.0, 8.0, 500000.0
    scaling = {"factor": factor, "low_freq_factor": low, "high_freq_factor": high, "rope_type": "llama3"}
    scaling["original_max_position_embeddings"] = positions
    factors = []
    for frequency in 1 / theta ** (torch.arange(0, 16, 2, dtype=torch.float32) / 16):
        wave = 2 * torch.pi / frequency
        smooth = (positions / wave - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        factors.append(1.0 if wave < positions / high else factor if wave > positions / low else float(between))

    def add(tensors):
        tensors["rope_freqs.weight"] = change * torch.tensor(factors)

    edit_json(base / "config.json", rope_scaling=scaling, rope_theta=theta)
    pairing = paired(base, child(add, rope_scaling=scaling, rope_theta=theta))
    assert (pairing.added == ("rope_freqs.weight",)) == lone
    assert (pairing.copies == ()) == lone
    assert pairing.settings == ()
