"""A file is the quantization of its base and nothing else: honest ones are told so, and every edit of one is found."""

import shutil
import struct

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, extract
from hf_lineage.checking.strict import CodedRows, Tally
from hf_lineage.checkpoint.codes import MOST_CUT, Codes, filled_ends, uniform
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import OptionError
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.signature.store import save_signature
from tests import gguf_models
from tests.checking.conftest import compared
from tests.checkpoint.formats import test_bitsandbytes as test_bnb
from tests.checkpoint.formats import test_compressed_tensors as test_compressed
from tests.checkpoint.formats import test_grouped
from tests.models import WEIGHTS, card, edit_json, fine_tuned, spoil
from tests.quantizing import BASE, repacked

STRICT = Options(strict=True, seed=0)
QUERY, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.2.mlp.down_proj"
ROWS, COLUMNS = 8, 64


def verdict(candidate, base=BASE):
    return compared(base, candidate, STRICT).verdict


def held(candidate, base=BASE):
    return verdict(candidate, base).strict


def wrong(candidate, base=BASE):
    (found,) = held(candidate, base).beyond
    return found


@pytest.fixture(autouse=True)
def interpreted():
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def nf4(tmp_path):
    return repacked(BASE, tmp_path / "nf4", test_bnb.four_bits(nested=True), **test_bnb.FOUR)


@pytest.fixture
def file(tmp_path):
    return gguf_models.write(BASE, tmp_path / "gguf/model.gguf", kind=gguf.GGMLQuantizationType.Q4_0)


def test_a_copy_holds_the_same_numbers_and_a_quantization_is_told_with_its_format(tmp_path, nf4, file):
    outcome = verdict(shutil.copytree(BASE, tmp_path / "copy"))
    strict = outcome.strict
    assert (strict.holds, strict.right, strict.tensors, strict.what) == (True, 57, 57, "the same numbers as")
    assert (outcome.is_strict, outcome.exit_code) == (True, ExitCode.VERIFIED)
    for folder, name in ((nf4, "NF4 of bitsandbytes"), (file.parent, "Q4_0")):
        strict = held(folder)
        assert (strict.holds, strict.what) == (True, f"the quantization ({name}) of")


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_cast_is_told_with_its_format(tmp_path, dtype):
    base = shutil.copytree(BASE, tmp_path / "base")
    single = {name: one.float() + 1e-4 * torch.rand(one.shape) for name, one in load_file(base / WEIGHTS).items()}
    save_file(single, base / WEIGHTS)
    copy = shutil.copytree(base, tmp_path / "copy")
    save_file({name: tensor.to(getattr(torch, dtype)) for name, tensor in single.items()}, copy / WEIGHTS)
    strict = held(copy, base)
    assert (strict.holds, strict.what) == (True, f"the rounding to {dtype} of")
    spoil(copy, lambda tensors: tensors[f"{DOWN}.weight"][3, 4:5].view(torch.int16).add_(1))
    edited = wrong(copy, base)
    assert (edited.name, edited.place, edited.beyond, edited.excess) == (f"{DOWN}.weight", (3, 4), 1, 1.0)


def test_training_and_layers_that_changed_their_places_are_told_from_an_edit(tmp_path):
    tuned = verdict(fine_tuned(BASE, tmp_path / "tuned"))
    assert (tuned.strict.holds, tuned.strict.is_edit, len(tuned.strict.beyond)) == (False, False, 44)
    assert (tuned.label, tuned.exit_code) == ("RELATED changed", ExitCode.UNDECIDED)
    copy = spoil(shutil.copytree(BASE, tmp_path / "edited"), lambda own: own[f"{QUERY}.weight"][5, 6].mul_(2))
    strict = held(copy)
    assert (strict.is_edit, [one.name for one in strict.beyond]) == (True, [f"{QUERY}.weight"])
    copy = shutil.copytree(BASE, tmp_path / "copy")
    one, other = (f"model.layers.{layer}.mlp.up_proj.weight" for layer in (1, 3))
    rows = "model.embed_tokens.weight"
    spoil(copy, lambda tensors: tensors.update({one: tensors[other], other: tensors[one]}))
    assert len(held(copy).beyond) == 2
    copy = spoil(shutil.copytree(BASE, tmp_path / "other"), lambda own: own.update({rows: own[rows][:-1]}))
    assert wrong(copy).why.startswith("has shape (")


