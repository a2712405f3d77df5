"""Reading LoRA adapters: with a configuration, and in files without, under the names of diffusers and of kohya."""

import json
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.lora.adapter import LARGEST_RANK, form_of, forms, instead, is_lora_file, open_lora, open_lora_file
from tests.adapters import WEIGHTS, change, pair, trained, written
from tests.models import spoil, tiny_gpt2, tiny_llama

UP = "model.layers.0.mlp.up_proj"


def repo(folder):
    return RepoRef("org/adapter", folder)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    said = {"vocab_size": 256, "intermediate_size": 48, "tie_word_embeddings": True, "max_position_embeddings": 64}
    folder = tiny_llama(tmp_path_factory.mktemp("llama") / "base", **said)
    return spoil(folder, lambda tensors: tensors.update({"model.embed_tokens.weight": torch.randn(256, 32)}))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("settings", "kind", "modules"),
    [
        ({}, "LoRA", 14),
        ({"use_rslora": True}, "rsLoRA", 14),
        ({"use_dora": True}, "DoRA", 14),
        ({"target_modules": "all-linear"}, "LoRA", 14),
        ({"target_modules": r".*layers\.1\..*(q|v)_proj"}, "LoRA", 2),
        ({"layers_to_transform": [1]}, "LoRA", 7),
        ({"rank_pattern": {"up_proj": 6}, "alpha_pattern": {"down_proj": 3}}, "LoRA", 14),
        ({"modules_to_save": ["embed_tokens"]}, "LoRA", 14),
        ({"init_lora_weights": "gaussian"}, "LoRA from gaussian", 14),
        ({"init_lora_weights": False}, "LoRA from random factors", 14),
        ({"init_lora_weights": "pissa_niter_4"}, "LoRA from pissa", 14),
        ({"init_lora_weights": "olora"}, "LoRA from olora", 14),
    ],
)
def test_an_adapter_of_peft_is_read_with_the_products_that_peft_makes_of_it(tmp_path, llama, settings, kind, modules):
    from peft import PeftModel

    folder = trained(llama, tmp_path / "lora", steps=2, **settings)
    lora = open_lora(repo(folder))
    assert (lora.kind, len(lora.modules)) == (kind, modules)
    assert not lora.order_matters
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32), folder)
    for name, layer in model.named_modules():
        if not hasattr(layer, "lora_A") or "default" not in layer.lora_A:
            continue
        module = name.removeprefix("base_model.model.")
        second, first = lora.read(module)
        alpha = config["alpha_pattern"].get(module.rpartition(".")[2], config["lora_alpha"])
        rank = lora.modules[module].rank
        scale = alpha / (rank**0.5 if config["use_rslora"] else rank)
        assert lora.modules[module].scale >= scale * 0.999
        added = layer.get_delta_weight("default").detach().numpy()
        assert np.allclose(scale * second @ first, added, atol=1e-6)
        assert added.shape == (lora.modules[module].rows, lora.modules[module].columns)


