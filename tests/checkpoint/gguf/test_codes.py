"""Where the codes of llama.cpp's types stand: what gguf decodes of the least and the largest is the grid of each."""

import gguf
import numpy as np
import pytest

from hf_lineage.checkpoint.codes import Codes, excess, unreached
from hf_lineage.checkpoint.gguf.codes import KINDS, codes_of
from tests.gguf_blocks import QUANTIZED, QUANTIZERS, drawn, quantized

WRITTEN = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0", *(kind.name for kind in QUANTIZERS))


def of(name):
    kind = gguf.GGMLQuantizationType[name]
    return kind, codes_of(name, lambda parts: gguf.dequantize(parts[0], kind))


@pytest.mark.parametrize("name", KINDS)
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


@pytest.mark.parametrize("name", KINDS)
def test_a_step_of_the_scales_is_what_separates_neighbouring_scales(name):
    kind, codes = of(name)
    blocks = drawn(kind, 2048, np.random.default_rng(1))
    for step in codes.steps:
        one, other = (codes.decode(fill([blocks])) for fill in step.fills)
        assert np.isfinite(one - other).all()
        assert (one != other).any()


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
    assert not unreached(numbers, ends, codes, free)[1].any()


def test_types_of_tabled_vectors_have_no_bound_and_say_why():
    vectors = {kind.name for kind in QUANTIZED} - KINDS.keys()
    assert vectors
    assert all(name.startswith("IQ") and codes_of(name, print).startswith(name) for name in vectors)
    assert codes_of("I8", print) == ""


def test_every_type_that_gguf_decodes_has_a_grid_or_a_reason():
    assert all(isinstance(codes, Codes) or codes for codes in (codes_of(kind.name, print) for kind in QUANTIZED))
