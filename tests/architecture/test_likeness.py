"""A model of a class that nobody listed is read as the listed class with its tensors, and nothing is verified by it."""

import json

import pytest
import torch

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.likeness import OWN_CODE, Within, find_likes, fitting_class, unread
from hf_lineage.architecture.registry import factorizations, listing, registry_table
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.repo import resolve
from hf_lineage.source.config import PARTS, Parts
from tests.conformance.models import tiny_model
from tests.invoking import lineage
from tests.models import edit_json, fine_tuned, open_checkpoint, spoil, tiny_llama

READ = ["RELATED", "unlisted-class"]
AUTO = {"AutoModelForCausalLM": "modeling.Theirs"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """The shapes of a Llama, and a `config.json` that names no class of transformers."""
    repo = resolve(str(tiny_llama(tmp_path_factory.mktemp("llama"), model_type="theirs")))
    return open_checkpoint(repo).shapes, repo.config() | {"architectures": ["TheirsForCausalLM"]}


def likes(llama, added=(), **config):
    """The likes of the Llama with other shapes of some tensors, None for none at all, and other settings."""
    shapes, said = llama
    changed = {name: shape for name, shape in (shapes | dict(added)).items() if shape}
    return ["".join((*like.classes, *like.within.prefixes)) for like in find_likes(changed, said | config)]


def random_weights(name, folder, seed):
    tiny_model(name, {}).save_pretrained(folder)

    def draw(tensors):
        torch.manual_seed(seed)
        for key, tensor in tensors.items():
            tensors[key] = torch.randn_like(tensor.float()) if tensor.ndim > 1 else tensor

    return spoil(folder, draw)


def kimi(folder):
    """The language model of Kimi K2.5, with the names of its published code."""
    inner = json.loads((folder / "config.json").read_text()) | {"model_type": "kimi_k2"}
    whole = {"architectures": ["KimiK25ForConditionalGeneration"], "auto_map": AUTO, "model_type": "kimi_k25"}
    (folder / "config.json").write_text(json.dumps(whole | {"text_config": inner}))

    def change(tensors):
        for name in list(tensors):
            tensors[f"language_model.{name}"] = tensors.pop(name)
        shapes = {"wqkv": (24, 8), "wo": (8, 8), "mlp.fc0": (16, 8), "mlp.fc1": (8, 16), "norm0": (8,)}
        for name, shape in shapes.items():
            tensors[f"vision_tower.encoder.blocks.0.{name}.weight"] = torch.ones(shape)
        tensors["mm_projector.proj.0.weight"] = torch.ones(8, 8)

    return spoil(folder, change)


def pangu(folder):
    """Pangu Pro MoE by its published code: a shared expert without a gate, and a scale beside the router."""
    edit_json(folder / "config.json", architectures=["PanguProMoEForCausalLM"], auto_map=AUTO, model_type="PanguProMoE")

    def change(tensors):
        for name in [name for name in tensors if "shared_expert_gate" in name]:
            router = tensors[name.replace("shared_expert_gate", "gate")]
            tensors[name.replace("shared_expert_gate.weight", "router_scale")] = torch.ones(1, len(router))
            del tensors[name]

    return spoil(folder, change)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("base", "read", "theirs"),
    [("DeepseekV3ForCausalLM", "DeepseekV3Model", kimi), ("Qwen2MoeForCausalLM", "Qwen2MoeForCausalLM", pangu)],
)
def test_mixtures_with_the_names_of_published_code_are_judged_at_the_first_command(base, read, theirs, tmp_path):
    first = random_weights(base, tmp_path / "base", seed=1)
    child = theirs(fine_tuned(first, tmp_path / "child", noise=0.02))
    other = theirs(random_weights(base, tmp_path / "other", seed=3))
    related, unrelated = (lineage("check", model, "--base", first) for model in (child, other))
    assert (related.code, related.rows[0][-2:]) == (3, READ)
    assert f"Read as {read}." in related.sentences
    assert (unrelated.code, unrelated.rows[0][-1]) == (1, "UNRELATED")


SILU = {"hidden_act": "silu"}