def test_fused_targets_of_a_transposed_class_are_read_as_peft_names_them(tmp_path):
    said = {"vocab_size": 256, "n_positions": 64}
    base = tiny_gpt2(tmp_path / "base", **said)
    spoil(base, lambda t: t.update({"wte.weight": torch.randn(256, 32), "wpe.weight": torch.randn(64, 32)}))
    folder = trained(base, tmp_path / "lora", steps=1, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    modules = open_lora(repo(folder)).modules
    shapes = {name: (factors.rows, factors.columns) for name, factors in modules.items() if ".h.0." in name}
    assert shapes == {"transformer.h.0.attn.c_attn": (96, 32), "transformer.h.0.mlp.c_fc": (128, 32)}


def test_what_is_no_factor_is_counted_and_left_alone(tmp_path, llama):
    assert open_lora(repo(trained(llama, tmp_path / "a", steps=1, use_dora=True))).others == 14
    saved = trained(llama, tmp_path / "b", steps=1, target_modules=["v_proj"], modules_to_save=["embed_tokens"])
    assert open_lora(repo(saved)).others >= 1


def test_the_name_that_trainers_leave_in_is_read_too_and_loftq_is_marked(tmp_path):
    factors = {name.replace(".weight", ".default.weight"): tensor for name, tensor in pair(UP, 48, 32).items()}
    lora = open_lora(repo(written(tmp_path, factors, init_lora_weights="loftq")))
    assert (set(lora.modules), lora.order_matters) == ({UP}, "loftq")


OTHERS = {
    "holds an adapter of the kind IA3; hf-lineage tests only LoRA adapters": {"peft_type": "IA3"},
    "holds an adapter of the kind None": {"peft_type": None},
    "sets `layer_replication`": {"layer_replication": [[0, 2], [1, 3]]},
    "sets `use_bdlora`": {"use_bdlora": {"x": 1}},
    "sets `init_lora_weights` to without_commands-of": {"init_lora_weights": "without_commands-of"},
    "sets `init_lora_weights` to": {"init_lora_weights": [["pissa"]]},
    "adapters of a rank above 2048 are not compared": {"r": LARGEST_RANK + 1},
}
DAMAGED = {
    "gives the rank 0, which must be a positive integer": {"r": 0},
    "gives the rank -3": {"r": -3},
    "gives the rank '8'": {"r": "8"},
    "gives the rank True": {"r": True},
    "gives the rank 2.5": {"r": None, "rank_pattern": {"up": 2.5}},
    "gives the scale '16', not a number": {"lora_alpha": "16"},
    "gives the scale None": {"alpha_pattern": {"up": None}},
    r"gives the scale \[4\]": {"alpha_pattern": [4]},
    "gives the scale 1000": {"lora_alpha": 10**400},
    "gives the rank None": {"rank_pattern": {"up": None}},
    "`rank_pattern` of adapter_config.json is not a mapping": {"rank_pattern": [1]},
    r"do not multiply to a matrix of a rank that adapter_config.json gives \(3\)": {"r": 3},
}


@pytest.mark.parametrize("message", [*OTHERS, *DAMAGED])
def test_other_adapters_are_nothing_to_compare_and_those_without_a_rank_are_damaged(tmp_path, message):
    folder = written(tmp_path, pair(UP, 48, 32), **(OTHERS | DAMAGED)[message])
    with pytest.raises(NothingToCompare if message in OTHERS else CheckpointError, match=message):
        open_lora(repo(folder))


def swapped(factors):
    a, b = sorted(factors)
    factors[a], factors[b] = factors[b].clone(), factors[a].clone()


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (swapped, CheckpointError, "do not multiply"),
        (lambda factors: factors.pop(min(factors)), CheckpointError, "without its other factor"),
        (lambda factors: factors.update({k: v[:, :0] for k, v in factors.items()}), NothingToCompare, "of size 0"),
        (lambda factors: factors.update({min(factors): torch.ones(2, 0)}), CheckpointError, "without its other factor"),
        (lambda factors: [factors.pop(name) for name in list(factors)], NothingToCompare, "holds no tensors"),
    ],
)
def test_factors_that_do_not_fit_each_other_are_damaged(tmp_path, edit, error, message):
    folder = change(written(tmp_path, pair(UP, 48, 32)), edit)
    with pytest.raises(error, match=message):
        open_lora(repo(folder))


def test_swapped_factors_of_a_square_matrix_are_damaged(tmp_path):
    folder = change(written(tmp_path, pair("model.layers.0.self_attn.o_proj", 32, 32)), swapped)
    with pytest.raises(CheckpointError, match="do not multiply to a matrix of a rank"):
        open_lora(repo(folder))


def test_a_pickled_adapter_is_never_opened(tmp_path):
    folder = written(tmp_path, pair(UP, 48, 32))
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(NothingToCompare, match=r"has no adapter_model.safetensors"):
        open_lora(repo(folder))


SCALES = [
    ({}, 4.0),
    ({"lora_alpha": 3}, 1.5),
    ({"use_rslora": True, "lora_alpha": 2}, 2**0.5),
    ({"lora_alpha": -3}, 1.5),
    ({"alpha_pattern": {"(a+)+$": 12, "up_proj": 2}}, 6),
]


