"""Settings and tensors in which two models of one class differ, and what stands beside those of the class."""

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from hf_lineage import Options, compare, extract
from hf_lineage.architecture import class_tensors
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence import evaluate
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source import differences
from hf_lineage.source.differences import differing_settings, pair_tensors
from hf_lineage.source.headers import headers
from tests import gguf_models
from tests.checkpoint.formats.test_compressed_tensors import INT, compressed, settings
from tests.conformance.models import tiny_model
from tests.models import WEIGHTS, edit_json, spoil, tiny_gpt2, tiny_llama
from tests.quantizing import BASE, repacked

UP, WINDOW = "layers.0.mlp.up_proj", "llama.attention.sliding_window"
FREQUENCIES = {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}
EIGHT = {"num_bits": 8, "strategy": "channel"}
ONLY_HERE = [
    ({"rope_scaling": {"rope_type": "linear", "factor": 64.0}}, "rope_parameters.factor is 64.0"),
    ({"rope_theta": 5.0}, "rope_theta is 5.0, and 10000.0 in the base"),
    ({"sliding_window": 1}, "sliding_window is 1, and the base has no such setting"),
    ({"rms_norm_eps": 1e-2}, "rms_norm_eps is 0.01, and 1e-06 in the base"),
    ({"made_up": 3}, "made_up is 3, and the base has no such setting"),
    ({"image_token_id": 7}, "image_token_id is 7"),
    ({"pad_token_id": 5}, "pad_token_id is 5"),
    ({"made_up": False}, "made_up is false, and the base has no such setting"),
    ({"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}, 'id2label.0 is "NEGATIVE", and "LABEL_0" in the base'),
    # The class cannot be asked about these, which are compared as they are.
    ({"num_labels": 10**12}, "num_labels"),
    ({"rope_parameters": [3]}, "rope_parameters"),
    ({"attention_types": [[["a"], 10**12]]}, "attention_types"),
]
POSITIONS = [
    ({}, {}, ()),
    ({"llama.rope.freq_base": 5.0}, {}, ("rope_theta is 5.0, and 10000.0 in the base",)),
    ({}, FREQUENCIES, ("rope_theta is 10000.0, and 500000.0 in the base",)),
    ({"llama.rope.scaling.factor": 64.0}, {}, ("factor is 64.0, and the base has no such setting",)),
    ({WINDOW: 1}, {}, ("sliding_window is 1, and the base has no such setting",)),
    ({WINDOW: 0}, {}, ()),
    ({WINDOW: 0}, {"sliding_window": None}, ()),
    ({WINDOW: 0}, {"sliding_window": 64}, ("sliding_window is 0, and 64 in the base",)),
]


def opened(*folders):
    return [headers(RepoRef(f"org/{folder.name}", folder)) for folder in folders]


def differing(base, candidate):
    return differing_settings(*opened(base, candidate))


def paired(base, candidate):
    return pair_tensors(*opened(base, candidate))


def add(**tensors):
    """A change that adds tensors, in whose names `__` stands for a dot."""
    return lambda stored: stored.update({name.replace("__", "."): one.clone() for name, one in tensors.items()})


def rewrite(folder, without=(), **config):
    """Take some settings out of a configuration, and put others into it, of which a null stays there."""
    kept = json.loads((folder / "config.json").read_text())
    left = {key: value for key, value in kept.items() if key not in without}
    (folder / "config.json").write_text(json.dumps(left | config))


@pytest.fixture
def base(tmp_path):
    return tiny_llama(tmp_path / "base", width=64)


@pytest.fixture
def child(base, tmp_path):
    """Writes a copy of the base after a change of its tensors, without some settings and with others."""

    def write(change=None, without=(), **config):
        folder = shutil.copytree(base, tmp_path / "child")
        rewrite(folder, without, **config)
        return spoil(folder, change) if change else folder

    return write


@pytest.mark.parametrize(("config", "said"), ONLY_HERE)
def test_a_setting_that_only_the_model_has_counts_unless_its_class_says_the_same(base, child, config, said):
    assert any(one.startswith(said) for one in differing(base, child(**config)))


def test_only_what_the_class_would_say_otherwise_counts_where_one_leaves_it_out(base, child):
    """What an older version wrote is what this one writes."""
    old = {"rope_theta": 10000.0, "rope_scaling": None, "pretraining_tp": 1, "torch_dtype": "float32", "max_length": 20}
    other = child(without=("rope_parameters", "head_dim", "attention_bias", "mlp_bias", "dtype"), **old)
    assert differing(base, other) == differing(other, base) == ()
    edit_json(base / "config.json", rope_parameters={"rope_type": "linear", "factor": 8.0}, rms_norm_eps=1e-4)
    for key in ("rope_parameters", "rms_norm_eps"):
        shutil.copy(base / "config.json", other)
        rewrite(other, without=(key,))
        assert differing(base, other)


@pytest.mark.parametrize("value", [False, None])
def test_what_the_base_leaves_to_its_class_is_held_against_what_the_class_says(value, tmp_path):
    base = tiny_gpt2(tmp_path / "base")
    copy = shutil.copytree(base, tmp_path / "copy")
    rewrite(copy, scale_attn_weights=value)
    assert differing(base, copy)[0] == f"scale_attn_weights is {json.dumps(value)}, and true in the base"
    gguf_models.write(base, tmp_path / "gguf/model.gguf", "gpt2")  # which needs no base of frequencies
    assert differing(base, tmp_path / "gguf") == ()


def test_who_saved_a_model_says_nothing_and_code_of_the_repository_differs(base, child, monkeypatch):
    folder = child(use_cache=False, unsloth_version="1", left_out=None, _name_or_path="x")
    assert differing(base, folder) == ()
    rewrite(folder, auto_map={"AutoModel": "code.Model"})
    assert differing(base, folder) == ("auto_map names code of the repository that the base does not have",)
    monkeypatch.setattr(differences, "find_spec", lambda name: None)
    rewrite(folder, without=("auto_map", "use_cache", "unsloth_version", "left_out"), made_up=3)
    only, why = differing(base, folder)
    assert only == "made_up is 3, and the base has no such setting"
    assert ("without transformers" in why, "pip install" in why) == (True, True)


@pytest.mark.parametrize(("said", "config", "expected"), POSITIONS)
def test_metadata_of_gguf_that_change_positions_are_held_against_the_base(base, tmp_path, said, config, expected):
    """Where they leave out the base of frequencies they mean that of llama.cpp, and a window of 0 is none."""
    gguf_models.write(base, tmp_path / "gguf/model.gguf", said=said)
    rewrite(base, **config)
    assert differing(base, tmp_path / "gguf") == expected


def test_every_tensor_of_a_copy_and_of_one_in_gguf_has_its_counterpart(base, child, tmp_path):
    """Numbers of 32 bits in metadata are those of config.json."""
    gguf_models.write(base, tmp_path / "gguf/model.gguf")
    pairing, of_gguf = paired(base, child()), paired(base, tmp_path / "gguf")
    assert len(pairing.pairs) == len(of_gguf.pairs) == len(load_file(base / WEIGHTS))
    assert all(name == other for name, other in pairing.pairs)
    assert (pairing.added, pairing.lacking, pairing.settings) == ((), (), ())
    assert not [setting for setting in of_gguf.settings if "eps" in setting]


def test_a_prefix_may_be_missing_and_gguf_has_other_names_outside_of_layers(tmp_path):
    base, bare = tiny_gpt2(tmp_path / "base"), tiny_gpt2(tmp_path / "bare")
    spoil(base, lambda tensors: [tensors.update({f"transformer.{key}": tensors.pop(key)}) for key in [*tensors]])
    pairing = paired(base, bare)
    assert ("wte.weight", "transformer.wte.weight") in pairing.pairs
    assert (pairing.added, pairing.lacking) == ((), ())
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96}
    model = transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=100), add_pooling_layer=False)
    model.save_pretrained(tmp_path / "base")
    gguf_models.write(tmp_path / "base", tmp_path / "gguf/model.gguf", "bert")
    pairing = paired(tmp_path / "base", tmp_path / "gguf")
    assert ("token_embd_norm.weight", "embeddings.LayerNorm.weight") in pairing.pairs
    assert (pairing.added, pairing.lacking) == ((), ())


