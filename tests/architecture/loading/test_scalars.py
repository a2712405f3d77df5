import math

import numpy as np
import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loading.kinds import kinds, parts
from hf_lineage.architecture.loading.scalars import scalar_reservations
from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.errors import NothingToCompare
from tests.conformance import build_tiny_model, variants

GEMMA = "Gemma4TextModel"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_tiny_model(GEMMA, tmp_path_factory.mktemp("tiny"), variants(GEMMA)[1])


def said(tiny, **stored):
    """What is said of a tiny model, other numbers in place of those of some tensors."""

    def read(name):
        values = tiny.read(name).copy()
        values[...] = stored.get(name.rpartition(".")[2], values)
        return values

    config = tiny.model.config.to_dict()
    return list(scalar_reservations(tiny.layout, tiny.shapes, read, parts(config, None)))


def test_what_training_leaves_is_nothing_to_say(tiny):
    assert said(tiny, per_expert_scale=1.0, layer_scalar=0.5) == []


@pytest.mark.parametrize("value", [0.0, 1e-7, -1e-9, math.nan])
def test_experts_that_are_multiplied_with_nothing_are_named_once_for_all_layers(tiny, value):
    (sentence,) = said(tiny, per_expert_scale=value, layer_scalar=1.0)
    assert sentence.startswith("layers.0.router.per_expert_scale holds numbers of the size ")
    assert sentence.endswith("(1 more layers have such a tensor too)")


def test_one_expert_that_is_multiplied_with_nothing_is_enough(tiny):
    assert len(said(tiny, per_expert_scale=np.array([1.0, 1.0, 0.0, 1.0]), layer_scalar=1.0)) == 1


def test_of_a_number_for_each_coordinate_the_mean_counts(tiny):
    some = np.where(np.arange(32) % 2, 0.0, 1.0)
    assert said(tiny, per_expert_scale=1.0, layer_scalar=1.0, weight=some) == []
    assert len(said(tiny, per_expert_scale=1.0, layer_scalar=1.0, weight=1e-5)) == 1


def test_a_tensor_that_cannot_be_read_or_has_no_numbers_is_a_reason_too(tiny):
    def refused(name):
        raise NothingToCompare(f"{name} is stored in a way that nobody knows")

    config, shapes = tiny.model.config.to_dict(), dict(tiny.shapes)
    found = list(scalar_reservations(tiny.layout, shapes, refused, parts(config, None)))
    assert any("is stored in a way that nobody knows; it decides whether a branch" in each for each in found)
    shapes["layers.0.router.per_expert_scale"] = (0,)
    found = list(scalar_reservations(tiny.layout, shapes, tiny.read, parts(config, None)))
    assert any(each.startswith("layers.0.router.per_expert_scale has shape (0,)") for each in found)


def test_a_type_without_such_tensors_reads_nothing(tmp_path):
    assert kinds()["llama"].small == {}
    found = build_tiny_model("LlamaModel", tmp_path, {})
    config = found.model.config.to_dict()
    layout = bind(lookup(config)[1], found.shapes, config)
    assert list(scalar_reservations(layout, found.shapes, None, parts(config, None))) == []
