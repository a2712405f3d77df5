"""An adapter beside the weights: added as its factors say, or refused with the reason where that is not all it does."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hf_lineage.checking.source.submodels import adapter_beside
from hf_lineage.checkpoint.lora.merged import WEIGHTS, adapted, adapter_base
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import resolve
from tests.models import WIDTH, tiny_gpt2, tiny_llama

UP = "model.layers.0.mlp.up_proj"
HIDDEN, RANK = 48, 2
PLAIN = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": 8,
    "target_modules": ["up_proj"],
    "base_model_name_or_path": "a/b",
}


def factors(module=UP, rank=RANK, out=HIDDEN, inn=WIDTH, which="AB"):
    random = torch.Generator().manual_seed(0)
    shapes = {"A": (rank, inn), "B": (out, rank)}
    return {
        f"base_model.model.{module}.lora_{each}.weight": torch.randn(*shapes[each], generator=random) for each in which
    }


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "model")


def opened(model, config=None, tensors=None, matrices=None):
    """The weights with the adapter on top."""
    (model / "adapter_config.json").write_text(json.dumps(PLAIN | (config or {})))
    save_file(factors() if tensors is None else tensors, model / WEIGHTS)
    repo = resolve(str(model))
    return adapted(repo, open_checkpoint(repo), {f"{UP}.weight": False} if matrices is None else matrices)


def close(found, expected):
    """Alike but for rounding in float32, in which both are."""
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1.3e-6, atol=1e-5)


def refusal(*arguments, error=NothingToCompare):
    with pytest.raises(error) as refused:
        opened(*arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("config", "scale"),
    [({}, 4.0), ({"lora_alpha": 2}, 1.0), ({"use_rslora": True}, 8 / 2**0.5), ({"lora_alpha": -3}, -1.5)],
)
def test_the_product_of_the_factors_is_added_by_its_scale(model, config, scale):
    plain = open_checkpoint(resolve(str(model))).read(f"{UP}.weight")
    first, second = (factor.numpy() for factor in factors().values())
    close(opened(model, config).read(f"{UP}.weight"), plain + np.float32(scale) * second @ first)


def test_what_has_no_factors_is_read_as_it_is(model):
    name = UP.replace("up", "down") + ".weight"
    assert np.array_equal(opened(model).read(name), open_checkpoint(resolve(str(model))).read(name))


def test_a_matrix_that_is_stored_the_other_way_gets_the_product_the_other_way(tmp_path):
    model = tiny_gpt2(tmp_path / "gpt2")
    name = "h.0.mlp.c_fc"
    tensors = factors(f"transformer.{name}", out=4 * WIDTH)
    plain = open_checkpoint(resolve(str(model))).read(f"{name}.weight")
    found = opened(model, {"target_modules": ["c_fc"], "fan_in_fan_out": True}, tensors, {f"{name}.weight": True})
    first, second = (factor.numpy() for factor in tensors.values())
    close(found.read(f"{name}.weight"), plain + np.float32(4.0) * (second @ first).T)


def test_both_factors_come_before_they_are_read_and_go_with_the_weights(model):
    found = opened(model)
    found.prefetch(f"{UP}.weight", "model.norm.weight")
    assert found.read(f"{UP}.weight").dtype == np.float32
    found.release()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "the adapter is of the kind IA3"),
        ({"peft_type": "x\n"}, r"the adapter is of the kind x\n"),
        ({"use_bdlora": True}, "adapter_config.json sets `use_bdlora`, which is more than a plain LoRA"),
        ({"bias": "all"}, "adapter_config.json sets `bias`"),
        ({"init_lora_weights": "pissa"}, "adapter_config.json sets `init_lora_weights`"),
        ({"modules_to_save": ["head"]}, "adapter_config.json sets `modules_to_save`"),
        ({"r": 0}, "adapter_config.json has no rank and scale"),
        ({"r": True}, "adapter_config.json has no rank and scale"),
        ({"r": 2.5}, "adapter_config.json has no rank and scale"),
        ({"r": 2**21}, "adapter_config.json has no rank and scale"),
        ({"lora_alpha": float("nan")}, "adapter_config.json has no rank and scale"),
        ({"lora_alpha": "8"}, "adapter_config.json has no rank and scale"),
        ({"r": 3}, "does not fit its matrix, or the rank of adapter_config.json"),
        ({"target_modules": ["down_proj"]}, "which its `target_modules` do not name"),
        ({"target_modules": ".*up_proj"}, "which its `target_modules` do not name"),
        ({"target_modules": None}, "which its `target_modules` do not name"),
    ],
)
def test_what_is_more_or_less_than_a_plain_lora_is_refused(model, config, message):
    assert message in refusal(model, config)


@pytest.mark.parametrize(
    "config", [{"target_modules": "all-linear"}, {"bias": "none"}, {"init_lora_weights": "gaussian"}]
)
def test_what_changes_nothing_may_be_set(model, config):
    assert opened(model, config).read(f"{UP}.weight").shape == (HIDDEN, WIDTH)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            {"base_model.model.x.bias": torch.ones(2)},
            "the adapter holds base_model.model.x.bias, which is not a factor",
        ),
        (
            factors() | {"magnitude": torch.ones(2, 2)},
            "the adapter holds magnitude, which is not a factor of a plain LoRA",
        ),
        ({name: each.int() for name, each in factors().items()}, "which is not a factor of a plain LoRA"),
        (factors("model.layers.9.mlp.up_proj"), "which is not stored as one matrix"),
        (factors(out=HIDDEN + 1), "does not fit its matrix,"),
        (factors(inn=WIDTH + 1), "does not fit its matrix,"),
        (factors(rank=3), "does not fit its matrix,"),
    ],
)
def test_factors_that_fit_nothing_are_refused(model, tensors, message):
    assert message in refusal(model, {}, tensors)


@pytest.mark.parametrize("which", ["A", "B"])
def test_a_factor_without_the_other_is_damage(model, which):
    assert "without its other factor" in refusal(model, {}, factors(which=which), error=CheckpointError)


def test_an_adapter_without_weights_does_not_load(model):
    (model / "adapter_config.json").write_text(json.dumps(PLAIN))
    repo = resolve(str(model))
    with pytest.raises(NothingToCompare, match=r"adapter_config\.json has no adapter_model\.safetensors beside it,"):
        adapted(repo, open_checkpoint(repo), {})


def test_what_is_beside_the_weights_and_what_it_was_trained_on(model):
    repo = resolve(str(model))
    assert (adapter_beside(repo), adapter_base(repo)) == (False, None)
    (model / "adapter_config.json").write_text(json.dumps(PLAIN))
    repo = resolve(str(model))
    assert (adapter_beside(repo), adapter_base(repo)) == (False, "a/b")  # without weights it makes no other model
    (model / "adapter_model.bin").write_bytes(b"weights")
    assert adapter_beside(resolve(str(model)))


def test_only_matrices_to_which_nothing_is_added_are_read_by_rows(model):
    checkpoint = opened(model)
    gate = UP.replace("up", "gate") + ".weight"
    assert checkpoint.rows(f"{UP}.weight") is None
    pieces = [checkpoint.rows(gate).tensor.rows(slice(row, row + 2)) for row in (6, 1)]
    checkpoint.prefetch_pieces(pieces)
    np.testing.assert_array_equal(checkpoint.read_pieces(gate, pieces), checkpoint.read(gate)[[6, 7, 1, 2]])