@pytest.mark.parametrize("name", ["x.weight", "layers.0.mlp.x.weight", f"{UP}.bias", f"{UP}.x"])
def test_what_only_one_of_them_has_is_named_also_where_the_class_does_not_build_it(base, child, name):
    pairing = paired(base, child(lambda tensors: tensors.update({f"model.{name}": tensors.pop("model.norm.weight")})))
    assert (pairing.added, pairing.lacking) == ((f"model.{name}",), ("model.norm.weight",))


def test_a_head_that_is_tied_says_nothing_and_another_is_held_against_the_embedding(base, child):
    tied = child(add(lm_head__weight=load_file(base / WEIGHTS)["model.embed_tokens.weight"]))
    assert paired(tied, base).copies == ("lm_head.weight is the embedding, to which it is tied",)
    assert ("lm_head.weight", "model.embed_tokens.weight") in paired(base, tied).pairs
    for folder in (tied, base):
        edit_json(folder / "config.json", tie_word_embeddings=False)
    assert paired(tied, base).lacking == paired(base, tied).added == ("lm_head.weight",)


def test_positions_and_biases_of_zeros_say_nothing_and_others_are_told(base, child):
    folder = child(add(model__position_ids=torch.arange(9)[None], lm_head__bias=torch.zeros(4)))
    pairing = paired(base, folder)
    assert pairing.added == ()
    assert set(pairing.copies) == {"model.position_ids is a list of positions", "lm_head.bias is a bias of zeros"}
    spoil(folder, add(model__position_ids=torch.arange(9).flip(0), lm_head__bias=torch.ones(4)))
    assert set(paired(base, folder).added) == {"model.position_ids", "lm_head.bias"}
    twice = spoil(folder, add(norm__weight=torch.ones(64)))
    with pytest.raises(CheckpointError, match=r"has two tensors that are norm\.weight"):
        paired(base, twice)


