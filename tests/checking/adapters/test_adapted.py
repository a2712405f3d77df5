"""Where a base holds the matrices of an adapter, by the registry's layout, and which can be tested."""

from dataclasses import replace

import msgspec
import pytest

from hf_lineage.checking.adapters import adapted
from tests.adapters import MLP, everything, lora_of, opened_base
from tests.models import HIDDEN, WIDTH, tiny_llama


@pytest.fixture
def llama(tmp_path):
    return opened_base(tiny_llama(tmp_path / "base"))


def placed(folder, base, prefix, **settings):
    """Where a base has the module of an adapter whose name begins so."""
    return adapted.find_places(base, lora_of(folder, (f"{prefix}layers.0.mlp.up_proj", HIDDEN, WIDTH), **settings))


@pytest.mark.parametrize("prefix", ["model.", ""])
def test_with_the_prefix_of_the_class_or_without_it_is_the_same_module(tmp_path, llama, prefix):
    places = placed(tmp_path / "lora", llama, prefix)
    assert [place.slot.role for place in places.everything] == ["up"]
    assert places.absent == places.idle == ()


@pytest.mark.parametrize(
    ("prefix", "task"), [("language_model.model.", None), ("model.model.", None), ("", "CAUSAL_LM")]
)
def test_a_name_that_no_module_of_the_class_has_is_idle(tmp_path, llama, prefix, task):
    places = placed(tmp_path / "lora", llama, prefix, task_type=task)
    assert places.everything == ()
    assert places.idle == (f"{prefix}layers.0.mlp.up_proj",)


def test_a_name_that_the_base_does_not_have_is_absent(tmp_path, llama):
    name = "model.layers.7.mlp.up_proj"
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", (name, HIDDEN, WIDTH)))
    assert places == adapted.Places((), (name,), ())


def test_what_does_not_fit_is_named_with_both_shapes(tmp_path, llama):
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", (MLP.format(0, "up"), 64, WIDTH)))
    assert places.unfit == ("model.layers.0.mlp.up_proj is 64 x 32, not 48 x 32",)


def test_an_adapted_embedding_is_no_place_in_a_layer(tmp_path, llama):
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", ("model.embed_tokens", 50, WIDTH)))
    assert places == adapted.Places((), (), ())


def test_coordinates_that_are_not_exchangeable_are_not_permuted(tmp_path, llama):
    lora = lora_of(tmp_path / "lora", *everything())
    changed = msgspec.structs.replace(llama.layout.factorization, exchangeable=False)
    fixed = replace(llama, layout=replace(llama.layout, factorization=changed))
    roles = {place.role for place in adapted.testable(adapted.find_places(fixed, lora), fixed)}
    assert roles == {"up", "gate", "value"}