@pytest.mark.parametrize(("settings", "scale"), SCALES)
def test_the_scale_is_that_of_peft_and_the_largest_of_several(tmp_path, settings, scale):
    folder = written(tmp_path, pair(UP, 48, 32), **settings)
    assert open_lora(repo(folder)).modules[UP].scale == pytest.approx(scale)


FORMS = [
    ({"peft_type": "LORA"}, "peft", {"peft_type": "LORA"}),
    ({"lora_parameters": {"rank": 4, "scale": 2.0}}, "mlx-lm", {"peft_type": "lora", "r": 4, "lora_alpha": 2.0}),
    ({"lora_parameters": 7, "fine_tune_type": "full"}, "mlx-lm", {"peft_type": "full"}),
]


@pytest.mark.parametrize(("config", "name", "settings"), FORMS)
def test_settings_have_the_names_of_peft(config, name, settings):
    form, found = form_of(config)
    assert (form["name"], found) == (name, settings)
    assert all(one.keys() == form.keys() for one in forms()["configured"])


def test_hostile_names_cost_nothing():
    began = time.perf_counter()
    names = [end * 10**5 for end in (".lora_A", ".lora_A (0, ", "lora_embedding_A ", ".")]
    assert [*instead({name: TensorInfo((1,), (name,)) for name in names})]
    assert time.perf_counter() - began < 1


FILE = "style.safetensors"
TO_V = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_v"
FLAT = TO_V.replace(".", "_")


def saved(folder, **tensors):
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / FILE)
    return RepoRef("org/adapter", folder)


def opened(folder, **tensors):
    return open_lora_file(saved(folder, **tensors), FILE)


def factors(first, second, rank=2, rows=6, columns=4):
    return {first: torch.ones(rank, columns), second: torch.ones(rows, rank)}


NEW = "unet.x.lora_A.weight", "unet.x.lora_B.weight"
OLD = factors("lora_unet_x.lora_down.weight", "lora_unet_x.lora_up.weight")


@pytest.mark.parametrize(
    ("first", "second", "module", "flattened"),
    [
        (f"unet.{TO_V}.lora_A.weight", f"unet.{TO_V}.lora_B.weight", TO_V, False),
        (f"transformer.{TO_V}.lora_A.default.weight", f"transformer.{TO_V}.lora_B.default.weight", TO_V, False),
        (f"base_model.model.{TO_V}.lora_A.weight", f"base_model.model.{TO_V}.lora_B.weight", TO_V, False),
        (f"unet.{TO_V}.lora.down.weight", f"unet.{TO_V}.lora.up.weight", TO_V, False),
        (f"{TO_V}.lora_linear_layer.down.weight", f"{TO_V}.lora_linear_layer.up.weight", TO_V, False),
        ("b.attn1.processor.to_q_lora.down.weight", "b.attn1.processor.to_q_lora.up.weight", "b.attn1.to_q", False),
        ("b.attn1.processor.to_out_lora.down.weight", "b.attn1.processor.to_out_lora.up.weight", "b.attn1.to_out.0", 0),
        (f"lora_unet_{FLAT}.lora_down.weight", f"lora_unet_{FLAT}.lora_up.weight", FLAT, True),
        (f"lora_transformer_{FLAT}.lora_A.weight", f"lora_transformer_{FLAT}.lora_B.weight", FLAT, True),
    ],
)
def test_factors_are_found_under_every_name(tmp_path, first, second, module, flattened):
    (lora,) = opened(tmp_path, **factors(first, second)).values()
    assert list(lora.modules) == [module]
    assert (lora.modules[module].first, lora.modules[module].second) == (first, second)
    assert (lora.modules[module].rank, lora.flattened, lora.others) == (2, bool(flattened), 0)
    assert lora.scale(module) == 1.0