@pytest.mark.parametrize(("change", "lone"), [(1.0, False), (1.01, True)])
def test_rotary_factors_that_a_converter_makes_of_the_configuration_say_nothing(base, child, change, lone):
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3"}
    scaling["original_max_position_embeddings"] = 8192
    edit_json(base / "config.json", rope_scaling=scaling, rope_theta=500000.0)
    config = transformers.LlamaConfig(head_dim=16, rope_parameters={**scaling, "rope_theta": 500000.0})
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    factors = 1 / 500000.0 ** (torch.arange(0, 16, 2) / 16) / scaled
    pairing = paired(base, child(add(rope_freqs__weight=change * factors)))
    assert (pairing.added == ("rope_freqs.weight",), pairing.copies == (), pairing.settings) == (lone, lone, ())


def logits(folder):
    with torch.no_grad():
        return transformers.MBartForCausalLM.from_pretrained(folder).eval()(torch.arange(3, 11)[None]).logits


def replace_norms(tensors):
    """Add a second name of every norm of the decoder's MLPs, under which it is 0."""
    for name in [name for name in tensors if "model.decoder" in name and ".final_layer_norm." in name]:
        tensors[name.removeprefix("model.")] = torch.zeros_like(tensors[name])


def make_noise(tensors):
    for name in [name for name in tensors if ".fc" in name and "decoder" in name and name.endswith("weight")]:
        tensors[name] = torch.randn(tensors[name].shape)


def test_a_second_name_with_which_the_loader_replaces_a_norm_verifies_nothing(tmp_path, monkeypatch):
    torch.manual_seed(0)
    base = tmp_path / "base"
    tiny_model("MBartForCausalLM", {}).save_pretrained(base)
    spoil(base, lambda tensors: [bias.zero_() for name, bias in tensors.items() if name.endswith(".fc1.bias")])
    copy = spoil(shutil.copytree(base, tmp_path / "copy"), replace_norms)
    noise = spoil(shutil.copytree(copy, tmp_path / "noise"), make_noise)
    assert torch.equal(logits(copy), logits(noise)), "the MLPs of the decoder do not reach the output"
    assert not torch.allclose(logits(copy), logits(base))
    (row,) = compare(str(base), str(copy)).rows
    assert (row.verdict.code, row.verdict.verified) == ("unused", False)
    assert "such as decoder.layers.0.final_layer_norm.bias, are not among those" in row.verdict.reason
    monkeypatch.setattr(class_tensors, "_unknown", lambda *_: ())
    (row,) = compare(str(base), str(copy)).rows
    assert row.verdict.verified


def test_what_the_base_has_or_every_loader_makes_is_accounted_for_and_changes_not(tmp_path):
    base = spoil(tiny_llama(tmp_path / "base"), add(another__weight=torch.ones(3, 4)))
    copy, changed = (shutil.copytree(base, tmp_path / name) for name in ("copy", "changed"))
    spoil(copy, add(model__layers__0__mlp__up_proj__bias=torch.zeros(7), table=torch.arange(5)))
    spoil(changed, add(another__weight=torch.full((3, 4), 1.5)))
    verdicts = [compare(str(base), str(folder)).rows[0].verdict for folder in (copy, changed)]
    assert [verdict.verified for verdict in verdicts] == [True, False]
    assert "1 stored tensors, such as another.weight, are not among" in verdicts[1].reason
    assert not evaluate.judge_signatures(extract(str(base)), extract(str(changed)), Criteria(paths=("mlp",))).verified


@pytest.mark.parametrize(("scale", "code"), [(0.05, "changed"), (1e-12, "unused")])
def test_inputs_that_are_cut_off_verify_nothing_and_strict_names_every_scale(scale, code, tmp_path):
    def pack(matrix):
        return compressed(INT, **EIGHT)(matrix) | {".input_scale": torch.tensor([scale])}

    folder = repacked(BASE, tmp_path / "w8a8", pack, **settings(INT, **EIGHT))
    (row,) = compare(str(BASE), str(folder), Options(strict=True)).rows
    assert (row.verdict.code, row.verdict.verified) == (code, False)
    assert ("down_proj.input_scale, are not among those" in row.verdict.reason) is (code == "unused")
    assert not row.verdict.strict.holds
    assert len([name for name in row.verdict.strict.added if name.endswith(".input_scale")]) == 42
