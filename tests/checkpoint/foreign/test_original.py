"""Makers' files: `params.json` as a configuration, and every name of a Llama and of a Mixtral as on the Hub's disk."""

import json

import numpy as np
import pytest

from hf_lineage import Options, compare
from hf_lineage.architecture.layers import named_tensors
from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.checkpoint.foreign.forms import foreign_model
from hf_lineage.checkpoint.foreign.original import config_of, name_tensors
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.models import WEIGHTS, edit_json, fine_tuned, tiny_llama
from tests.published.steps import makers_names, makers_parameters, makers_parts

SEVEN = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "hidden_dim": 14336, "norm_eps": 1e-5}
MISTRAL = SEVEN | {"vocab_size": 32768, "head_dim": 128, "rope_theta": 1e6, "sliding_window": None}
LLAMA = {"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-6, "vocab_size": -1}
LLAMA_3 = LLAMA | {"n_kv_heads": 8, "ffn_dim_multiplier": 1.3, "rope_theta": 500000.0, "use_scaled_rope": True}
MIXTRAL = MISTRAL | {"moe": {"num_experts": 8, "num_experts_per_tok": 2}}


@pytest.mark.parametrize("params", [MISTRAL, LLAMA, LLAMA_3, MISTRAL | {"model_type": "transformer"}])
def test_the_published_parameters_of_language_models_are_those_of_a_llama(params):
    config = config_of(params)
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]) == (4096, 32, 32)
    assert lookup(config)[1].name == "llama"


def test_experts_make_it_a_mixtral():
    config = config_of(MIXTRAL)
    assert lookup(config)[1].name == "mixtral"
    assert (config["num_local_experts"], config["num_experts_per_tok"]) == (8, 2)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"vision_encoder": {"hidden_size": 1024}}, "vision_encoder"),
        ({"q_lora_rank": 1536}, "q_lora_rank"),
        ({"quantization": {"qformat_weight": "fp8_e4m3"}}, "quantization"),
        ({"model_type": "mamba"}, "model_type"),
        ({"vision_encoder": "transformer"}, "vision_encoder"),
        ({"::error::": 1}, r":\x3aerror:\x3a"),
    ],
)
def test_what_is_more_than_the_layers_of_a_language_model_is_refused(more, key):
    with pytest.raises(NothingToCompare) as caught:
        config_of(MISTRAL | more)
    assert str(caught.value).startswith(f"params.json says `{key}`, but a language model has fewer layers")


def test_what_is_no_number_is_left_out():
    config = config_of(MISTRAL | {"dim": "4096", "moe": 7, "n_heads": [32]})
    assert not {"hidden_size", "num_attention_heads", "num_local_experts"} & config.keys()
    assert json.dumps(config)


def test_every_tensor_of_a_layer_gets_the_name_that_the_factorization_has():
    for params, theirs in (
        (LLAMA, ["feed_forward.w1", "feed_forward.w2", "feed_forward.w3"]),
        (MIXTRAL, ["feed_forward.gate", *(f"feed_forward.experts.3.w{number}" for number in (1, 2, 3))]),
    ):
        theirs += [*(f"attention.w{role}" for role in "qkvo"), "attention_norm", "ffn_norm"]
        wanted = {name for name in named_tensors(lookup(config_of(params))[1]) if "{layer}" not in name}
        found = {named.name for named in name_tensors(f"layers.11.{name}.weight" for name in theirs)}
        start = "model.layers.11."
        assert {
            name.removeprefix(start).removesuffix(".weight").replace(".3.", ".{expert}.") for name in found
        } <= wanted
        assert {named.stored for named in name_tensors(["layers.11.attention.wq.weight"])} == {
            "layers.11.attention.wq.weight"
        }


def test_only_queries_and_keys_are_in_another_order():
    assert {named.undo for named in name_tensors(["layers.0.attention.wq.weight", "layers.7.attention.wk.weight"])} == {
        "rotated"
    }
    assert {named.undo for named in name_tensors(["layers.0.attention.wv.weight", "output.weight", "norm.weight"])} == {
        None
    }


@pytest.mark.parametrize(
    "name", ["rope.freqs", "layers.0.x.weight", "layers.9999999.attention.wq.weight", "", "weight"]
)
def test_a_name_that_is_not_known_is_kept(name):
    (named,) = name_tensors([name])
    assert (named.name, named.undo) == (name, None)


def made(folder):
    makers_names(folder)
    makers_parameters(folder)
    return folder


def renamed(repo):
    model = foreign_model(repo)
    return model.rename(lookup(model.config())[1], {}, open_checkpoint(repo))


@pytest.fixture
def repo(tmp_path):
    return RepoRef("org/model", made(tiny_llama(tmp_path / "model")))


def test_every_tensor_is_that_of_transformers(repo, tmp_path):
    plain = open_checkpoint(RepoRef("org/plain", tiny_llama(tmp_path / "plain")))
    found = renamed(repo)
    assert found.shapes == plain.shapes
    for name in plain.tensors:
        np.testing.assert_array_equal(found.read(name), plain.read(name), err_msg=name)


def test_a_repository_with_a_configuration_is_as_it_was(tmp_path):
    repo = RepoRef("org/model", tiny_llama(tmp_path))
    (tmp_path / "params.json").write_text("{}")
    (tmp_path / "consolidated.safetensors").write_bytes((tmp_path / WEIGHTS).read_bytes())
    assert foreign_model(repo) is None


def test_the_descendant_is_related_along_every_path_and_an_independent_model_is_not(tmp_path):
    base = tiny_llama(tmp_path / "base")
    child = made(fine_tuned(base, tmp_path / "child"))
    other = made(tiny_llama(tmp_path / "other", seed=5))
    options = Options(order_seed=0, paths=("mlp", "value_output", "query_key"))
    (row,) = compare(str(base), str(child), options).rows
    assert {path: one.name for path, one in row.verdict.by_path.items()} == dict.fromkeys(options.paths, "RELATED")
    assert compare(str(base), str(other), options).rows[0].verdict.name == "UNRELATED"


@pytest.mark.parametrize("count", [0.5, -4, "4", [4], 2**40, True])
def test_heads_that_are_no_number_are_damage(repo, count):
    edit_json(repo.folder / "params.json", n_heads=count)
    with pytest.raises(CheckpointError, match="not a number of heads; do not trust it"):
        renamed(repo)


def test_heads_that_do_not_fit_are_damage(repo):
    edit_json(repo.folder / "params.json", n_heads=7)
    with pytest.raises(CheckpointError, match="has 32 rows, which do not make 7 heads"):
        renamed(repo)


def test_parts_for_several_gpus_are_named(tmp_path):
    makers_parts(tiny_llama(tmp_path))
    with pytest.raises(NothingToCompare, match=r"cut into 2 parts \(consolidated\.00\.pth and others\)"):
        foreign_model(RepoRef("org/model", tmp_path, allow_pickle=True)).config()
