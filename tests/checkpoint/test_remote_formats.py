"""Quantized models on the Hub: only the stored parts of what is compared are downloaded, and what describes them."""

import re

import pytest

from hf_lineage import Options, compare
from hf_lineage.checkpoint import remote as reading
from hf_lineage.checkpoint.stored import header
from hf_lineage.hub import ranges
from hf_lineage.hub.repo import resolve
from tests.checkpoint.formats.test_bitsandbytes import FOUR, four_bits
from tests.checkpoint.formats.test_gptq import AWQ, awq
from tests.models import WEIGHTS, open_checkpoint
from tests.quantizing import BASE, opened, repacked

CHILD = "fern/quantized"
MODELS = {"AWQ": (awq(), AWQ), "NF4": (four_bits(nested=True), FOUR)}


@pytest.fixture(params=MODELS)
def folder(request, online, tmp_path, monkeypatch):
    """A quantized model on the Hub, of which nothing more is read than what is asked for."""
    monkeypatch.setattr(ranges, "HEAD", 8)
    monkeypatch.setattr(reading, "GAP", 0)
    pack, settings = MODELS[request.param]
    made = repacked(BASE, tmp_path / "model", pack, **settings)
    online.publish(CHILD, made)
    return made


def touched(hub, folder):
    """The stored tensors of which any byte was sent."""
    parts = [part for part in hub.parts if part.file == f"{CHILD}/{WEIGHTS}"]
    return {
        name
        for name, tensor in header(folder / WEIGHTS, WEIGHTS)
        if any(part.start < tensor.start + tensor.size and tensor.start < part.stop for part in parts)
    }


def test_only_the_parts_of_what_is_compared_are_downloaded(online, folder):
    outcome = compare(CHILD, str(BASE), Options(seed=0, recompute=True, paths=("mlp",))).rows[0].verdict
    assert outcome.code == "inherited"
    names = touched(online, folder)
    assert {name for name in names if ".mlp." in name} == {
        name for name, _ in header(folder / WEIGHTS, WEIGHTS) if ".mlp." in name
    }
    rest = {name for name in names if ".mlp." not in name and "norm" not in name}
    beside = {name for name in rest if re.search(r"self_attn\.(v|o)_proj\.|embed_tokens", name)}
    assert all(".layers.0." in name and "quant_state" in name for name in rest - beside)
    # What the MLPs are added to is known from the attention of some of the layers, which has to be decoded as a whole.
    assert len({name.split(".")[2] for name in beside if ".layers." in name and "quant_state" not in name}) <= 4


def test_one_matrix_is_that_on_disk(online, folder):
    repo = resolve(CHILD)
    checkpoint = open_checkpoint(repo, repo.config())
    name = "model.layers.3.mlp.down_proj.weight"
    assert (checkpoint.read(name) == opened(folder).read(name)).all()
    checkpoint.release()
    described = {part for part in touched(online, folder) if "quant_state" in part and ".layers.0." in part}
    assert touched(online, folder) - described == set(checkpoint.tensors[name].parts)
    assert len(described) in (0, 7)
