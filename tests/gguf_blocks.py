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


def searched(groups: Array, top: int, importance: Array, lowest: Array | None = None) -> Array:
    """The step of each group (n, g, s) that leaves the least error by the importance of each number.

    Among a few with which the grid has up to one value more or less than the group needs, as llama.cpp has it.
    """
    low = 0 if lowest is None else lowest[..., None]
    span = groups.max(axis=2) - lowest if lowest is not None else np.abs(groups).max(axis=2)
    bottom = 0 if lowest is not None else -top
    best, least = span / top, np.full(span.shape, np.inf)
    for more in np.linspace(-0.9, 0.9, 7):
        step = np.maximum(span / (top + more), 1e-12)
        codes = np.rint((groups - low) / step[..., None]).clip(bottom, top)
        error = (importance * (codes * step[..., None] + low - groups) ** 2).sum(axis=2)
        best, least = np.where(error < least, step, best), np.minimum(error, least)
    return best


def stepped(values: Array, whole: Array, most: int, least: int = 0) -> Array:
    """Scales as whole numbers of a step for each block."""
    wide = whole.astype(np.float32)
    return np.rint(np.divide(values, wide, out=np.zeros_like(values), where=wide != 0)).clip(least, most)


def with_minima(values: Array, sizes: tuple[int, int, int, int], importance: Array | None) -> tuple[Array, ...]:
    """Groups, numbers a group, the largest code and the largest scale -> d, dmin, scales, minima and codes."""
    count, length, top, most = sizes
    groups = values.reshape(-1, count, length).astype(np.float32)
    least = np.minimum(groups.min(axis=2), 0)
    step = (groups.max(axis=2) - least) / top
    if importance is not None:
        step = searched(groups, top, importance.reshape(groups.shape), least)
    d, dmin = ((part.max(axis=1, keepdims=True) / most).astype(np.float16) for part in (step, -least))
    scales, minima = stepped(step, d, most), stepped(-least, dmin, most)
    real = d.astype(np.float32) * scales
    shifted = groups + (dmin.astype(np.float32) * minima)[..., None]
    codes = np.rint(np.divide(shifted, real[..., None], out=np.zeros_like(groups), where=real[..., None] != 0))
    whole = (part.astype(np.uint8) for part in (scales, minima, codes.clip(0, top)))
    return d, dmin, *whole


def of_six_bits(scales: Array, minima: Array) -> Array:
    return np.concatenate(
        [
            scales[:, :4] | (scales[:, 4:] >> 4) << 6,
            minima[:, :4] | (minima[:, 4:] >> 4) << 6,
            (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4,
        ],
        axis=1,
    )


def q2_k(values: Array, importance: Array | None = None) -> Array:
    """Q2_K: sixteen groups of 16 numbers, each with a scale and a minimum of four bits."""
    d, dmin, scales, minima, codes = with_minima(values, (16, 16, 3, 15), importance)
    parts = codes.reshape(-1, 2, 4, 32)
    packed = sum(parts[:, :, place] << (2 * place) for place in range(4))
    blocks = [scales | minima << 4, np.asarray(packed, np.uint8).reshape(-1, 64), d.view(np.uint8), dmin.view(np.uint8)]
    return np.concatenate(blocks, axis=1)


def q4_k(values: Array, importance: Array | None = None) -> Array:
    """Q4_K: eight groups of 32 numbers, each with a scale and a minimum of six bits."""
    d, dmin, scales, minima, codes = with_minima(values, (8, 32, 15, 63), importance)
    low = codes[:, 0::2] | codes[:, 1::2] << 4
    blocks = [d.view(np.uint8), dmin.view(np.uint8), of_six_bits(scales, minima), low.reshape(-1, 128)]
    return np.concatenate(blocks, axis=1)


def q5_k(values: Array, importance: Array | None = None) -> Array:
    """Q5_K: the same with codes of five bits, the highest of all eight groups in one byte."""
    d, dmin, scales, minima, codes = with_minima(values, (8, 32, 31, 63), importance)
    low = (codes[:, 0::2] & 15) | (codes[:, 1::2] & 15) << 4
    high = np.asarray(sum((codes[:, group] >> 4) << group for group in range(8)), np.uint8)
    blocks = [d.view(np.uint8), dmin.view(np.uint8), of_six_bits(scales, minima), high, low.reshape(-1, 128)]
    return np.concatenate(blocks, axis=1)


def around_zero(values: Array, top: int, most: int, importance: Array | None) -> tuple[Array, Array, Array]:
    """d, the scales and the codes of sixteen groups of 16 numbers, codes from -top - 1 to top."""
    groups = values.reshape(-1, 16, 16).astype(np.float32)
    step = np.abs(groups).max(axis=2) / top
    if importance is not None:
        step = searched(groups, top, importance.reshape(groups.shape))
    d = (step.max(axis=1, keepdims=True) / most).astype(np.float16)
    scales = stepped(step, d, most, -most)
    real = d.astype(np.float32) * scales
    codes = np.rint(np.divide(groups, real[..., None], out=np.zeros_like(groups), where=real[..., None] != 0))
    return d, scales.astype(np.int8), (codes.clip(-top - 1, top) + top + 1).astype(np.uint8)


def q3_k(values: Array, importance: Array | None = None) -> Array:
    """Q3_K: sixteen groups of 16 numbers, each with a scale of six bits."""
    d, signed, codes = around_zero(values, 3, 31, importance)
    parts, scales = codes.reshape(-1, 2, 4, 32), (signed + 32).astype(np.uint8)
    low = np.asarray(sum((parts[:, :, place] & 3) << (2 * place) for place in range(4)), np.uint8)
    bits = parts.reshape(-1, 8, 32) >> 2
    high = np.asarray(sum(bits[:, place] << place for place in range(8)), np.uint8)
    nibbles = (scales[:, :8] & 15) | (scales[:, 8:] & 15) << 4
    rest = np.asarray(sum((scales[:, 4 * place : 4 * place + 4] >> 4) << (2 * place) for place in range(4)), np.uint8)
    return np.concatenate([high, low.reshape(-1, 64), nibbles, rest, d.view(np.uint8)], axis=1)


def q6_k(values: Array, importance: Array | None = None) -> Array:
    """Q6_K: sixteen groups of 16 numbers, each with a scale of eight bits."""
    d, scales, codes = around_zero(values, 31, 127, importance)
    halves = codes.reshape(-1, 2, 4, 32)
    low = (halves[:, :, :2] & 15) | (halves[:, :, 2:] & 15) << 4
    high = sum((halves[:, :, part] >> 4) << (2 * part) for part in range(4))
    return np.concatenate(
        [low.reshape(-1, 128), np.asarray(high, np.uint8).reshape(-1, 64), scales.view(np.uint8), d.view(np.uint8)],
        axis=1,
    )


QUANTIZERS = {KINDS.Q2_K: q2_k, KINDS.Q3_K: q3_k, KINDS.Q4_K: q4_k, KINDS.Q5_K: q5_k, KINDS.Q6_K: q6_k}
"""Types that gguf decodes and does not write."""


def quantized(values: Array, kind: KINDS, importance: Array | None = None) -> Array:
    """A matrix in a type, row by row, as bytes; `importance` of each column, where scales are searched for."""
    if kind not in QUANTIZERS:
        return gguf.quantize(np.ascontiguousarray(values, np.float32), kind)
    weights = None if importance is None else np.broadcast_to(importance, values.shape)
    return QUANTIZERS[kind](values, weights).reshape(*values.shape[:-1], -1)