def test_one_number_of_a_packed_matrix_is_found_with_its_place_even_if_permuted(nf4, file):
    spoil(nf4, lambda tensors: tensors[f"{DOWN}.weight"].view(-1)[7:8].bitwise_xor_(0x80))
    edited = wrong(nf4)
    assert (edited.name, edited.place, edited.beyond, edited.excess > 1) == (f"{DOWN}.weight", (0, 14), 1, True)
    spoil_blocks(
        file, "blk.0.attn_q.weight", lambda block: block[:2] + bytes([block[2] ^ 0x08]) + block[3:], slice(3, 4)
    )
    order = np.arange(96).reshape(4, 12, 2).swapaxes(1, 2).reshape(-1)
    place = int(np.flatnonzero(order == 1)[0]), 0
    edited = wrong(file.parent)
    assert (edited.name, edited.place, edited.beyond) == (f"{QUERY}.weight", place, 1)


def spoil_blocks(file, name, change, chosen=slice(None)):
    """Write other blocks of Q4_0 into a tensor of a GGUF file."""
    reader = gguf.GGUFReader(file)
    (tensor,) = (one for one in reader.tensors if one.name == name)
    start, blocks = tensor.data_offset, np.array(tensor.data).reshape(-1, 18)
    del reader, tensor
    for number in range(len(blocks))[chosen]:
        blocks[number] = np.frombuffer(change(blocks[number].tobytes()), np.uint8)
    content = bytearray(file.read_bytes())
    content[start : start + blocks.size] = blocks.tobytes()
    file.write_bytes(content)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("scale", "code", "coarse"),
    [(1e-7, 0, False), (1e-7, 15, False), (60000.0, 8, True), (0.0, 8, False), (float("nan"), 8, False)],
)
def test_scales_with_which_every_code_is_as_good_as_another_are_found(file, scale, code, coarse):
    spoil_blocks(file, "blk.0.ffn_up.weight", lambda _: struct.pack("<e", scale) + bytes([code * 17] * 16), slice(5, 6))
    found = wrong(file.parent)
    assert (found.name, found.coarse == 1) == ("model.layers.0.mlp.up_proj.weight", coarse)
    assert coarse or found.beyond > 16


def test_a_grid_four_times_as_coarse_and_a_nested_scale_for_anything_are_found(file, nf4):
    def coarser(block):
        (scale,) = struct.unpack("<e", block[:2])
        codes = np.frombuffer(block[2:], np.uint8)
        halves = [8 + np.rint((half.astype(int) - 8) / 4).astype(int) for half in (codes & 15, codes >> 4)]
        return struct.pack("<e", 4 * scale) + bytes((halves[0] | halves[1] << 4).astype(np.uint8))

    spoil_blocks(file, "blk.0.ffn_up.weight", coarser, slice(9, 10))
    assert wrong(file.parent).coarse == 1

    def change(tensors):
        start = f"{DOWN}.weight"
        tensors[f"{start}.nested_absmax"] *= 1e4
        tensors[start].zero_()

    assert wrong(spoil(nf4, change)).name == f"{DOWN}.weight"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [f"{DOWN}.weight", "model.norm.weight", "model.embed_tokens.weight"])
def test_every_tensor_counts_that_is_not_quantized_too(nf4, name):
    spoil(nf4, lambda tensors: tensors[name].view(-1)[:1].view(torch.uint8).bitwise_xor_(0x3F))
    assert wrong(nf4).name == name


def test_settings_that_change_what_the_model_computes_are_told(nf4):
    edit_json(nf4 / "config.json", rms_norm_eps=1e-2, rope_scaling={"rope_type": "linear", "factor": 64.0})
    outcome = verdict(nf4)
    assert {*outcome.strict.settings} == {
        "rms_norm_eps is 0.01, and 1e-06 in the base",
        'rope_parameters.rope_type is "linear", and "default" in the base',
        "rope_parameters.factor is 64.0, and the base has no such setting",
    }
    assert (outcome.strict.beyond, outcome.strict.holds, outcome.exit_code) == ((), False, ExitCode.UNDECIDED)


@pytest.mark.long
def test_what_gptq_leaves_cannot_be_told_and_a_copy_of_it_is_the_same_numbers(tmp_path):
    folder = repacked(BASE, tmp_path / "gptq", test_grouped.gptq(), **test_grouped.settings())
    outcome = verdict(folder)
    assert (outcome.label, outcome.exit_code, outcome.strict.holds) == ("RELATED changed", ExitCode.UNDECIDED, False)
    assert len(outcome.strict.unbound) == 42
    assert all(why.startswith("GPTQ minimises the error") for why in outcome.strict.unbound.values())
    strict = held(shutil.copytree(folder, tmp_path / "copy"), folder)
    assert (strict.holds, strict.what) == (True, "the same numbers as")


