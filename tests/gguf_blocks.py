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


def q4_k(values: Array) -> Array:
    """Q4_K: eight groups of 32 numbers, each with a scale and a minimum of six bits."""
    groups = values.reshape(-1, 8, 32).astype(np.float32)
    least = np.minimum(groups.min(axis=2), 0)
    step = (groups.max(axis=2) - least) / 15
    d, dmin = (np.float16(part.max(axis=1, keepdims=True) / 63) for part in (step, -least))
    scales, minima = (
        np.rint(np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)).clip(0, 63).astype(np.uint8)
        for part, whole in ((step, d.astype(np.float32)), (-least, dmin.astype(np.float32)))
    )
    real = d.astype(np.float32) * scales
    shifted = groups + (dmin.astype(np.float32) * minima)[..., None]
    codes = np.rint(np.divide(shifted, real[..., None], out=np.zeros_like(groups), where=real[..., None] != 0))
    codes = codes.clip(0, 15).astype(np.uint8)
    low = codes[:, 0::2] | codes[:, 1::2] << 4
    packed = np.concatenate(
        [
            scales[:, :4] | (scales[:, 4:] >> 4) << 6,
            minima[:, :4] | (minima[:, 4:] >> 4) << 6,
            (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4,
        ],
        axis=1,
    )
    return np.concatenate([d.view(np.uint8), dmin.view(np.uint8), packed, low.reshape(-1, 128)], axis=1)


def q6_k(values: Array) -> Array:
    """Q6_K: sixteen groups of 16 numbers, each with a scale of eight bits."""
    groups = values.reshape(-1, 16, 16).astype(np.float32)
    step = np.abs(groups).max(axis=2) / 31
    d = np.float16(step.max(axis=1, keepdims=True) / 127)
    scales = np.rint(np.divide(step, d, out=np.zeros_like(step), where=d != 0)).clip(-128, 127).astype(np.int8)
    real = d.astype(np.float32) * scales
    codes = np.rint(np.divide(groups, real[..., None], out=np.zeros_like(groups), where=real[..., None] != 0))
    halves = (codes.clip(-32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (halves[:, :, :2] & 15) | (halves[:, :, 2:] & 15) << 4
    high = sum((halves[:, :, part] >> 4) << (2 * part) for part in range(4))
    return np.concatenate(
        [low.reshape(-1, 128), np.asarray(high, np.uint8).reshape(-1, 64), scales.view(np.uint8), d.view(np.uint8)],
        axis=1,
    )


QUANTIZERS = {KINDS.Q4_K: q4_k, KINDS.Q6_K: q6_k}
"""Types that gguf decodes and does not write."""


def quantized(values: Array, kind: KINDS) -> Array:
    """A matrix in a type, row by row, as bytes."""
    if kind not in QUANTIZERS:
        return gguf.quantize(np.ascontiguousarray(values, np.float32), kind)
    return QUANTIZERS[kind](values).reshape(*values.shape[:-1], -1)
