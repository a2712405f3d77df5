"""The tensors of GGUF files: every type is decoded as transformers decodes it, and what lies of itself is refused."""

import sys

import gguf
import numpy as np
import pytest
import torch
from transformers.integrations.gguf import dequant

from hf_lineage.checkpoint.codes import Codes, excess, miss_ends
from hf_lineage.checkpoint.foreign_form import Piece, by_pieces
from hf_lineage.checkpoint.gguf.tensors import KINDS as GRIDS
from hf_lineage.checkpoint.gguf.tensors import apply_factors, codes_of
from hf_lineage.checkpoint.gguf.tensors import gguf as package
from hf_lineage.checkpoint.tensor import StoredTensor, single
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import RepoRef, resolve
from tests.gguf_blocks import QUANTIZED, QUANTIZERS, drawn, quantized
from tests.gguf_models import EXAMPLES_OF_TYPES, KINDS, finish, write
from tests.models import EXAMPLES, open_checkpoint

BLOCKS = "has rows of 64 numbers, which is not a multiple of the block size, 256 as"
OVERLAP = "org/model: model.gguf: tensor_b overlaps tensor_a; do not trust the file"
WRITTEN = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0", *(kind.name for kind in QUANTIZERS))
LIES = [(20, 99, 4, "is of the type 99, which the installed package gguf does not know"), (20, 12, 4, BLOCKS)]
LIES += [(12, rows, 8, OVERLAP) for rows in (9, 2**30)]


def file(folder, *tensors):
    out = gguf.GGUFWriter(str(folder / "model.gguf"), "llama")
    for name, array, kind in tensors:
        out.add_tensor(name, array, raw_dtype=kind)
    finish(out)
    return RepoRef("org/model", folder)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_every_type_is_decoded_as_by_gguf_and_by_transformers(kind, tmp_path):
    stored = drawn(kind, 6 * 512, np.random.default_rng(0)).reshape(6, -1)
    found = open_checkpoint(file(tmp_path, ("a.weight", stored, kind)))
    decoded = found.read("a.weight")
    assert (found.shapes, decoded.dtype) == ({"a.weight": (6, 512)}, np.float32)
    assert np.array_equal(decoded, gguf.dequantize(stored, kind).reshape(6, 512))
    if int(kind) in dequant.GGML_BLOCK:
        by_transformers = dequant.dequantize(torch.from_numpy(stored.reshape(-1)), int(kind)).numpy()
        np.testing.assert_allclose(decoded.reshape(-1), by_transformers, rtol=1e-6, atol=1e-6)
    assert sum(int(kind) in dequant.GGML_BLOCK for kind in QUANTIZED) >= 17, "transformers decodes most types"


def test_plain_numbers_are_read_and_without_a_decoder_there_is_a_reason(tmp_path, monkeypatch):
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    for kind, dtype in EXAMPLES_OF_TYPES:
        stored = gguf.quantize(numbers, kind) if kind == KINDS.BF16 else numbers.astype(dtype)
        found = open_checkpoint(file(tmp_path, ("a.weight", stored, kind)))
        assert np.array_equal(single(found.read("a.weight")), numbers)
    tensors = ("a", np.zeros((2, 292), np.uint8), KINDS.Q8_K), ("b", np.ones((2, 4), np.float32), KINDS.F32)
    found = open_checkpoint(file(tmp_path, *tensors))
    assert found.read("b").sum() == 8
    with pytest.raises(NothingToCompare, match="a is stored as Q8_K, which the installed package gguf does not decode"):
        found.read("a")
    vectors = {kind.name for kind in QUANTIZED} - GRIDS.keys()
    assert vectors
    assert all(name.startswith("IQ") and codes_of(name, print).startswith(name) for name in vectors)
    assert all(isinstance(codes_of(name, print), Codes) for name in GRIDS)
    assert codes_of("I8", print) == ""
    assert package() is gguf
    monkeypatch.setitem(sys.modules, "gguf", None)
    install = "run `pip install 'hf-lineage[gguf] @ git+https://github.com/hf-lineage/hf-lineage'`"
    with pytest.raises(NothingToCompare) as caught:
        package()
    assert str(caught.value) == f"hf-lineage needs the package gguf to read a GGUF file; {install}"


def test_each_expert_is_read_by_itself_and_a_factor_is_multiplied_in(tmp_path, monkeypatch):
    stack = drawn(KINDS.Q8_0, 3 * 4 * 64, np.random.default_rng(0)).reshape(3, 4, -1)
    found = open_checkpoint(file(tmp_path, ("blk.0.ffn_up_exps.weight", stack, KINDS.Q8_0)))
    values = gguf.dequantize(stack, KINDS.Q8_0)
    assert np.array_equal(found.read("blk.0.ffn_up_exps.weight"), values)
    sizes = []
    reading = StoredTensor.read
    monkeypatch.setattr(StoredTensor, "read", lambda self, memory: (sizes.append(self.size), reading(self, memory))[1])
    for expert in range(3):
        assert np.array_equal(found.read(f"blk.0.ffn_up_exps.weight[{expert}]"), values[expert])
    assert sizes == [stack[0].nbytes] * 3
    plain, stack = np.ones((2, 4), np.float32), np.ones((3, 2, 4), np.float32)
    parts = {"a.weight": plain, "a.scale": [3], "b_exps.weight": stack, "b_exps.scale": [1, 2, 5]}
    parts |= {"c.weight": plain, "c.scale": [1, 2]}
    tensors = ((name, np.array(part, np.float32), KINDS.F32) for name, part in parts.items())
    pieces = [Piece("a", "a.weight"), Piece("b", "b_exps.weight[2]"), Piece("c", "c.weight")]
    loaded = by_pieces(apply_factors(open_checkpoint(file(tmp_path, *tensors))), pieces)
    assert loaded.read("a").tolist() == [[3] * 4] * 2
    assert loaded.read("b").tolist() == [[5] * 4] * 2
    with pytest.raises(NothingToCompare, match="c has 2 factors instead of one"):
        loaded.read("c")


