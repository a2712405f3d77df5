"""Models in ONNX: a true descendant is RELATED, an independent one in the same clothes is not.

The names of an exported graph become those of the Hub, whatever wrapped the model; joined matrices are parted.
"""

import shutil
from functools import partial

import pytest

from hf_lineage import Options, compare
from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.opening import opened
from hf_lineage.checkpoint.foreign.forms import foreign_model
from hf_lineage.checkpoint.foreign.onnx.form import name_tensors
from hf_lineage.checkpoint.foreign.pieces import Piece, name_in_out, split_rows, strip_common_prefix
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests import onnx_models
from tests.conformance import tiny_model
from tests.invoking import lineage
from tests.long import first_of
from tests.models import EXAMPLES, card, family, fine_tuned
from tests.onnx_models import QUANTIZATIONS

LLAMA, GPT2, BERT, PHI3 = (
    lookup({"architectures": [name]})[1]
    for name in ("LlamaForCausalLM", "GPT2LMHeadModel", "BertModel", "Phi3ForCausalLM")
)
CONFIG = {"num_attention_heads": 4, "num_key_value_heads": 2}


def names(factorization, *stored, config=CONFIG, shape=(8, 4)):
    return [piece.name for piece in name_tensors(factorization, dict.fromkeys(stored, shape), config)]


@pytest.mark.parametrize("prefix", ["", "inner.", "model.0.auto_model.", "model."])
def test_what_wraps_the_model_is_taken_off_all_names(prefix):
    own = ["embeddings.word_embeddings.weight", "encoder.layer.0.intermediate.dense.weight", "pooler.dense.bias"]
    assert names(BERT, *(prefix + name for name in own)) == own


def test_a_prefix_that_not_all_names_have_is_part_of_them():
    assert names(LLAMA, "model.layers.0.mlp.up_proj.weight", "lm_head.weight")[0] == "model.layers.0.mlp.up_proj.weight"
    strange = ["a.layers.0.up.weight", "b.x.weight"]
    assert names(BERT, *strange) == strange
    assert names(BERT) == []


def test_names_that_onnx_runtime_shortens_are_whole_again():
    stored = [
        "model.layers.0.attn.q_proj.weight",
        "model.layers.0.attn.o_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
    ]
    assert names(LLAMA, *stored) == [name.replace(".attn.", ".self_attn.") for name in stored]
    assert names(GPT2, "transformer.h.0.attn.c_proj.weight") == ["transformer.h.0.attn.c_proj.weight"]


def test_queries_keys_and_values_in_one_matrix_are_split_rows():
    found = [*name_tensors(LLAMA, {"model.layers.1.attn.qkv_proj.weight": (16, 8)}, CONFIG)]
    stored = "model.layers.1.attn.qkv_proj.weight"
    assert found == [
        Piece("model.layers.1.self_attn.q_proj.weight", stored, (0, 8)),
        Piece("model.layers.1.self_attn.k_proj.weight", stored, (8, 12)),
        Piece("model.layers.1.self_attn.v_proj.weight", stored, (12, 16)),
    ]
    assert names(PHI3, stored) == ["model.layers.1.self_attn.qkv_proj.weight"]


@pytest.mark.parametrize("config", [{}, {"num_attention_heads": "4"}, {"num_attention_heads": True}])
def test_without_heads_nothing_is_split_rows(config):
    with pytest.raises(NothingToCompare, match="counts the heads of attention as"):
        names(LLAMA, "model.layers.1.attn.qkv_proj.weight", config=config)


@pytest.mark.parametrize(
    ("rows", "heads", "groups"), [(10, 4, 2), (8, 0, 0), (8, 2, 4), (8, -4, -2), (2**20, 2**19, 1)]
)
def test_rows_that_are_not_those_heads_are_refused(rows, heads, groups):
    with pytest.raises(NothingToCompare):
        list(split_rows(rows, heads, groups))


