"""Modules that config.json leaves out of the quantization are not judged if they are quantized all the same."""

import time

import pytest
import torch

from hf_lineage.checkpoint.formats.left_out import KEYS, left_out
from hf_lineage.errors import NothingToCompare
from tests.checkpoint.formats.test_fp8 import FP8, blocks
from tests.models import spoil
from tests.quantizing import BASE, decoded, refused, repacked

UP = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("entry", "matched"),
    [
        (UP, True),
        ("up_proj", True),
        ("model.layers.1", True),
        ("model.layers.1.mlp", True),
        ("re:.*up_proj", True),
        ("re:.*up_proj$", True),
        (r"re:model\.layers\.\d+\.mlp.*", True),
        ("re:.*mlp.(up|down)_proj", True),
        ("model.layers.10", False),
        ("model.layers.1.mlp.up", False),
        ("re:.*self_attn.*", False),
        ("re:visual.*", False),
        ("lm_head", False),
        (7, False),
        ("", False),
    ],
)
def test_a_module_is_left_out_by_its_name_or_by_a_pattern(key, entry, matched):
    assert left_out({key: ["lm_head", entry]})(UP) is matched


@pytest.mark.parametrize("value", [None, "up_proj", {"up_proj": 1}, 7, [["up_proj"]]])
def test_anything_but_a_list_of_names_leaves_nothing_out(value):
    assert not left_out({"ignore": value})(UP)


@pytest.mark.parametrize(
    "entry", ["(a+)+$", "(.*.*)*x", ".*.*.*.*x", r"(a)\1*", "(?=a)", "(", "[", "*", "a" * 101 + "*"]
)
def test_a_pattern_that_could_take_for_ever_or_is_none_is_not_followed(entry):
    with pytest.raises(NothingToCompare, match="by a pattern that hf-lineage cannot read: "):
        left_out({"ignore": [f"re:{entry}"]})


def test_the_worst_that_is_followed_takes_no_time():
    matches = left_out({"ignore": ["re:.*a.*a.*b"] * 10})
    start = time.perf_counter()
    assert not matches("a" * 10**5)
    assert time.perf_counter() - start < 1


def test_too_many_entries_are_not_followed():
    with pytest.raises(NothingToCompare, match="leaves 5000 modules out of the quantization, too many to follow"):
        left_out({"ignore": ["a"] * 5000})


def test_scales_that_a_loader_would_not_read_do_not_make_another_model(tmp_path):
    """A scale for each number makes any model of any other; a loader that leaves the module out takes neither."""

    def pack(matrix):
        return {".weight": torch.ones(matrix.shape).to(torch.float8_e4m3fn), ".weight_scale_inv": matrix}

    settings = FP8 | {"weight_block_size": [1, 1], "modules_to_not_convert": ["lm_head", "up_proj"]}
    error = refused(repacked(BASE, tmp_path / "model", pack, **settings))
    assert error == (
        "NothingToCompare: org/model: model.layers.0.mlp.up_proj.weight is stored as FP8, but config.json leaves it "
        "out of the quantization: loaders disagree on how to read it; make the two agree"
    )


def test_what_is_left_out_and_is_plain_is_read(tmp_path):
    settings = FP8 | {"weight_block_size": [16, 32], "modules_to_not_convert": [UP, "lm_head"]}
    folder = repacked(BASE, tmp_path / "model", blocks(16, 32), **settings)

    def plain(tensors):
        tensors[f"{UP}.weight"] = tensors[f"{UP}.weight"].float()
        del tensors[f"{UP}.weight_scale_inv"]

    assert decoded(spoil(folder, plain))[UP].dtype == "float32"