@pytest.mark.parametrize(("offset", "number", "size", "said"), LIES)
def test_a_tensor_that_lies_about_itself_is_refused(offset, number, size, said, tmp_path):
    """The offset behind the name of a tensor, a number, how many bytes it takes, and what is said of it."""
    repo = file(tmp_path, *((name, np.ones((4, 64), np.float32), KINDS.F32) for name in ("tensor_a", "tensor_b")))
    path = repo.path("model.gguf")
    before, name, behind = path.read_bytes().partition(b"tensor_a")
    path.write_bytes(before + name + behind[:offset] + number.to_bytes(size, "little") + behind[offset + size :])
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(repo)


def test_a_file_that_changes_after_it_was_opened_or_is_cut_is_an_error(tmp_path):
    repo = file(tmp_path, ("a", np.ones((4, 64), np.float32), KINDS.F32))
    found = open_checkpoint(repo)
    path, content = repo.path("model.gguf"), repo.path("model.gguf").read_bytes()
    path.write_bytes(content + b"\0")
    with pytest.raises(CheckpointError, match="the file changed after its header was read"):
        found.read("a")
    path.write_bytes(content[:-40])
    said = f"a ends at byte {len(content)} of {len(content) - 40}; download it again"
    with pytest.raises(CheckpointError, match=f"^org/model: model.gguf is truncated: {said}$"):
        open_checkpoint(RepoRef("org/model", tmp_path))


def test_parts_of_a_model_have_to_belong_together(tmp_path):
    source = EXAMPLES / "fern/llama-finetune-a"
    whole = open_checkpoint(RepoRef("org/one", write(source, tmp_path / "one/a.gguf").parent))
    parts = write(source, tmp_path / "parts/a.gguf", split_max_tensors=20).parent
    files = sorted(parts.iterdir())
    assert len(files) == 3
    found = open_checkpoint(RepoRef("org/parts", parts))
    assert found.shapes == whole.shapes
    assert np.array_equal(found.read("blk.5.ffn_up.weight"), whole.read("blk.5.ffn_up.weight"))
    files[2].write_bytes(files[1].read_bytes())
    with pytest.raises(CheckpointError, match="is in two parts of the model; have them saved again"):
        open_checkpoint(RepoRef("org/parts", parts))
    files[2].unlink()
    with pytest.raises(CheckpointError, match=r"a-00003-of-00003\.gguf is missing; download all parts of the model"):
        open_checkpoint(RepoRef("org/parts", parts))


def test_on_the_hub_only_what_is_read_is_fetched(online, tmp_path):
    path = write(EXAMPLES / "fern/llama-finetune-a", tmp_path / "published/a-F32.gguf")
    online.publish("fern/gguf", path.parent)
    here = open_checkpoint(RepoRef("here", path.parent))
    found = open_checkpoint(resolve("fern/gguf"))
    assert found.shapes == here.shapes
    before = online.moved("fern/gguf")
    assert before < path.stat().st_size / 20
    assert np.array_equal(found.read("blk.3.ffn_up.weight"), here.read("blk.3.ffn_up.weight"))
    assert online.moved("fern/gguf") - before == here.stored["blk.3.ffn_up.weight"].size
    assert found.bytes_read == online.moved("fern/gguf")


def of(name):
    kind = KINDS[name]
    return kind, codes_of(name, lambda parts: gguf.dequantize(parts[0], kind))


@pytest.mark.parametrize("name", GRIDS)
def test_every_number_that_gguf_decodes_is_on_the_grid_between_its_ends(name):
    kind, codes = of(name)
    blocks = drawn(kind, 8192, np.random.default_rng(0))
    values, low, high = (codes.decode(fill([blocks])) for fill in (lambda parts: parts, codes.low, codes.high))
    wide = np.abs(high - low) > np.maximum(1e-6, 0.05 * np.abs(low))
    wide &= np.abs(values - low) <= 1.01 * np.abs(high - low)
    at = ((values - low)[wide] / (high - low)[wide]).astype(np.float32)
    nearest = np.abs(at[:, None] - codes.levels).min(axis=1)
    assert wide.any()
    assert nearest.max() < 1e-3, "but for codes that no quantizer writes"
    assert (low.reshape(-1, codes.block[1]).std(axis=1) < 1e-6).all(), "a scale is for so many numbers"
    for step in codes.steps:
        one, other = (codes.decode(fill([blocks])) for fill in step.fills)
        assert np.isfinite(one - other).all()
        assert (one != other).any(), "a step of the scales is what separates neighbouring ones"


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("scale", [0.02, 1e-4])
def test_what_a_quantizer_writes_is_right_and_fills_its_grids(name, scale):
    kind, codes = of(name)
    base = (scale * np.random.default_rng(2).standard_t(5, (16, 512))).astype(np.float32)
    blocks = quantized(base, kind)
    numbers, ends = codes.decode([blocks]), (codes.decode(codes.low([blocks])), codes.decode(codes.high([blocks])))
    pairs = [[codes.decode(fill([blocks])) for fill in step.fills] for step in codes.steps]
    free = np.sum([np.abs(one - other) for one, other in pairs], axis=0, dtype=np.float32)
    steps, cut = excess(base, numbers, ends, codes, free)
    assert steps[~cut].max() <= 0
    assert not miss_ends(numbers, ends, codes, free)[1].any()
