"""What the benchmarks write is what the package reads."""

import ml_dtypes
import numpy as np
import pytest

from benchmarks.shapes import QUICK
from benchmarks.tasks import blocks
from benchmarks.writing import write_model, write_signatures
from hf_lineage import compare, extract
from hf_lineage.checkpoint.opening import open_checkpoint
from hf_lineage.hub.reference import resolve
from tests.long import first_of


@pytest.mark.parametrize("name", first_of(["125M", "GPT-2", "70B"], count=2))
def test_a_child_is_related_to_its_parent_and_a_stranger_is_not(tmp_path, name):
    from dataclasses import replace

    parent, child = QUICK.model(name).pair
    models = [parent, child, replace(parent, name="stranger", seed=1)]
    for model in models:
        write_model(model, tmp_path / model.folder)
    a, b, c = (str(tmp_path / model.folder) for model in models)
    assert [compare(a, other).rows[0].verdict.name for other in (b, c)] == ["RELATED", "UNRELATED"]


def test_weights_are_ordinary_numbers(tmp_path):
    model = QUICK.model("125M", 1)
    write_model(model, tmp_path / "model")
    checkpoint = open_checkpoint(resolve(str(tmp_path / "model")))
    matrices = [name for name, tensor in checkpoint.tensors.items() if len(tensor.shape) > 1]
    gains = np.concatenate([checkpoint.read(name) for name in checkpoint.tensors.keys() - matrices]).astype(np.float32)
    assert 1 <= gains.min() <= gains.max() < 2
    weights = np.concatenate([checkpoint.read(name).ravel() for name in matrices])
    assert weights.dtype == ml_dtypes.bfloat16
    sizes = abs(weights.astype(np.float32))
    assert 2**-7 <= sizes.min() <= sizes.max() < 2**-3
    assert abs(weights.astype(np.float32).mean()) < 1e-3


def test_blocks_are_oriented_alike_in_both_layouts(tmp_path):
    for name in ("125M", "GPT-2"):
        model = QUICK.model(name, 1)
        write_model(model, tmp_path / name)
        ((w_in, w_out),) = blocks(tmp_path / name)
        width, hidden = model.shape.width, model.shape.hidden
        assert (w_in.shape, w_out.shape, w_in.dtype) == ((hidden, width), (width, hidden), np.float32)


def test_signatures_are_those_of_a_related_pair(tmp_path):
    write_signatures(tmp_path / "pair", QUICK.shapes["125M"])
    files = [str(tmp_path / "pair" / f"{name}.sig") for name in "ab"]
    assert compare(*files).rows[0].verdict.name == "RELATED"


def test_the_tokenizer_is_one(tmp_path):
    from transformers import AutoTokenizer

    write_model(QUICK.model("125M", 1), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer("word7 word12 nonsense").input_ids == [7, 12, 0]
    assert len(tokenizer) == QUICK.shapes["125M"].vocabulary
    assert extract(str(tmp_path / "model")).layers == 1
