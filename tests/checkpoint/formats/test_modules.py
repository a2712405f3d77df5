"""Modules: what belongs to one quantized matrix, and which ones config.json leaves out."""

import contextlib
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hf_lineage.checkpoint.formats import modules
from hf_lineage.checkpoint.formats.table import tensors_of
from hf_lineage.checkpoint.tensor import DTYPES, StoredTensor, as_stored
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.formats.test_scaled import FP8, blocks
from tests.models import spoil
from tests.quantizing import BASE, decoded, refused, repacked

UP = "model.layers.1.mlp.up_proj"
LEFT_OUT = [UP, "up_proj", "model.layers.1", "model.layers.1.mlp", "re:.*up_proj", "re:.*up_proj$"]
LEFT_OUT += (r"re:model\.layers\.\d+\.mlp.*", "re:.*mlp.(up|down)_proj")
TAKEN = ("model.layers.10", "model.layers.1.mlp.up", "re:.*self_attn.*", "re:visual.*", "lm_head", 7, "")
HOSTILE = ["(a+)+$", "(.*.*)*x", ".*.*.*.*x", r"(a)\1*", "(?=a)", "(", "[", "*", "a" * 101 + "*"]
BYTES = frozenset({"I8"})
CONFIG, QUANTIZED = ({"quantization_config": {"quant_method": method}} for method in ("toy", "gptq"))


@pytest.mark.parametrize("key", modules.KEYS)
def test_a_module_is_left_out_by_its_name_or_by_a_pattern_in_a_list(key):
    for entry in (*LEFT_OUT, *TAKEN):
        assert modules.left_out({key: ["lm_head", entry]})(UP) is (entry in LEFT_OUT), entry
    for value in (None, "up_proj", {"up_proj": 1}, 7, [["up_proj"]]):
        assert not modules.left_out({key: value})(UP)


@pytest.mark.parametrize("entry", HOSTILE)
def test_a_pattern_that_could_take_for_ever_or_is_none_is_not_followed(entry):
    with pytest.raises(NothingToCompare, match="by a pattern that hf-lineage cannot read: "):
        modules.left_out({"ignore": [f"re:{entry}"]})


def test_the_worst_that_is_followed_takes_no_time_and_too_many_are_not_followed():
    matches = modules.left_out({"ignore": ["re:.*a.*a.*b"] * 10})
    start = time.perf_counter()
    assert not matches("a" * 10**5)
    assert time.perf_counter() - start < 1
    with pytest.raises(NothingToCompare, match="leaves 5000 modules out of the quantization, too many to follow"):
        modules.left_out({"ignore": ["a"] * 5000})


def test_scales_that_a_loader_would_not_read_make_no_model_and_plain_ones_are_read(tmp_path):
    """A scale for each number makes any model of any other; a loader that leaves the module out takes neither."""

    def pack(matrix):
        return {".weight": torch.ones(matrix.shape).to(torch.float8_e4m3fn), ".weight_scale_inv": matrix}

    settings = FP8 | {"weight_block_size": [1, 1], "modules_to_not_convert": ["lm_head", "up_proj"]}
    error = refused(tmp_path, pack, settings)
    told = "is stored as FP8, but config.json leaves it out of the quantization: loaders disagree on how to read it"
    assert error == f"Ambiguous: org/model: model.layers.0.mlp.up_proj.weight {told}; make the two agree"
    settings = FP8 | {"weight_block_size": [16, 32], "modules_to_not_convert": [UP, "lm_head"]}
    folder = repacked(BASE, tmp_path / "plain", blocks(16, 32), **settings)

    def plain(tensors):
        tensors[f"{UP}.weight"] = tensors[f"{UP}.weight"].float()
        del tensors[f"{UP}.weight_scale_inv"]

    assert decoded(spoil(folder, plain))[UP].dtype == "float32"


def stored(dtype, *shape):
    return StoredTensor(Path("file"), dtype, shape, 0)


def decode(module, _):
    return module.tensor((2, 3), (".bytes",), as_stored, "")


TOY = modules.Format("TOY", frozenset({"toy"}), (".bytes",), (".scale",), decode)
NORM = {"norm.weight": stored("F32", 3)}
WHOLE = {"a.bytes": stored("I8", 2, 3), "a.scale": stored("F32", 2), **NORM}


