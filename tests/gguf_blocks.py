"""Blocks of any of llama.cpp's types, valid and of no extreme size, and quantizers for types that gguf only decodes."""

from typing import Any

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType
FULL = (KINDS.F32, KINDS.F16, KINDS.BF16, KINDS.F64)
"""Types without blocks."""
QUANTIZED = tuple(kind for kind in gguf.quants._type_traits if kind not in FULL)
"""Every type that gguf decodes."""
Array = np.ndarray[Any, Any]


def drawn(kind: KINDS, numbers: int, random: np.random.Generator) -> Array:
    """Random blocks (blocks, bytes) that hold so many numbers, of a size that weights have."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    kept: list[Array] = []
    while sum(map(len, kept)) < numbers // length:
        blocks = random.integers(0, 256, (4096, size), np.uint8)
        with np.errstate(all="ignore"):
            values = gguf.dequantize(blocks, kind)
            spread = values.std(axis=1)
        kept.append(blocks[np.isfinite(values).all(axis=1) & (spread > 1e-3) & (spread < 10)])
    blocks = np.concatenate(kept)[: numbers // length]
    assert len(blocks) == numbers // length
    return blocks


def divided(values: Array, step: Array) -> Array:
    """Values as whole numbers of a step, 0 where that is 0."""
    wide = step.astype(np.float32)
    return np.rint(np.divide(values, wide, out=np.zeros_like(values, np.float32), where=wide != 0))


def with_minima(values: Array, count: int, length: int, top: int, most: int) -> tuple[Array, ...]:
    """Groups, numbers a group, the largest code and the largest scale -> d, dmin, scales, minima and codes."""
    groups = values.reshape(-1, count, length).astype(np.float32)
    least = np.minimum(groups.min(axis=2), 0)
    step = (groups.max(axis=2) - least) / top
    d, dmin = ((part.max(axis=1, keepdims=True) / most).astype(np.float16) for part in (step, -least))
    scales, minima = divided(step, d).clip(0, most), divided(-least, dmin).clip(0, most)
    real = d.astype(np.float32) * scales
    codes = divided(groups + (dmin.astype(np.float32) * minima)[..., None], real[..., None])
    return d, dmin, *(part.astype(np.uint8) for part in (scales, minima, codes.clip(0, top)))


def around_zero(values: Array, top: int, most: int) -> tuple[Array, Array, Array]:
    """d, the scales and the codes of sixteen groups of 16 numbers, codes from -top - 1 to top."""
    groups = values.reshape(-1, 16, 16).astype(np.float32)
    step = np.abs(groups).max(axis=2) / top
    d = (step.max(axis=1, keepdims=True) / most).astype(np.float16)
    scales = divided(step, d).clip(-most, most)
    codes = divided(groups, (d.astype(np.float32) * scales)[..., None])
    return d, scales.astype(np.int8), (codes.clip(-top - 1, top) + top + 1).astype(np.uint8)


def packed(codes: Array, parts: int, numbers: int, bits: int) -> Array:
    """So many numbers of each of some parts in one byte, those of the first part in its lowest bits."""
    planes = codes.reshape(len(codes), -1, parts, numbers) << (bits * np.arange(parts, dtype=np.uint8))[:, None]
    return np.bitwise_or.reduce(planes, axis=2).astype(np.uint8)


def joined(*parts: Array) -> Array:
    return np.concatenate([np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts], axis=1)


def of_six_bits(scales: Array, minima: Array) -> tuple[Array, ...]:
    """Eight scales and eight minima in twelve bytes."""
    low = (part[:, :4] | (part[:, 4:] >> 4) << 6 for part in (scales, minima))
    return *low, (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4


def q2_k(values: Array) -> Array:
    """Q2_K: sixteen groups of 16 numbers, each with a scale and a minimum of four bits."""
    d, dmin, scales, minima, codes = with_minima(values, 16, 16, 3, 15)
    return joined(scales | minima << 4, packed(codes, 4, 32, 2), d, dmin)


def q3_k(values: Array) -> Array:
    """Q3_K: sixteen groups of 16 numbers, each with a scale of six bits."""
    d, signed, codes = around_zero(values, 3, 31)
    scales = (signed + 32).astype(np.uint8)
    high, low = packed(codes >> 2, 8, 32, 1), packed(codes & 3, 4, 32, 2)
    return joined(high, low, packed(scales & 15, 2, 8, 4), packed(scales >> 4, 4, 4, 2), d)


def q4_k(values: Array) -> Array:
    """Q4_K: eight groups of 32 numbers, each with a scale and a minimum of six bits."""
    d, dmin, scales, minima, codes = with_minima(values, 8, 32, 15, 63)
    return joined(d, dmin, *of_six_bits(scales, minima), packed(codes, 2, 32, 4))


def q5_k(values: Array) -> Array:
    """Q5_K: the same with codes of five bits, the highest of all eight groups in one byte."""
    d, dmin, scales, minima, codes = with_minima(values, 8, 32, 31, 63)
    return joined(d, dmin, *of_six_bits(scales, minima), packed(codes >> 4, 8, 32, 1), packed(codes & 15, 2, 32, 4))


def q6_k(values: Array) -> Array:
    """Q6_K: sixteen groups of 16 numbers, each with a scale of eight bits."""
    d, scales, codes = around_zero(values, 31, 127)
    return joined(packed(codes & 15, 2, 64, 4), packed(codes >> 4, 4, 32, 2), scales, d)


QUANTIZERS = {KINDS.Q2_K: q2_k, KINDS.Q3_K: q3_k, KINDS.Q4_K: q4_k, KINDS.Q5_K: q5_k, KINDS.Q6_K: q6_k}
"""Types that gguf decodes and does not write."""


def quantized(values: Array, kind: KINDS) -> Array:
    if kind not in QUANTIZERS:
        return gguf.quantize(np.ascontiguousarray(values, np.float32), kind)
    return QUANTIZERS[kind](values).reshape(*values.shape[:-1], -1)
