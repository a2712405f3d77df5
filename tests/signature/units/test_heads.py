"""Head products: what a head computes, whatever stands between its two matrices and whatever its coordinates are."""

import numpy as np
import pytest
import torch

from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.units import head_products
from tests.streams import HUB, WIDTH, rotated, turn, written

SIZE = 24
STREAM = np.eye(WIDTH, dtype=np.float32)


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


@pytest.mark.parametrize(
    ("change", "through"), [(mapped, STREAM), (rotated, turn().numpy())], ids=["mapped", "rotated"]
)
def test_heads_are_the_same_after_what_keeps_their_function(tmp_path, change, through):
    base = heads_of(HUB / "acme/llama-base")
    other = heads_of(written("acme/llama-base", tmp_path / "model", change), through)
    assert np.vecdot(base.directions, other.directions).min() > 0.9999
    assert other.weight == pytest.approx(base.weight, rel=1e-3)


def test_heads_of_an_independent_model_have_nothing_in_common_with_them():
    base, other = (heads_of(HUB / name) for name in ("acme/llama-base", "otter/llama-independent"))
    assert np.abs(base.directions @ other.directions.T).max() < 0.2


def test_no_head_outweighs_the_others_of_its_layer(tmp_path):
    def loud(tensors):
        name = "model.layers.0.self_attn.o_proj.weight"
        return tensors | {name: torch.cat([100 * tensors[name][:, :SIZE], tensors[name][:, SIZE:]], dim=1)}

    weight = heads_of(written("acme/llama-base", tmp_path / "model", loud)).weight
    assert weight[0] == weight.max()
    assert (weight == weight[0]).sum() > 1
