"""Reading a LoRA adapter by itself."""

import json
import time

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.lora.adapter import LARGEST_RANK, form_of, forms, instead, open_lora
from tests.adapters import WEIGHTS, change, pair, trained, written
from tests.models import spoil, tiny_llama

UP = "model.layers.0.mlp.up_proj"


def repo(folder):
    return RepoRef("org/adapter", folder)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    said = {"vocab_size": 256, "intermediate_size": 48, "tie_word_embeddings": True, "max_position_embeddings": 64}
    folder = tiny_llama(tmp_path_factory.mktemp("llama") / "base", **said)
    return spoil(folder, lambda tensors: tensors.update({"model.embed_tokens.weight": torch.randn(256, 32)}))


PEFT = [
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
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("settings", "kind", "modules"), PEFT)
def test_an_adapter_of_peft_is_read_with_the_products_that_peft_makes_of_it(tmp_path, llama, settings, kind, modules):
    from peft import PeftModel

    folder = trained(llama, tmp_path / "lora", steps=2, **settings)
    lora = open_lora(repo(folder))
    assert (lora.kind, len(lora.modules), lora.order_matters) == (kind, modules, "")
    assert lora.others >= (14 if "use_dora" in settings else "modules_to_save" in settings)
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32), folder)
    for name, layer in model.named_modules():
        if "default" not in getattr(layer, "lora_A", ()):
            continue
        module = name.removeprefix("base_model.model.")
        second, first = lora.read(module)
        found = lora.modules[module]
        alpha = config["alpha_pattern"].get(module.rpartition(".")[2], config["lora_alpha"])
        scale = alpha / (found.rank**0.5 if config["use_rslora"] else found.rank)
        assert found.scale >= scale * 0.999
        added = layer.get_delta_weight("default").detach().numpy()
        assert np.allclose(scale * second @ first, added, atol=1e-6)
        assert added.shape == (found.rows, found.columns)


def test_names_that_trainers_leave_in_are_read_and_hostile_ones_cost_nothing(tmp_path):
    factors = {name.replace(".weight", ".default.weight"): tensor for name, tensor in pair(UP, 48, 32).items()}
    lora = open_lora(repo(written(tmp_path, factors, init_lora_weights="loftq")))
    assert (set(lora.modules), lora.order_matters) == ({UP}, "loftq")
    began = time.perf_counter()
    names = [end * 10**5 for end in (".lora_A", ".lora_A (0, ", "lora_embedding_A ", ".")]
    assert [*instead({name: TensorInfo((1,), (name,)) for name in names})]
    assert time.perf_counter() - began < 1


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


UNFIT = [
    (UP, swapped, CheckpointError, "do not multiply"),
    ("model.layers.0.self_attn.o_proj", swapped, CheckpointError, "do not multiply to a matrix of a rank"),
    (UP, lambda factors: factors.pop(min(factors)), CheckpointError, "without its other factor"),
    (UP, lambda factors: factors.update({k: v[:, :0] for k, v in factors.items()}), NothingToCompare, "of size 0"),
    (UP, lambda factors: factors.update({min(factors): torch.ones(2, 0)}), CheckpointError, "without its other factor"),
    (UP, lambda factors: factors.clear(), NothingToCompare, "holds no tensors"),
]


@pytest.mark.parametrize(("module", "edit", "error", "message"), UNFIT)
def test_factors_that_do_not_fit_each_other_are_damaged(tmp_path, module, edit, error, message):
    folder = change(written(tmp_path, pair(module, 48 if module == UP else 32, 32)), edit)
    with pytest.raises(error, match=message):
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
FORMS = [
    ({"peft_type": "LORA"}, "peft", {"peft_type": "LORA"}),
    ({"lora_parameters": {"rank": 4, "scale": 2.0}}, "mlx-lm", {"peft_type": "lora", "r": 4, "lora_alpha": 2.0}),
    ({"lora_parameters": 7, "fine_tune_type": "full"}, "mlx-lm", {"peft_type": "full"}),
]


def test_settings_have_the_names_of_peft_and_the_scale_is_the_largest_of_several(tmp_path):
    for number, (settings, scale) in enumerate(SCALES):
        folder = written(tmp_path / str(number), pair(UP, 48, 32), **settings)
        assert open_lora(repo(folder)).modules[UP].scale == pytest.approx(scale)
    for config, name, settings in FORMS:
        form, found = form_of(config)
        assert (form["name"], found) == (name, settings)
        assert all(one.keys() == form.keys() for one in forms()["configured"])