@pytest.mark.parametrize(
    ("added", "config", "found"),
    [
        *(({}, config, "Llama") for config in (SILU, *({**SILU, "architectures": named} for named in (7, [7], None)))),
        *(({}, config, "Llama Gemma") for config in ({}, {"hidden_act": ["silu"]})),
        *(({}, config, "Gemma") for config in ({"hidden_act": "gelu_pytorch_tanh"}, {**SILU, "model_type": "gemma"})),
        ({}, {**SILU, "model_type": ["llama"]}, "Llama"),
        ({"model.layers.0.self_attn.k_proj.weight": None}, SILU, ""),
        ({"model.layers.1.mlp.more.weight": (32, 32)}, SILU, ""),
        ({"model.layers.1.self_attn.scale": (1,)}, SILU, ""),
        ({"model.layers.0.mlp.up_proj.weight": (47, 32)}, SILU, ""),
        *(
            ({}, SILU | other, "")
            for other in ({"num_hidden_layers": 3}, {"hidden_size": 64}, {"num_attention_heads": "4"})
        ),
    ],
)
def test_a_class_is_alike_with_the_same_tensors_and_told_by_type_and_activation(llama, added, config, found):
    """Hostile settings tell none from another; a tensor more or less and another depth or width are no likeness."""
    assert likes(llama, added, **config) == [f"{name}ForCausalLM" for name in found.split()]


def test_every_class_of_own_code_is_read_as_a_listed_one_and_not_listed_itself():
    for own, listed in registry_table(OWN_CODE, dict[str, str]).items():
        parts = any(listed in row.classes for row in registry_table(PARTS, Parts).whole)
        assert (any(listing(own)), any(listing(listed)) or parts) == (False, True)


def test_what_is_read_so_verifies_nothing_wherever_it_goes(tmp_path):
    """Neither a signature in its place, nor a merge of several, nor an index or a tree gives a better word."""
    base = tiny_llama(tmp_path / "base")
    child = fine_tuned(base, tmp_path / "child", noise=0.02)
    edit_json(child / "config.json", architectures=["TheirsForCausalLM"], model_type="theirs", hidden_act="silu")
    assert lineage("extract", child, "-o", tmp_path / "child.lineage.safetensors").code == 0
    compared = lineage("compare", base, tmp_path / "child.lineage.safetensors")
    assert (compared.code, compared.rows[0][-2:]) == (3, READ)
    merged = lineage("check", child, "--base", base, "--base", fine_tuned(base, tmp_path / "sibling"))
    assert (merged.code, "VERIFIED" in merged.sentences) == (3, False)
    assert lineage("check", child, "--base", base, "--accept", "part").code == 3
    ran = lineage("check", child, "--base", base, "--run")
    assert (ran.code, "VERIFIED" in ran.sentences) == (3, False)


def test_a_class_fits_that_reads_all_matrices_and_gains_of_the_layers(llama):
    shapes, config = llama
    own, olmo = (next(found for found in factorizations() if found.name == name) for name in ("llama", "olmo"))
    gains = tuple(f"model.layers.*.{name}" for name in ("input_layernorm", "post_attention_layernorm"))
    assert [unread(bind(listed, shapes, config), shapes) for listed in (own, olmo)] == [(), gains]
    assert fitting_class(shapes | {"model.layers.0.mlp.scale": (3,)}, config) == "LlamaForCausalLM"
    assert fitting_class({name: shape for name, shape in shapes.items() if "down_proj" not in name}, config) is None
    assert fitting_class(shapes | {"model.layers.0.own.weight": (32, 32)}, config) is None
    assert fitting_class({}, config) is None


def test_what_stands_under_the_prefix_is_the_model_under_the_names_of_the_class():
    """Two places are refused, and names outside of layers stay."""
    stored = {"llm.model.norm.weight": 1, "llm.h.0.up.weight": 2, "vpm.h.0.up.weight": 3, "llmx.h.0.up.weight": 4}
    within = Within(("llm.", "model.llm."))
    assert within.tensors(stored) == {"model.norm.weight": 1, "h.0.up.weight": 2}
    for stored in (["llm.norm.weight", "model.llm.norm.weight"], ["norm.weight"]):
        with pytest.raises(NothingToCompare):
            within.place(stored)
    within = Within(("m.",), layers="m.h.{layer}", renamed={"ln1": "input", "mlp.w": "mlp.up"})
    stored = ["m.h.0.ln1.weight", "m.h.11.mlp.w", "m.h.0.ln10.weight", "m.ln1.weight", "m.h.x.ln1.weight"]
    renamed = ["h.0.input.weight", "h.11.mlp.up", "h.0.ln10.weight", "ln1.weight", "h.x.ln1.weight"]
    assert list(within.tensors(dict.fromkeys(stored))) == renamed
    # Its settings are its own, and how it is stored is said for all.
    whole = {"text_config": {"hidden_size": 8}, "hidden_size": 4, "quantization_config": {"bits": 4}}
    assert Within(("",), "text_config").config(whole) == {"hidden_size": 8, "quantization_config": {"bits": 4}}
    assert Within().config(whole) == whole
    assert Within(("",), "audio_config").config(whole | {"audio_config": 7}) == {"quantization_config": {"bits": 4}}