def test_what_transformers_stores_the_other_way_is_turned():
    assert name_in_out(LLAMA) == frozenset()
    assert name_in_out(GPT2) == {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    shapes = {"h.0.mlp.c_fc.weight": (16, 4), "h.0.mlp.c_fc.bias": (16,), "wte.weight": (50, 4)}
    assert [piece.turned for piece in name_tensors(GPT2, shapes, {})] == [True, False, False]


def test_what_all_names_begin_with_is_taken_off_for_a_suggestion():
    assert [*strip_common_prefix({"a.b.c.weight": (1,), "a.b.d.weight": (1,)})] == ["c.weight", "d.weight"]
    assert [*strip_common_prefix({"a.weight": (1,), "b.weight": (1,)})] == ["a.weight", "b.weight"]
    assert strip_common_prefix({}) == {}


ALL = Options(paths=("mlp", "value_output", "query_key"), seed=0)
BASES = {"llama": EXAMPLES / "acme/llama-base", "gpt2": EXAMPLES / "acme/gpt2-base"}
CHILDREN = {"llama": EXAMPLES / "fern/llama-finetune-a", "gpt2": EXAMPLES / "fern/gpt2-finetune-a"}
OTHER_QUANTIZATIONS = [("llama", how) for how in QUANTIZATIONS if how not in ("8 bits", "4 bits")]
LEAST = {4: 0.97, 8: 0.999}
"""Bits -> the score against what was quantized."""


def verdict(base, candidate, options=ALL):
    return compare(str(base), str(candidate), options).rows[0].verdict


def scores(outcome):
    return {path: evidence.comparison.score for path, evidence in outcome.evidence.items()}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Models as ONNX, by name and exporter: the file of each, beside its configuration."""
    made = {}

    def graph(name, dynamo=False):
        if (name, dynamo) not in made:
            source = {"bert base": None, "independent": EXAMPLES / "otter/llama-independent", **CHILDREN}.get(name)
            folder = tmp_path_factory.mktemp("onnx")
            if name.startswith("bert"):
                base = onnx_models.bert(folder / "base", seed=5 if "independent" in name else 0)
                source = fine_tuned(base, folder / "child") if "child" in name else base
            shutil.copy(source / "config.json", folder / "config.json")
            made[name, dynamo] = (source, onnx_models.exported(source, folder / "model.onnx", dynamo))
        return made[name, dynamo]

    return graph


def again(file, target, how):
    """The same model stored in another way, in a folder of its own beside its configuration."""
    target.mkdir()
    shutil.copy(file.parent / "config.json", target)
    return how(file, target / "model.onnx")


@pytest.mark.parametrize(
    ("name", "dynamo"),
    first_of(
        {
            **{"llama, TorchScript": ("llama", False), "gpt2, dynamo": ("gpt2", True)},
            **{"llama, dynamo": ("llama", True), "gpt2, TorchScript": ("gpt2", False)},
        }
    ),
)
def test_a_descendant_exported_by_pytorch_is_related(name, dynamo, graphs):
    source, file = graphs(name, dynamo)
    outcome = verdict(BASES[name], file)
    assert outcome.code == "inherited"
    assert min(scores(outcome).values()) > 0.95
    assert min(scores(verdict(source, file)).values()) > 0.99999


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "how"),
    first_of([*[(name, how) for how in ("8 bits", "4 bits") for name in CHILDREN], *OTHER_QUANTIZATIONS], count=2),
)
def test_a_descendant_quantized_by_onnx_runtime_is_related(name, how, graphs, tmp_path):
    source, file = graphs(name)
    bits, quantize = QUANTIZATIONS[how]
    stored = again(file, tmp_path / "child", quantize)
    outcome = verdict(BASES[name], stored)
    assert outcome.code == "inherited"
    itself = scores(verdict(source, stored))
    assert min(itself.values()) > LEAST[bits], itself


def test_an_independent_graph_is_unrelated(graphs):
    _, file = graphs("independent")
    assert verdict(BASES["llama"], file).code == "unrelated"


@pytest.mark.parametrize("dynamo", first_of({"TorchScript": False, "dynamo": True}))
def test_an_encoder_is_related_to_its_base_and_another_one_is_not(dynamo, graphs, tmp_path):
    base, _ = graphs("bert base")
    _, child = graphs("bert child", dynamo)
    _, other = graphs("bert independent")
    assert verdict(base, child).code == "inherited"
    assert verdict(base, other).code == "unrelated"
    eight = again(child, tmp_path / "eight", partial(onnx_models.dynamic, kind="QUInt8"))
    assert verdict(base, eight).code == "inherited"


def test_matrices_without_any_name_are_found_through_their_biases(graphs, tmp_path):
    base, _ = graphs("bert base")
    for name, expected in (("bert child", "inherited"), ("bert independent", "unrelated")):
        _, file = graphs(name)
        bare = again(
            file, tmp_path / name, lambda source, target: onnx_models.changed(source, target, onnx_models.bare)
        )
        assert verdict(base, bare).code == expected


def test_matrices_whose_place_nothing_tells_are_not_guessed(graphs, tmp_path):
    _, file = graphs("llama")
    bare = again(file, tmp_path / "bare", lambda source, target: onnx_models.changed(source, target, onnx_models.bare))
    outcome = verdict(BASES["llama"], bare)
    assert outcome.code == "unsupported"
    assert "43 matrices whose place in the model is unknown;" in outcome.reason


def test_a_graph_without_a_configuration_is_read_as_the_class_that_the_user_names(graphs, tmp_path):
    base, _ = graphs("bert base")
    _, file = graphs("bert child")
    alone = shutil.copy(file, tmp_path / "model.onnx")
    outcome = verdict(base, alone)
    assert outcome.code == "unsupported"
    assert "--as BertModel" in outcome.reason
    assert foreign_model(RepoRef("x", tmp_path)).config() == dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads"), 4
    )
    assert verdict(base, alone, Options(paths=ALL.paths, seed=0, as_class="BertModel")).code == "inherited"


@pytest.mark.long
def test_a_repository_of_graphs_is_checked_by_the_most_precise_one(graphs, tmp_path, monkeypatch):
    hub = family(tmp_path / "hub")
    source, file = graphs("llama")
    model = hub / "fern/onnx"
    (model / "onnx").mkdir(parents=True)
    shutil.copy(file, model / "onnx/model.onnx")
    onnx_models.dynamic(file, model / "onnx/model_quantized.onnx")
    shutil.copy(source / "config.json", model)
    shutil.copytree(BASES["llama"], hub / "acme/llama")
    card(model, "acme/llama", "quantized")
    plain = lineage("check", "fern/onnx", "--local-hub", hub)
    assert (plain.code, "VERIFIED" in plain.out) == (0, True)
    assert "onnx/model.onnx was read, the most precise" in " ".join(plain.out.split())
    chosen = lineage("check", "fern/onnx", "--local-hub", hub, "--file", "onnx/model_quantized.onnx")
    assert "onnx/model_quantized.onnx was read, as it was named" in " ".join(chosen.out.split())
    missing = lineage("check", "fern/onnx", "--local-hub", hub, "--file", "onnx/model_q4.onnx")
    assert (missing.code, "has no file onnx/model_q4.onnx" in missing.error) == (2, True)


def test_what_leads_to_no_output_of_the_graph_does_not_count(graphs, tmp_path):
    """Matrices of the base that are stored, or multiplied with, beside the model do not make it a descendant."""
    _, base = graphs("bert base")
    _, other = graphs("bert independent")
    for how in (onnx_models.beside, onnx_models.in_a_dead_branch):
        decoy = again(other, tmp_path / how.__name__, lambda source, target, how=how: how(source, base, target))
        assert verdict(graphs("bert base")[0], decoy).code == "unrelated"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "settings", "encoder", "decoder"),
    [
        ("BartForConditionalGeneration", {}, "model.encoder.", "model.decoder."),
        ("T5ForConditionalGeneration", {"feed_forward_proj": "relu"}, "encoder.", "decoder."),
    ],
)
def test_an_encoder_and_its_decoder_in_two_files_are_one_model(name, settings, encoder, decoder, tmp_path):
    """The encoder is exported by itself, so nothing stands before its names; the decoder is within the model."""
    tiny_model(name, settings).save_pretrained(tmp_path / "base")
    child = fine_tuned(tmp_path / "base", tmp_path / "child")
    repo = tmp_path / "graphs"
    onnx_models.written(child, repo / "onnx/encoder_model.onnx", within=encoder)
    onnx_models.written(child, repo / "onnx/decoder_model_merged.onnx", within=decoder, before=decoder)
    shutil.copy(child / "config.json", repo)
    outcome = verdict(tmp_path / "base", repo)
    assert outcome.code == "inherited", outcome.reason
    itself, original = (opened(described(RepoRef("x", folder))) for folder in (repo, child))
    assert itself.layout.widths == original.layout.widths
    assert "onnx/encoder_model.onnx is a graph;" in itself.notes[-1]
