"""The proof behind the registry: for every class every product is what the real module computes.

The classes are those of transformers, and those of diffusers and timm; what a file says for adapters alone is true too.
The proof can fail: in the end there are wrong entries of the registry, and what refuses each of them.
"""

import inspect
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.architecture.config_checks import timm_architectures
from hf_lineage.architecture.layout import bind, is_transposed
from hf_lineage.architecture.registry import factorizations, registry_table
from hf_lineage.architecture.schema import as_names
from hf_lineage.errors import CheckpointError
from hf_lineage.hub.repo import resolve
from hf_lineage.lora.placement import flat, in_memory, list_pairs
from hf_lineage.signature.factors import unpack_heads
from hf_lineage.source import differences
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import read_headers
from tests.conformance import proving
from tests.conformance.diffusers import KINDS, build_diffuser
from tests.conformance.forms import WIDTH, variants
from tests.conformance.models import FUNCTION, by_modules, known_classes, required, tiny_model
from tests.conformance.proving import LAYOUTS, deviations, faults, names_said, names_unseen, pretend
from tests.conformance.tables import adds_fixed_table, begun, claims_exchangeable, under_switches
from tests.conformance.timm import FAMILIES, build_timm, library, measured
from tests.conformance.tiny import TinyModel, build_tiny_model, read_back, runner, sample
from tests.long import LONG, first_of
from tests.models import edit_json
from tests.settings import cases as cases_of_settings

OF_TRANSFORMERS = [one for one in factorizations() if not any("." in name for name in one.classes)]
ONE_A_LAYOUT = [pytest.param(one, id=one.name, marks=[LONG] * (one not in LAYOUTS)) for one in OF_TRANSFORMERS]
"""Of all of them one a layout, and the others as long tests."""
HEAD = re.compile(r"(For\w+|Model|LMHead\w*|With\w+|Backbone)+$")  # what the name of a class says of its head


def cases() -> Iterator[Any]:
    """The first class of a file a layout, in its first form; and as long tests all classes and forms, by models."""
    for factorization in OF_TRANSFORMERS:
        name = factorization.classes[0]
        first = [(name, variants(name)[0])] if factorization in LAYOUTS else []
        if first:
            yield pytest.param(factorization, first, id=f"{factorization.name}-{name}")
        models: dict[str, list[str]] = defaultdict(list)
        for name in factorization.classes:
            models[HEAD.sub("", name)].append(name)
        for names in models.values():
            forms = [(name, wanted) for name in names for wanted in variants(name)]
            if forms != first:
                yield pytest.param(factorization, forms, id=f"{factorization.name}-{'+'.join(names)}", marks=LONG)


def known(forms: list[Any]) -> list[Any]:
    """Those of classes that transformers has; a test without any is skipped."""
    return [form for form in forms if form[0] in known_classes()] or pytest.skip("transformers has none of these")


def proof(found: TinyModel) -> Any:
    """What is proved of a class: the model under its head, its settings, its names on disk, and modules of the head."""
    base = found.model.base_model
    head = {type(module) for module in found.model.modules()} - {type(module) for module in base.modules()}
    settings = base.config.to_dict() | {"architectures": None, "transformers_version": None}
    names = [name for matrices in found.layout.everything for name in matrices.tensors]
    inside = tuple(name.removeprefix(f"{found.model.base_model_prefix}.") for name in names)
    return type(base), frozenset(head - {type(found.model)}), json.dumps(settings, sort_keys=True, default=str), inside


@pytest.mark.parametrize(("factorization", "forms"), list(cases()))
def test_every_product_is_what_the_module_computes(factorization, forms, tmp_path):
    """Most classes put a head of their own on a model that others have as well, which is proved once."""
    proved = set()
    for number, (name, wanted) in enumerate(known(forms)):
        found = build_tiny_model(name, tmp_path / str(number), required(factorization, name, wanted))
        assert found.layout.factorization.name == factorization.name, name
        loaded = read_headers(read_config(resolve(str(tmp_path / str(number)))))
        assert loaded.layout == found.layout, name  # what transformers saves it also loads
        names = (f"{said}.weight" for said in as_names(found.layout.factorization.embedding))
        if on_disk := next((said for said in names if said in found.shapes), None):
            assert found.read(on_disk).tolist() == found.model.get_input_embeddings().weight.tolist(), name
        if proof(found) not in proved:
            assert faults(found) == {}, name
            proved.add(proof(found))


