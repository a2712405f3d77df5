"""Where a base holds the matrices of an adapter, by the registry's layout, and which can be tested."""

from dataclasses import replace

import msgspec
import pytest

from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora import placement
from hf_lineage.lora.placement import outside
from hf_lineage.source.config import described
from hf_lineage.source.headers import opened
from tests import pictures
from tests.adapters import everything, lora_of, opened_base
from tests.models import HIDDEN, WIDTH, edit_json, tiny_llama


@pytest.fixture
def llama(tmp_path):
    return opened_base(tiny_llama(tmp_path / "base"))


def placed(folder, base, prefix, **settings):
    """Where a base has the module of an adapter whose name begins so."""
    return placement.find_places(base, lora_of(folder, (f"{prefix}layers.0.mlp.up_proj", HIDDEN, WIDTH), **settings))


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


def test_coordinates_that_are_not_exchangeable_are_not_permuted(tmp_path, llama):
    lora = lora_of(tmp_path / "lora", *everything())
    changed = msgspec.structs.replace(llama.layout.factorization, exchangeable=False)
    fixed = replace(llama, layout=replace(llama.layout, factorization=changed))
    roles = {place.role for place in placement.testable(placement.find_places(fixed, lora), fixed)}
    assert roles == {"up", "gate", "value"}


@pytest.fixture(scope="module")
def unet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    pictures.pipeline(folder, 0)
    return folder / "unet"


def sizes(unet, counts):
    edit_json(unet / "config.json", attention_head_dim=counts)
    pairs = [layer_set for _, layer_set in outside(opened(described(RepoRef("acme/unet", unet))))]
    return {(layer_set.width, layer_set.heads["value"].size) for layer_set in pairs}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (4, {(32, 8), (64, 16)}),
        ([2, 4], {(32, 8), (64, 16)}),
        ([2, 3], {(32, 16), (64, 32)}),
        (1, {(32, 32), (64, 64)}),
    ],
)
def test_rows_are_grouped_by_what_divides_a_head_whichever_number_counts(unet, counts, expected):
    assert sizes(unet, counts) == expected


@pytest.mark.parametrize("counts", [None, 0, -2, "2", True, 2.0, [], [2, None], [2] * 65, 3, 64, {"a": 2}])
def test_without_a_number_of_heads_nothing_is_paired(unet, counts):
    assert sizes(unet, counts) == set()


def test_a_model_whose_registry_file_names_no_pair_has_none(tmp_path):
    assert list(outside(opened(described(RepoRef("acme/base", tiny_llama(tmp_path / "base")))))) == []