def test_settings_stand_in_either_place_and_their_numbers_are_positive_integers():
    assert modules.settings(CONFIG) == {"quant_method": "toy"}
    assert modules.settings({"compression_config": {"format": "dense"}}) == {"format": "dense"}
    assert modules.settings({"quantization_config": ["toy"]}) == modules.settings({}) == {}
    names = {"toy": "toy", "TOY": "toy", None: "", ("toy",): "", 7: ""}
    assert {said: modules.method({"quantization_config": {"quant_method": said}}) for said in names} == names
    for key in ("load_in_4bit", "load_in_8bit"):  # of older settings
        assert modules.method({"quantization_config": {key: True}}) == "bitsandbytes"
    assert (modules.count({"bits": 4}, "bits"), modules.count({}, "group_size", -1)) == (4, -1)
    for odd in (0, -2, True, 2.0, "4", None, 2**40, [4]):
        with pytest.raises(CheckpointError, match="`bits` must be a positive integer, not"):
            modules.count({"bits": odd}, "bits")
    assert modules.pair([128, 64]) == (128, 64)
    assert [modules.pair(odd) for odd in (None, [1], [0, 1], ["1", 2], [True, 2], (1, 2), {1: 2, 2: 3})] == [None] * 7


def test_a_format_is_recognised_and_its_matrices_stand_for_their_parts():
    assert TOY.recognises(WHOLE, CONFIG)
    other = {"a.bytes": stored("F32", 2, 3)}
    for tensors, config in ((WHOLE, {}), (WHOLE, QUANTIZED), (NORM, CONFIG), (other, CONFIG)):
        assert not TOY.recognises(tensors, config)
    parts = {name: info.parts for name, info in TOY.tensors(WHOLE, CONFIG).items()}
    assert parts == {"a.weight": ("a.bytes",), "norm.weight": ("norm.weight",), "a.scale": ("a.scale",)}
    assert replace(TOY, inert=(".scale",)).tensors(WHOLE, CONFIG).keys() == {"a.weight", "norm.weight"}
    for dtype in DTYPES:
        (info,) = modules.plain_tensors({"a": stored(dtype, 2, 3)}).values()
        read = dtype in modules.FLOATS | modules.CAST
        assert (info.shape, info.parts, not info.refusal) == ((2, 3), ("a",), read)
        assert read or info.refusal.startswith(f"is stored as {dtype}, and config.json does not say how")


@pytest.mark.parametrize(("name", "dtype"), [("a", "F32"), ("a", "I8"), ("b", "F8_E4M3")])
def test_a_matrix_that_is_stored_in_two_ways_or_lacks_its_scales_is_not_judged(name, dtype):
    twice = r"a\.weight is stored in two ways, once as TOY: loaders disagree"
    lacks = r"b\.weight is stored as F8_E4M3 without its scales; have"
    with pytest.raises(NothingToCompare if name == "a" else CheckpointError, match=f"{twice}|{lacks}"):
        TOY.tensors(WHOLE | {f"{name}.weight": stored(dtype, 2, 3)}, CONFIG)


def test_a_part_that_is_missing_or_stored_otherwise_is_named():
    module = modules.Module("a", {".bytes": stored("I8", 2, 3), ".flat": stored("I8", 6), ".none": stored("I8", 0, 3)})
    assert module.shape(".bytes", BYTES) == module.matrix(".bytes", BYTES) == (2, 3)
    assert str(module.make_error("holds no order")) == "a holds no order; have the weights saved again"
    for read, asked, message in (
        (module.shape, (".scale", BYTES), "a.scale is missing, and a.bytes cannot be decoded"),
        (module.shape, (".bytes", frozenset({"U8"})), "a.bytes is stored as I8, but its format needs U8"),
        (module.shape, (".bytes", BYTES, (3, 2)), "a.bytes has shape (2, 3), but the rest of its matrix needs"),
        (module.matrix, (".flat", BYTES), "a.flat has shape (6,), which is not the shape of a matrix"),
        (module.matrix, (".none", BYTES), "a.none has shape (0, 3), which is not the shape of a matrix"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            read(*asked)


PLAIN = {"a": stored("F32", 2, 3)}
PACKED = PLAIN | {"packed": stored("I32", 2, 3)}


@pytest.mark.parametrize(
    ("tensors", "config", "recognised"),
    [
        (PLAIN | {"b": stored("BF16", 2, 3)}, {}, True),
        (PLAIN, QUANTIZED, True),  # quantized only once it is loaded
        (PLAIN | {"counter": stored("I64", 2, 3)}, {}, True),
        (PACKED, QUANTIZED, False),
        (PACKED, {"quantization_config": None}, True),
        ({}, QUANTIZED, True),
    ],
)
def test_it_is_any_checkpoint_but_one_that_says_it_is_quantized_and_is(tensors, config, recognised):
    with contextlib.nullcontext() if recognised else pytest.raises(NothingToCompare):
        assert tensors_of(tensors, config).keys() == tensors.keys()
