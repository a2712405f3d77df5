"""Hidden units of layers, with and without experts, as they are read."""

import numpy as np
import pytest
import torch

from hf_lineage import extract
from hf_lineage.architecture.layers import Heads, LayerSet
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import units
from hf_lineage.signature.units import View, experts_of, head_products, known_weights, unit_rows
from hf_lineage.source.headers import headers
from tests.models import tiny_gpt2, tiny_llama
from tests.streams import HUB, WIDTH, rotated, turn, written

SIZE = 24
STREAM = np.eye(WIDTH, dtype=np.float32)
WEIGHTS = [np.arange(1.0, 41), np.arange(41.0, 81), np.full(20, 100.0)]


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_what_units_weigh_is_measured_once_and_is_that_of_any_coordinates(tmp_path, make):
    folder = make(tmp_path / "model")
    model = headers(resolve(str(folder)))
    known = {}
    first = unit_rows(model.checkpoint, model.layout, [0, 1], View(np.eye(32, dtype=np.float32)[:8]), known)
    measured = dict(known)
    own = unit_rows(model.checkpoint, model.layout, [1], View(), known)
    assert (known, list(known)) == (measured, [0, 1])
    assert np.array_equal(own[1].weight, first[1].weight)
    assert np.allclose(own[1].inner[:, :8], first[1].inner, atol=1e-6)
    before = known_weights(extract(str(folder)), model.layout).weights
    assert before.keys() == known.keys()
    for number, (weight,) in known.items():
        assert np.allclose(before[number][0], weight / weight.sum(), rtol=1e-5)


def heads_of(folder, through=STREAM):
    model = headers(resolve(str(folder)))
    return head_products(model.checkpoint, model.layout, 0, through)


def mapped(tensors):
    """Every head through another basis, values three times as large."""
    inner = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0)))[0] * 3
    changed = dict(tensors)
    for name in tensors:
        if "v_proj" in name:
            changed[name] = torch.cat([inner @ head for head in tensors[name].split(SIZE)])
        elif "o_proj" in name:
            parts = [head @ torch.linalg.inv(inner) for head in tensors[name].split(SIZE, dim=1)]
            changed[name] = torch.cat(parts, dim=1)
    return changed


@pytest.mark.parametrize(("change", "through"), [(mapped, STREAM), (rotated, turn().numpy())])
def test_heads_are_the_same_after_what_keeps_their_function(tmp_path, change, through):
    base = heads_of(HUB / "acme/llama-base")
    other = heads_of(written("acme/llama-base", tmp_path / "model", change), through)
    assert np.vecdot(base.directions, other.directions).min() > 0.9999
    assert other.weight == pytest.approx(base.weight, rel=1e-3)


def test_independent_heads_have_nothing_in_common_and_none_outweighs_the_others(tmp_path):
    base, other = (heads_of(HUB / name) for name in ("acme/llama-base", "otter/llama-independent"))
    assert np.abs(base.directions @ other.directions.T).max() < 0.2

    def loud(tensors):
        name = "model.layers.0.self_attn.o_proj.weight"
        return tensors | {name: torch.cat([100 * tensors[name][:, :SIZE], tensors[name][:, SIZE:]], dim=1)}

    weight = heads_of(written("acme/llama-base", tmp_path / "model", loud)).weight
    assert weight[0] == weight.max()
    assert (weight == weight[0]).sum() > 1


def test_layers_have_a_part_for_each_expert_with_units_kept_in_the_same_places():
    def numbers(kept):
        return [part.tolist() for part in kept]

    assert numbers(units.in_the_same_places(100, 0)(WEIGHTS)) == numbers(units.everything(WEIGHTS))
    kept = numbers(units.in_the_same_places(50, 0)(WEIGHTS))
    assert (kept[0], len(kept[0]), len(kept[2])) == (kept[1], 20, 10)
    assert set(numbers(units.in_the_same_places(30, 0)(WEIGHTS))[0]) < set(kept[0])
    assert numbers(units.in_the_same_places(50, 1)(WEIGHTS)) != kept

    def a_set(units, stacked=()):
        return LayerSet({}, None, None, None, heads={"up": Heads(units, 1)}, stacked=stacked)

    assert experts_of([a_set(48)]) == ((48,),)
    assert experts_of([a_set(48, (3,)), a_set(96)]) == ((48,), (48,), (48,), (48, 48))
    assert experts_of([a_set(48), a_set(48), a_set(50)]) == ((48,), (48,), (50,))
    assert experts_of([a_set(8), a_set(64)]) == ((8,), (64,))