@pytest.mark.parametrize("factorization", ONE_A_LAYOUT)
def test_a_class_that_adds_a_fixed_table_to_the_stream_is_never_exchangeable(factorization, tmp_path):
    """One class of each configuration; what a table would tell apart is then neither permuted nor flipped."""
    forms = [case for case in cases_of_settings(factorization) if case[1] in known_classes()]
    for at, (_, name, number, wanted) in enumerate(forms):
        found = build_tiny_model(name, tmp_path / str(at), wanted, factorization)
        pairs = [("", begun(name, wanted)), *(under_switches(name, wanted, found.model) if number == 0 else ())]
        assert [said for said, both in pairs if claims_exchangeable(both[0]) and adds_fixed_table(found, *both)] == []


@pytest.mark.parametrize("factorization", ONE_A_LAYOUT)
def test_every_name_that_a_file_says_is_on_the_disk_of_a_class_it_lists(factorization, tmp_path):
    unseen = names_said(factorization) | set(as_names(factorization.lora.unembedding))
    unseen |= set(as_names(factorization.embedding))
    witnesses = known([(name, wanted) for name in factorization.classes for wanted in variants(name)])
    while unseen and witnesses:
        name, wanted = witnesses.pop()
        found = build_tiny_model(name, tmp_path / str(len(witnesses)), required(factorization, name, wanted))
        unseen = names_unseen(unseen, found)
    assert unseen == set()


OUTSIDE = re.compile(r".*(resnets|downsamplers|upsamplers)\.\d+")  # of a U-Net, which no factorization reads
ARCHITECTURES = {
    "VisionTransformer": ["vit_tiny_patch16_224", "deit3_small_patch16_224", "vit_base_patch16_clip_quickgelu_224"],
    "VisionTransformerDistilled": ["deit_tiny_distilled_patch16_224"],
    "VisionTransformerRelPos": ["vit_relpos_small_patch16_224"],
    "NaFlexVit": ["naflexvit_base_patch16_gap"],
    "Beit": ["beit_base_patch16_224"],
    "Eva": ["vit_base_patch16_dinov3", "vit_huge_plus_patch16_dinov3"],
    "SwinTransformer": ["swin_tiny_patch4_window7_224"],
    "ConvNeXt": ["convnext_tiny", "convnext_atto", "convnextv2_atto"],
}  # class of timm -> architectures of every form that it has; `python -m tests.conformance.timm` proves all of them
SHORT = {"UNet2DConditionModel", "PixArtTransformer2DModel", "VisionTransformer", "ConvNeXt"}
"""One class a layout: blocks within a U-Net, a transformer of diffusers, one of timm, and convolutions."""
SPECIMENS = [
    *(
        pytest.param(build_diffuser, name, kind, id=f"{name}-{at}", marks=[LONG] if at or name not in SHORT else [])
        for name in KINDS
        for at, kind in enumerate(KINDS[name])
    ),
    *(
        pytest.param(build_timm, name, kind, id=name, marks=[LONG] if at or kind not in SHORT else [])
        for kind, names in ARCHITECTURES.items()
        for at, name in enumerate(names)
    ),
]  # of a class a layout one, and the others as long tests


@pytest.mark.parametrize(("make", "name", "kind"), SPECIMENS)
def test_every_product_is_what_the_module_of_another_library_computes(make, name, kind, tmp_path):
    tiny = make(name, kind, tmp_path)
    assert read_headers(read_config(resolve(str(tmp_path)))).layout == tiny.layout
    noticed = faults(tiny)
    left = [layer for layer in noticed.pop("layers_left_out", []) if not OUTSIDE.fullmatch(layer)]
    assert (noticed, left) == ({}, [])
    assert not (tiny.layout.factorization.exchangeable and adds_fixed_table(tiny, tiny.model))


@pytest.mark.long
def test_every_name_that_a_file_says_is_on_the_disk_of_a_class_of_another_library(tmp_path):
    said = {one.name: names_said(one) for one in factorizations() if any("." in name for name in one.classes)}
    for at, (make, name, kind) in enumerate(parameters.values for parameters in SPECIMENS):
        tiny = make(name, kind, tmp_path / str(at))
        said[tiny.layout.factorization.name] = names_unseen(said[tiny.layout.factorization.name], tiny)
    assert {name: unseen for name, unseen in said.items() if unseen} == {}