FOLDERS = {
    "text_encoder.": "text_encoder",
    "text_encoder_2.": "text_encoder_2",
    "lora_te_": "text_encoder",
    "lora_te1_": "text_encoder",
    "lora_te2_": "text_encoder_2",
}


@pytest.mark.parametrize(("start", "folder"), FOLDERS.items())
def test_every_model_of_a_pipeline_has_factors_of_its_own(tmp_path, start, folder):
    mine = factors(f"{start}x.lora_down.weight", f"{start}x.lora_up.weight")
    loras = opened(tmp_path, **mine, **factors(*NEW))
    assert {name: list(lora.modules) for name, lora in loras.items()} == {folder: ["x"], "": ["x"]}


@pytest.mark.parametrize("alpha", [torch.tensor(1.0), torch.tensor([1], dtype=torch.int64), torch.tensor(-1.0).half()])
def test_a_scale_is_that_beside_the_factors_over_the_rank(tmp_path, alpha):
    lora = opened(tmp_path, **OLD, **{"lora_unet_x.alpha": alpha})[""]
    assert (lora.scale("x"), lora.others) == (0.5, 0)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e30])
def test_a_scale_that_is_none_is_an_error(tmp_path, number):
    lora = opened(tmp_path, **OLD, **{"lora_unet_x.alpha": torch.tensor(number)})[""]
    with pytest.raises(CheckpointError, match=r"lora_unet_x.alpha is .*, which is not a scale"):
        lora.scale("x")


def test_magnitudes_and_convolutions_are_counted_and_left_alone(tmp_path):
    more = {"lora_unet_x.dora_scale": torch.ones(6), "lora_unet_c.lora_down.weight": torch.ones(2, 4, 3, 3)}
    lora = opened(tmp_path, **OLD, **more, **{"lora_unet_c.lora_up.weight": torch.ones(6, 2, 1, 1)})[""]
    assert (lora.kind, lora.others, list(lora.modules)) == ("DoRA", 3, ["x"])


REFUSED = {
    "alone": ({NEW[0]: torch.ones(2, 4)}, CheckpointError, "without its other factor"),
    "mismatched": ({NEW[0]: torch.ones(2, 4), NEW[1]: torch.ones(6, 3)}, CheckpointError, "do not"),
    "no rank": (factors(*NEW, rank=0), CheckpointError, "do not multiply"),
    "rank": (factors(*NEW, rank=2049), NothingToCompare, "a rank above 2048"),
    "twice": (
        factors(*NEW) | {"unet.x.lora.down.weight": torch.ones(2, 4)},
        CheckpointError,
        "holds a factor of unet.x.lora.*weight twice",
    ),
    "two ways": (factors(*NEW) | OLD, NothingToCompare, "names the matrices of one model in two ways"),
    "LoHa": ({"lora_unet_x.hada_w1_a": torch.ones(2, 2)}, NothingToCompare, r"products of another form \(hada"),
    "LoKr": ({"lora_unet_x.lokr_w1": torch.ones(2, 2)}, NothingToCompare, r"products of another form \(lokr"),
    "none": ({"weight": torch.ones(2, 2)}, NothingToCompare, "holds no pair of LoRA factors"),
}


@pytest.mark.parametrize(("tensors", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_pair_of_factors_has_a_reason(tmp_path, tensors, error, message):
    with pytest.raises(error, match=message):
        opened(tmp_path, **tensors)


def test_a_file_of_a_model_is_no_adapter(tmp_path):
    assert not is_lora_file(open_file(saved(tmp_path, **{"unet.x.weight": torch.ones(2, 2)}), FILE))
    assert is_lora_file(open_file(saved(tmp_path, **{"lora_unet_x.hada_w1_a": torch.ones(2, 2)}), FILE))


def test_a_file_of_very_many_names_is_refused_in_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_lineage.lora.adapter.MOST_MODULES", 10)
    many = {}
    for number in range(11):
        many |= factors(f"unet.{number}.lora_A.weight", f"unet.{number}.lora_B.weight")
    with pytest.raises(NothingToCompare, match="more than 10 matrices"):
        opened(tmp_path, **many)