@pytest.mark.long
def test_a_format_of_blocks_and_one_with_zero_points_are_told(tmp_path):
    for name in ("4 bits, groups, zero points", "FP8, blocks"):
        form, weights = test_compressed.CASES[name]
        pack = test_compressed.compressed(form, **weights)
        folder = repacked(BASE, tmp_path / name, pack, **test_compressed.settings(form, **weights))
        assert held(folder).holds, name


def test_a_claim_is_checked_strictly_and_no_adapter_or_signature(tmp_path, nf4):
    hub = BASE.parents[1]
    (row,) = check(str(hub / "fern/llama-lora"), options=Options(strict=True, local_hub=hub)).rows
    assert row.verdict.strict.problem.startswith("there are no two models")
    assert row.verdict.exit_code is ExitCode.UNDECIDED
    save_signature(extract(str(BASE)), file := tmp_path / "base.safetensors")
    with pytest.raises(OptionError, match=r"reads every number, but .* is a stored signature; name the model instead"):
        verdict(BASE, file)
    card(nf4, "acme/llama-base", "quantized")
    report = check(str(nf4), options=Options(strict=True, local_hub=BASE.parents[1]))
    assert (report.exit_code, report.rows[0].verdict.is_strict) == (0, True)
    assert report.rows[0].verdict.strict.base.startswith("acme/llama-base")


@pytest.fixture
def hub(online, tmp_path):
    """The Hub with the base and its quantization, which are not on this disk."""
    folder = repacked(BASE, tmp_path / "nf4", test_bnb.four_bits(), **test_bnb.FOUR)
    online.publish("fern/nf4", card(folder, "acme/llama-base", "quantized"))
    return online


def test_of_models_on_the_hub_every_number_is_downloaded_whatever_is_cached(hub):
    rows = [row for _ in range(2) for row in check("fern/nf4", options=STRICT).rows]
    assert [(row.verdict.strict.holds, row.verdict.is_strict) for row in rows] == [(True, True)] * 2
    assert rows[0].verdict.strict == rows[1].verdict.strict
    assert rows[0].verdict.strict.base == f"acme/llama-base at commit {rows[0].base_commit}"
    assert hub.moved() > (BASE / WEIGHTS).stat().st_size
    hub.publish("fern/mirror", BASE)
    found = verdict("fern/mirror", "acme/llama-base")
    assert (found.label, found.is_strict) == ("VERIFIED inherited", True)


def decoded(parts):
    codes, scales = parts
    return (codes.astype(np.float32) - 8) * scales


def tallied(base, parts, **more):
    """What is wrong with codes of four bits, seen three rows at a time."""
    codes = Codes("", *filled_ends(0, 0, 15), decoded, uniform(16), (1, COLUMNS), **more)
    info = TensorInfo((ROWS, COLUMNS), ("codes", "scales"), decoded, itemsize=4, codes=codes)
    tally = Tally("a", base.size)
    for start in range(0, ROWS, 3):
        rows = slice(start, start + 3)
        some = [part[rows] for part in parts]
        tally.add_coded(CodedRows(info, codes, some, decoded(some), base[rows], start), 0.0)
    return tally.result()


@pytest.fixture
def numbers():
    return np.random.default_rng(0).uniform(-0.8, 0.7, (ROWS, COLUMNS)).astype(np.float32)


@pytest.fixture
def quantized(numbers):
    scales = np.abs(numbers).max(axis=1, keepdims=True) / 8
    return [np.rint(numbers / scales + 8).clip(0, 15).astype(np.uint8), scales]


def test_of_numbers_in_pieces_the_furthest_is_told_with_its_place_in_all_of_them(numbers, quantized):
    assert tallied(numbers, quantized) is None
    codes, _ = quantized
    codes[6, 5] = (codes[6, 5] + 2) % 14
    codes[7, 1] = (codes[7, 1] + 8) % 16
    found = tallied(numbers, quantized)
    assert (found.beyond, found.numbers, found.place) == (2, numbers.size, (7, 1))
    assert 6 < found.excess < 8


def test_no_number_in_both_is_equal_and_a_search_for_scales_leaves_few_beyond(numbers, quantized):
    for many in (1, int(MOST_CUT * numbers.size) + 2):
        numbers[0, :many] = 1.1
        quantized[0][0, :many] = 15
        assert (tallied(numbers, quantized, searched=True) is None) is (many == 1)
    one, other = numbers.copy(), numbers.copy()
    one[0, 0] = other[0, 0] = np.nan
    tally = Tally("a", numbers.size)
    tally.add_cast(one, other, 0, 0.0)
    tally.add_cast((numbers + 1) - 1, numbers, 0, 2.0**-24)
    assert tally.result() is None
    one[1, 1] = np.nan
    tally.add_cast(one, other, 0, 0.0)
    assert tally.result().excess == np.inf