def test_every_listed_class_of_another_library_is_proved():
    listed = {name for one in factorizations() for name in one.classes if "." in name}
    of_timm = {entry["architectures"][0] for entry in timm_architectures().values()}
    assert of_timm == {f"timm.{name}" for name in ARCHITECTURES}
    assert listed == {f"diffusers.{name}" for name in KINDS} | of_timm


UNET = KINDS["UNet2DConditionModel"][0]
OF_TIMM = "timm_vit", build_timm, "deit3_small_patch16_224", "VisionTransformer"
OF_DIFFUSERS = "diffusers_unet", build_diffuser, "UNet2DConditionModel", UNET
WRONG = {
    "the norm of attention, in timm": (*OF_TIMM, {"norm": "norm1"}),
    "a gain left out": (*OF_TIMM, {"output_norm": ()}),
    "gate and up exchanged": (*OF_DIFFUSERS, {"packed": {"ff.net.0.proj": ("gate", "up")}}),
    "the norm of attention": (*OF_DIFFUSERS, {"norm": "norm1"}),
}


@pytest.mark.parametrize(("registered", "make", "name", "kind", "changes"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.few(2)
def test_a_factorization_that_is_not_the_module_is_refused(registered, make, name, kind, changes, tmp_path):
    tiny = make(name, kind, tmp_path)
    wrong = read_back(tiny.model, tmp_path, pretend(registered, mlp=changes))
    assert {"deviations", "gains_left_out"} & faults(replace(wrong, inputs=tiny.inputs)).keys()


@pytest.mark.parametrize("step", first_of([50, 10]))
def test_the_table_of_architectures_is_what_timm_says(step):
    """Of every tenth at most: building all of them takes minutes, which `python -m tests.conformance.timm` does."""
    table = timm_architectures()
    assert len(table) > 200
    names = [name for name in library().list_models() if name.startswith(FAMILIES)]
    assert table.keys() <= set(names)
    for name in sorted(table)[::step]:
        kind, settings = measured(name)
        assert table[name] == {"architectures": [f"timm.{kind}"], **settings}


def reversed_within_parts(tensors, pairs, written):
    """Tensors with the rows of every part of what some matrices make reversed, and the columns of what writes it."""
    changed = dict(tensors)
    for layer_set in pairs:
        reader, writer = (slot.tensor for slot in layer_set.slots.values())
        heads = next(iter(layer_set.heads.values()))
        size = heads.size if "value" in layer_set.slots else heads.count
        order = torch.arange(heads.count * heads.size).reshape(-1, size).flip(1).flatten()
        # Where a picture and a text see each other, the last layer writes no text, and reads its values all the same.
        made = {reader, reader.replace("attn.to_v", "attn.add_v_proj")}
        made |= {name.replace("weight", "bias") for name in made}
        changed |= {name: tensors[name][order] for name in made & tensors.keys()}
        changed |= {writer: tensors[writer][:, order]} if written else {}
    return changed


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [param for param in SPECIMENS if param.values[1] in KINDS and "DiT" not in param.values[1]],
)
def test_what_only_adapters_are_tested_on_may_stand_in_any_order(make, name, kind, tmp_path):
    tiny = make(name, kind, tmp_path)
    model, told = tiny.model.double(), tiny.layout.factorization.lora
    inputs = kind.inputs(model, 1, 1)
    inputs |= {key: value.double() for key, value in inputs.items() if getattr(value, "dtype", None) == torch.float32}
    pairs = [layer_set for _, layer_set in list_pairs(read_headers(read_config(resolve(str(tmp_path)))))]
    assert len(pairs) >= len(told.units) + bool(told.values)
    plain = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    results = []
    for tensors in (plain, reversed_within_parts(plain, pairs, False), reversed_within_parts(plain, pairs, True)):
        model.load_state_dict(tensors)
        with torch.no_grad():
            results.append(model(**inputs).sample)
    assert float((results[0] - results[1]).abs().max()) > 1e-3
    assert torch.allclose(results[0], results[2], atol=1e-9)


def test_the_registry_knows_original_names_and_defaults_as_diffusers_has_them():
    import diffusers
    from diffusers.loaders.lora_conversion_utils import _maybe_map_sgm_blocks_to_diffusers

    (told,) = (one.lora for one in factorizations() if one.name == "diffusers_unet")
    rest = "transformer_blocks_0_attn1_to_v.lora_down.weight"
    original = {f"lora_unet_{flat(name)}_{rest}": flat(part) for part, name in told.in_memory.items()}
    for name, part in original.items():
        (understood,) = _maybe_map_sgm_blocks_to_diffusers({name: None}, SimpleNamespace(layers_per_block=2))
        renamed = understood.replace("input_blocks", "down_blocks").replace("output_blocks", "up_blocks")
        assert renamed.replace("middle_block", "mid_block") == f"lora_unet_{part}_{rest}"

    # Of its settings, which a class takes where config.json leaves them out, the registry knows the defaults.
    asked = {name: inspect.signature(getattr(diffusers, name)).parameters for name in KINDS}
    defaults = {name: {key: one.default for key, one in each.items()} for name, each in asked.items()}
    assert registry_table(differences.DEFAULTS, dict[str, dict[str, Any]]) == json.loads(json.dumps(defaults))


@pytest.fixture
def unet(tmp_path):
    """A folder of diffusers, and a function that changes a copy of it."""
    build_diffuser("UNet2DConditionModel", UNET, tmp_path / "base")

    def copy(settings=(), **added):
        folder = shutil.copytree(tmp_path / "base", tmp_path / "copy")
        file = folder / "diffusion_pytorch_model.safetensors"
        save_file({**load_file(file), **added}, file)
        edit_json(folder / "config.json", **dict(settings))
        return folder

    return tmp_path / "base", copy


def judged(base, candidate):
    return compare(str(base), str(candidate), Options(permutations=199)).rows[0].verdict


@pytest.mark.parametrize(
    ("settings", "added", "named"),
    [
        ({}, {}, ""),
        ({"sample_size": 8, "_diffusers_version": "0.1", "dropout": 0.0, "attention_type": "default"}, {}, ""),
        ({"mid_block_scale_factor": 1e-9}, {}, "mid_block_scale_factor is 1e-09, and 1 in the base"),
        ({}, {"old.weight": torch.ones(3)}, "1 stored tensors, such as old.weight"),
    ],
)
def test_settings_and_names_that_the_base_of_diffusers_does_not_have_verify_nothing(unet, settings, added, named):
    base, copy = unet
    found = judged(base, copy(settings, **added))
    assert (found.verified, named in found.reason) == (not named, True)


def test_blocks_that_a_class_of_diffusers_does_not_build_verify_nothing(unet, monkeypatch):
    """Without the rule they do, though nothing of them is in the model."""
    from diffusers import UNet2DConditionModel

    base, copy = unet
    names = {end: [f"{end.title()}Block2D"] * 3 for end in ("down", "up")}
    settings = {"mid_block_type": "UNetMidBlock2D"} | {f"{end}_block_types": kinds for end, kinds in names.items()}
    folder = copy(settings)
    model = UNet2DConditionModel.from_pretrained(folder)
    assert ("transformer_blocks" in str(model.state_dict().keys()), judged(base, folder).verified) == (False, False)
    monkeypatch.setattr(differences, "doubts", lambda *_: ())
    assert judged(base, folder).verified


ROUNDING = 1e-6  # of what permuting queries alone changes, in float64
ROTARY = {"llama": "LlamaModel", "gpt_neox": "GPTNeoXModel", "gemma": "GemmaModel"}
# They cannot be run in float64, or only with more than text or a picture; one has another bias of queries.
LACKING = ("DPR", "MusicgenMelody", "FSMT", "Phi4Multimodal", "VideoMAE")


def one_of_each(factorization):
    """A class of each model under the heads that a file lists, the one without a head where it is listed."""
    classes = sorted(factorization.classes, key=lambda name: name.endswith("Model"))
    kinds = {HEAD.sub("", name): name for name in classes if "." not in name}
    return [name for name in kinds.values() if not name.startswith(LACKING)]


FREE = [
    pytest.param(one, name, id=f"{one.name}-{name}", marks=[LONG] if number or one not in LAYOUTS else [])
    for one in factorizations()
    if one.lora.rotary is not True
    for number, name in enumerate(one_of_each(one))
]  # of a file a layout one class, and the others as long tests
TURNED = [pytest.param(one, ROTARY[one.name], id=one.name) for one in factorizations() if one.name in ROTARY]


def outputs(model, folder):
    model = runner(type(model).from_pretrained(folder, dtype=torch.float64).eval())
    inputs = {name: v.double() if v.is_floating_point() else v for name, v in sample(model, 2, 8).items()}
    with torch.no_grad():
        return next(value for value in model(**inputs).to_tuple() if isinstance(value, torch.Tensor))


def reversed_within_heads(found, folder: Path, into: Path, roles) -> Path:
    """A copy in which the dimensions of every head of some roles stand in the opposite order."""
    into.mkdir()
    tensors = load_file(folder / "model.safetensors")
    for layer_set in found.layout.everything:
        for slot in (layer_set.slots[role] for role in roles if role in layer_set.slots):
            is_turned = is_transposed(found.layout.factorization, slot)
            rows = tensors[slot.tensor].T if is_turned else tensors[slot.tensor]
            order = np.arange(len(rows))
            places = unpack_heads(order.copy()[:, None], layer_set, slot)[..., 0]
            order[places.ravel()] = places[..., ::-1].ravel()
            rows = rows[torch.from_numpy(order)]
            tensors[slot.tensor] = (rows.T if is_turned else rows).contiguous()
            if name := layer_set.biases.get(slot.tensor):
                tensors[name] = tensors[name].flatten()[torch.from_numpy(order)].reshape(tensors[name].shape)
    save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(folder / "config.json", into)
    return into


@pytest.mark.parametrize(("factorization", "name"), [*FREE, *TURNED])
def test_queries_and_keys_may_be_permuted_within_a_head_unless_positions_are_rotary(factorization, name, tmp_path):
    known([(name, {})])
    folder = tmp_path / "model"
    found = build_tiny_model(name, folder, required(factorization, name, variants(name)[0]))
    if factorization.lora.rotary in found.model.config.to_dict():
        pytest.skip("its config.json has the key of those that turn queries and keys")
    plain, alone, together = (
        outputs(found.model, reversed_within_heads(found, folder, tmp_path / str(len(roles)), roles))
        for roles in ((), ("query",), ("query", "key"))
    )
    moved = float((plain - alone).abs().max())
    assert moved > 0
    assert (float((plain - together).abs().max()) <= ROUNDING * moved) == (factorization.lora.rotary is not True)


RENAMED = [(one, names[-1]) for one in factorizations() if one.lora.in_memory and (names := one_of_each(one))]


@pytest.mark.parametrize(("factorization", "name"), RENAMED, ids=lambda one: getattr(one, "name", one))
def test_every_matrix_of_a_renamed_class_is_found_by_its_name_in_memory(factorization, name, tmp_path):
    found = build_tiny_model(name, tmp_path, required(factorization, name, variants(name)[0]))
    names = in_memory(found.shapes, factorization.lora)
    stored = {slot.tensor for layer_set in found.layout.everything for slot in layer_set.slots.values()}
    assert {names[name] for name in found.model.state_dict() if name in names} >= stored


def built(
    name: str, registered: str, folder: Path, settings: dict[str, int] | None = None, **changes: Any
) -> TinyModel:
    """A tiny model of a class beside an entry of the registry that is changed."""
    entry = pretend(registered, **changes)
    return build_tiny_model(name, folder, required(entry, name, variants(name)[0] | (settings or {})), entry)


def test_an_entry_that_does_not_fit_the_weights_is_refused(tmp_path):
    with pytest.raises(CheckpointError):
        built("GPTBigCodeForCausalLM", "gpt2", tmp_path, {"multi_query": False})


@pytest.mark.long
def test_one_expert_named_and_the_others_not_and_one_that_lacks_a_tensor_are_refused(tmp_path):
    named = {role: f"mlp.experts.0.{role}_proj" for role in ("up", "gate", "down")}
    assert built("FlexOlmoForCausalLM", "flex_olmo", tmp_path / "named", mlp=named).layout.unclaimed
    whole = built("FlexOlmoForCausalLM", "flex_olmo", tmp_path / "whole")
    lacking = dict(whole.shapes)
    del lacking["model.layers.0.mlp.experts.1.up_proj.weight"]
    with pytest.raises(CheckpointError):
        bind(pretend("flex_olmo"), lacking, whole.model.config.to_dict())


LLAMA, BEIT, RESNET = ("LlamaForCausalLM", "llama"), ("BeitModel", "vit"), ("ResNetModel", "resnet_bottleneck")
GPT2, DEEPSEEK = ("GPT2LMHeadModel", "gpt2"), ("DeepseekV3ForCausalLM", "deepseek")
LAST = {"up": "layer.0.convolution", "latent": {}, "inner_norm": "layer.0.normalization"}
QKV, EXPERTS = ("query", "key", "value"), {"mlp.experts.gate_up_proj": ("gate", "up")}


def by_head(**packed: Any) -> dict[str, Any]:
    """Heads that a file says to be packed by turns, said to follow one another."""
    return {
        "attention": {"interleaved": {}, "packed": {name.replace("__", "."): roles for name, roles in packed.items()}}
    }


DEVIATING = {
    "value for key": (*LLAMA, {"attention": {"key": "self_attn.v_proj", "value": "self_attn.k_proj"}}),
    "gate and up exchanged": (*LLAMA, {"mlp": {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}}),
    "query and value exchanged": (*GPT2, {"attention": {"packed": {"attn.c_attn": ("value", "key", "query")}}}),
    "the other branch's norm": (*LLAMA, {"mlp": {"norm": "input_layernorm"}}),
    "a gain said to be stored less one": (*LLAMA, {"gain": "one_plus"}),
    "two gains on outputs exchanged":
        (*BEIT, {"mlp": {"output_norm": "lambda_1"}, "attention": {"output_norm": "lambda_2"}}),
    "queries, keys and values by head": ("DebertaModel", "deberta", by_head(attention__self__in_proj=QKV)),
    "a gain stored less one said to be plain": ("GemmaForCausalLM", "gemma", {"gain": "plain"}),
    "an output norm said to be an input norm":
        ("Olmo2ForCausalLM", "olmo2", {"mlp": {"norm": "post_feedforward_layernorm", "output_norm": ()}}),
    "a norm inside the branch": ("BitNetForCausalLM", "llama", {}),
    "one of two norms inside left out": ("BitNetForCausalLM", "bitnet", {"mlp": {"inner_norm": ()}}),
    "keys and values from a latent exchanged":
        (*DEEPSEEK, {"attention": {"interleaved": {"self_attn.kv_b_proj": ("value", "key")}}}),
    "keys and values from a latent": (*DEEPSEEK, by_head(self_attn__kv_b_proj=("key", "value"))),
    "heads packed by turns": ("GPTNeoXForCausalLM", "gpt_neox", by_head(attention__query_key_value=QKV)),
    "blocks of heads said to be one": ("CodeGenForCausalLM", "codegen", {"attention": {"blocks": 1}}),
    "gate and up by turns": ("GptOssForCausalLM", "gpt_oss", {"mlp": {"interleaved": {}, "packed": EXPERTS}}),
    "a gate on attention left out": ("BeamForCausalLM", "beam", {"attention": {"gate": None}}),
    "the first and the last of three convolutions": (*RESNET, {"mlp": LAST}),
    "a batch norm between two convolutions left out": ("ResNetModel", "resnet_basic", {"mlp": {"inner_norm": ()}}),
    "two attentions, one subtracted from the other": ("DiffLlamaForCausalLM", "llama", {}),
    "attention with a norm on its values": ("Gemma4ForCausalLM", "gemma2", {"gain": "plain"}),
    "the norm of a recurrence": ("RwkvForCausalLM", "rwkv", {"mlp": {"norm": "ln1"}}),
    "attention with a gate on its output": ("BeamForCausalLM", "gemma2", {"gain": "plain"}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes"), DEVIATING.values(), ids=DEVIATING.keys())
@pytest.mark.few(6)
def test_a_factorization_that_is_not_the_module_deviates(name, registered, changes, tmp_path):
    assert deviations(built(name, registered, tmp_path, **changes))


MISREAD = {
    "one tap": lambda name, stored: stored[..., 1, 1] if stored.ndim == 4 and stored.shape[-1] > 1 else stored,
    "a gain without the running variance": lambda name, stored: stored**0 if name.endswith("running_var") else stored,
}


@pytest.mark.parametrize("misread", MISREAD.values(), ids=MISREAD.keys())
@pytest.mark.parametrize("registered", ["resnet_basic", "resnet_bottleneck"])
def test_a_convolution_read_otherwise_deviates(registered, misread, tmp_path):
    stored = built("ResNetModel", registered, tmp_path)
    assert deviations(replace(stored, read=lambda name: misread(name, stored.read(name))))


LAYERS, NORMS, GAINS, KIND = (
    proving.layers_left_out,
    proving.norms_left_out,
    proving.gains_left_out,
    proving.wrong_normalization,
)
CLIP, STAGES_NORM = {"text": "text_model.encoder.layers.{layer}"}, "encoder.stages.0.layers.0.layer.2.normalization"
GROUPS, OUTPUT = "encoder.albert_layer_groups.", proving.output_norms_mistaken
NOTICED = {
    "the encoder beside its decoder":
        ("T5Model", "t5", {"layers": {"decoder": "decoder.block.{layer}"}}, LAYERS, "encoder.block.0"),
    "one of two towers": ("CLIPModel", "clip_towers", {"layers": CLIP}, LAYERS, "vision_model.encoder.layers.0"),
    "every stage but the first":
        (*RESNET, {"layers": "encoder.stages.0.layers.{layer}"}, LAYERS, "encoder.stages.1.layers.0"),
    "all layers of a group but the first": (
        "AlbertModel", "albert", {"layers": f"{GROUPS}{{layer}}.albert_layers.0"}, LAYERS, f"{GROUPS}0.albert_layers.1",
    ),
    "a norm left out":
        (*LLAMA, {"mlp": {"norm": ()}}, NORMS, [f"model.layers.{n}.post_attention_layernorm" for n in (0, 1)]),
    "an output norm left out":
        ("Gemma2ForCausalLM", "gemma2", {"attention": {"output_norm": ()}}, OUTPUT, ["value_output"]),
    "a gain on the output left out":
        (*BEIT, {"mlp": {"output_norm": ()}}, GAINS, [f"encoder.layer.{n}.lambda_2" for n in (0, 1)]),
    "an output batch norm left out": (*RESNET, {"mlp": {"output_norm": ()}}, GAINS, f"{STAGES_NORM}.weight"),
    "the wrong kind of norm": (*LLAMA, {"normalization": "layer_norm"}, KIND, "model.layers.0.input_layernorm"),
    **{
        f"a batch norm said to be {kind}": (*RESNET, {"normalization": kind}, KIND, STAGES_NORM)
        for kind in ("rms_norm", "layer_norm")
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes", "rule", "named"), NOTICED.values(), ids=NOTICED.keys())
def test_what_an_entry_leaves_out_or_mistakes_is_noticed_by_its_rule(name, registered, changes, rule, named, tmp_path):
    found = rule(built(name, registered, tmp_path, **changes))
    assert named == found if isinstance(named, list) else named in found
    assert rule in proving.RULES


def test_reader_and_writer_exchanged_where_both_have_one_shape_are_noticed(tmp_path):
    """By what they compute, and by the tensor-parallel plan."""
    square, exchanged = {"intermediate_size": 32}, {"up": "mlp.down_proj", "down": "mlp.up_proj"}
    assert deviations(built("LlamaForCausalLM", "llama", tmp_path / "exchanged", square, mlp=exchanged))
    right = built("LlamaForCausalLM", "llama", tmp_path / "right", square)
    first = right.layout.sets("mlp")[0][0]
    object.__setattr__(first, "slots", {"up": first.slots["down"], "down": first.slots["up"]})
    assert proving.against_plan(right) == ["model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.weight"]


PLANTED = {"ignores": ("mlp.router",), "mlp": {"norm": ("planted", "post_attention_layernorm")}}


@pytest.mark.parametrize(("said", "unseen"), [({}, set()), (PLANTED, {"planted", "mlp.router"})])
def test_names_that_the_class_never_writes_are_told_and_no_others(said, unseen, tmp_path):
    entry = pretend("llama", layers="model.layers.{layer}", **said)
    assert names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry)) == unseen


def test_what_is_called_by_modules_is_what_one_function_computes():
    model = tiny_model("WavLMModel", {})
    module = next(one for one in model.modules() if hasattr(one, FUNCTION))
    states, mask = torch.randn(2, 5, WIDTH), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    with torch.no_grad():
        as_one, _, _ = module(states, mask)
        by_modules(model)
        apart, _, _ = module(states, mask)
    torch.testing.assert_close(apart, as_one)
    assert as_one.abs().max() > 0.01
