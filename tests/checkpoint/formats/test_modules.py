"""Modules: what belongs to one quantized matrix, and one clear line where it does not fit."""

from pathlib import Path

import pytest

from hf_lineage.checkpoint.formats.modules import Module, Quantized, count, method, pair, settings
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare


def stored(dtype, *shape):
    return StoredTensor(Path("file"), dtype, shape, 0)


BYTES = frozenset({"I8"})
TOY = Quantized(
    "TOY",
    frozenset({"toy"}),
    (".bytes",),
    (".scale",),
    lambda module, _: TensorInfo((2, 3), module.names(".bytes"), itemsize=4),
)
CONFIG = {"quantization_config": {"quant_method": "toy"}}
WHOLE = {"a.bytes": stored("I8", 2, 3), "a.scale": stored("F32", 2), "norm.weight": stored("F32", 3)}


def test_the_settings_are_those_of_the_configuration_in_either_place():
    assert settings(CONFIG) == {"quant_method": "toy"}
    assert settings({"compression_config": {"format": "dense"}}) == {"format": "dense"}
    assert settings({"quantization_config": ["toy"]}) == settings({}) == {}


@pytest.mark.parametrize("key", ["load_in_4bit", "load_in_8bit"])
def test_the_older_settings_of_bitsandbytes_name_no_method(key):
    assert method({"quantization_config": {key: True}}) == "bitsandbytes"


@pytest.mark.parametrize(("said", "name"), [("toy", "toy"), ("TOY", "toy"), (None, ""), (["toy"], ""), (7, "")])
def test_the_name_of_the_quantization_is_a_text_or_nothing(said, name):
    assert method({"quantization_config": {"quant_method": said}}) == name


def test_a_number_of_the_settings_is_a_positive_integer_or_all():
    assert count({"bits": 4}, "bits") == 4
    assert count({}, "group_size", -1) == -1
    for odd in (0, -2, True, 2.0, "4", None, 2**40, [4]):
        with pytest.raises(CheckpointError, match="`bits` of quantization_config must be a positive integer, not"):
            count({"bits": odd}, "bits")


def test_a_pair_is_two_positive_integers_and_nothing_else():
    assert pair([128, 64]) == (128, 64)
    assert [pair(odd) for odd in (None, [1], [0, 1], ["1", 2], [True, 2], (1, 2), {1: 2, 2: 3})] == [None] * 7


def test_a_format_is_recognised_by_its_name_and_by_a_packed_matrix():
    assert TOY.recognises(WHOLE, CONFIG)
    assert not TOY.recognises(WHOLE, {})
    assert not TOY.recognises(WHOLE, {"quantization_config": {"quant_method": "other"}})
    assert not TOY.recognises({"norm.weight": stored("F32", 3)}, CONFIG)
    assert not TOY.recognises({"a.bytes": stored("F32", 2, 3)}, CONFIG)


def test_matrices_stand_for_their_parts_and_everything_else_is_plain():
    tensors = TOY.tensors(WHOLE, CONFIG)
    assert {name: info.parts for name, info in tensors.items()} == {
        "a.weight": ("a.bytes",),
        "norm.weight": ("norm.weight",),
    }


@pytest.mark.parametrize("twin", ["F32", "I8"])
def test_a_matrix_that_is_stored_in_two_ways_is_not_judged(twin):
    with pytest.raises(NothingToCompare, match=r"a\.weight is stored in two ways, once as TOY: loaders disagree"):
        TOY.tensors(WHOLE | {"a.weight": stored(twin, 2, 3)}, CONFIG)


def test_eight_bit_floats_left_over_lack_their_scales():
    with pytest.raises(CheckpointError, match=r"b\.weight is stored as F8_E4M3 without its scales; download"):
        TOY.tensors(WHOLE | {"b.weight": stored("F8_E4M3", 2, 3)}, CONFIG)


def test_a_part_that_is_missing_or_stored_otherwise_is_named():
    module = Module("a", {".bytes": stored("I8", 2, 3), ".flat": stored("I8", 6), ".none": stored("I8", 0, 3)})
    assert module.shape(".bytes", BYTES) == module.matrix(".bytes", BYTES) == (2, 3)
    for wrong, message in (
        (lambda: module.shape(".scale", BYTES), r"a\.scale is missing, and a\.bytes cannot be decoded"),
        (lambda: module.shape(".bytes", frozenset({"U8"})), r"a\.bytes is stored as I8, but its format needs U8"),
        (
            lambda: module.shape(".bytes", BYTES, (3, 2)),
            r"a\.bytes has shape \(2, 3\), but the rest of its matrix needs",
        ),
        (lambda: module.matrix(".flat", BYTES), r"a\.flat has shape \(6,\), which is not the shape of a matrix"),
        (lambda: module.matrix(".none", BYTES), r"a\.none has shape \(0, 3\), which is not the shape of a matrix"),
    ):
        with pytest.raises(CheckpointError, match=message):
            wrong()
    assert str(module.damaged("holds no order")) == "a holds no order; download the weights again"
