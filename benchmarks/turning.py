"""Checkpoints on which a verdict takes its longest way: independent ones, and descendants in a stream that was turned.

Weights are random with the structure that trained ones have: directions of the stream count unlike much, and so do
hidden units. A stream is turned as published tools for quantization turn it, by random signs and a Hadamard transform.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file

from benchmarks.shapes import PREFIXES, Shape
from benchmarks.writing import CONFIGS, INDEX, write_tokenizer

Numbers = NDArray[np.float32]
Turn = Callable[[Numbers], Numbers]
NOISE = 0.1
"""What a fine-tune adds to each weight, relative to its size."""
SPREAD = 0.5
"""By how much, as the deviation of a logarithm, directions of the stream and hidden units differ in size."""


@dataclass(frozen=True)
class Variant:
    """One checkpoint beside a base."""

    name: str
    seed: int = 0
    """Of the weights; those of one seed descend from the same base."""
    tuned: bool = False
    turned: bool = False
    embedding_seed: int | None = None
    """Of an embedding that was trained anew; None: that of the base."""


BASE = Variant("base")
FINE_TUNE = Variant("fine-tune", tuned=True)
INDEPENDENT = Variant("independent", seed=1)
ROTATED = Variant("rotated", tuned=True, turned=True)
NEWLY_EMBEDDED = Variant("rotated, new embedding", tuned=True, turned=True, embedding_seed=2)
VARIANTS = (BASE, FINE_TUNE, INDEPENDENT, ROTATED, NEWLY_EMBEDDED)


def write_variants(root: Path, shape: Shape) -> None:
    """Write every variant into a folder of its own under `root`; files that two have in common are written once."""
    written: dict[tuple[object, ...], Path] = {}
    for variant in VARIANTS:
        _write(root / variant.name, shape, variant, written)


def _write(folder: Path, shape: Shape, variant: Variant, written: dict[tuple[object, ...], Path]) -> None:
    folder.mkdir(parents=True)
    weight_map: dict[str, str] = {}
    for number in range(shape.layers + 1):
        file = f"model-{number + 1:05}-of-{shape.layers + 1:05}.safetensors"
        seed = variant.embedding_seed if number == 0 and variant.embedding_seed is not None else variant.seed
        key = number, seed, variant.tuned, variant.turned
        names = _names(shape, number)
        if key in written:
            os.link(written[key], folder / file)
        else:
            tensors = dict(_tensors(shape, number, seed, variant))
            _save({name: tensors[inside] for name, inside in names.items()}, folder / file)
            written[key] = folder / file
        weight_map |= dict.fromkeys(names, file)
    _json(folder / INDEX, {"metadata": {"total_size": shape.bytes}, "weight_map": weight_map})
    _json(folder / "config.json", CONFIGS[shape.architecture](shape))
    write_tokenizer(folder, shape.vocabulary)


def _names(shape: Shape, number: int) -> Mapping[str, str]:
    """The names of the tensors of a file, by which each has inside it: the embeddings, then layer by layer."""
    if number == 0:
        return {name: name for name in shape.embeddings}
    return {f"{PREFIXES[shape.architecture]}.{number - 1}.{name}": name for name in shape.layer}


def _tensors(shape: Shape, number: int, seed: int, variant: Variant) -> Iterator[tuple[str, Numbers]]:
    """The tensors of one file."""
    sizes = shape.layer if number else shape.embeddings
    random, noise = (np.random.Generator(np.random.SFC64([seed, number, part])) for part in (0, 1))
    turn = _turn(shape.width, variant)
    stream = _stream(shape.width, variant.seed)
    gains = {name: np.exp(0.2 * _normal(random, size)) for name, size in sizes.items() if len(size) == 1}
    for name, size in sizes.items():
        if name in gains:
            yield name, np.ones_like(gains[name]) if variant.turned else gains[name]
            continue
        matrix = _matrix(random, size, shape.width, stream, writes=_writes(name))
        if variant.tuned:
            matrix *= 1 + NOISE * _normal(noise, size)
        yield name, _turned(matrix, gains, name, turn) if variant.turned else matrix


def _writes(name: str) -> bool:
    return name in ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def _gain(gains: Mapping[str, Numbers], name: str) -> Numbers | float:
    """The gain of the norm whose output a matrix reads."""
    norms = {"self_attn": "input_layernorm", "mlp": "post_attention_layernorm", "lm_head": "model.norm"}
    norm = norms.get(name.partition(".")[0])
    return gains[f"{norm}.weight"] if norm else 1.0


def _turned(matrix: Numbers, gains: Mapping[str, Numbers], name: str, turn: Turn) -> Numbers:
    """A matrix for a stream that was turned, the gain of the norm in front of it folded in."""
    return np.ascontiguousarray(turn(matrix.T).T) if _writes(name) else turn(matrix * _gain(gains, name))


def _matrix(random: np.random.Generator, size: tuple[int, ...], width: int, stream: Turn, writes: bool) -> Numbers:
    """A matrix whose units differ in size and whose rows lie in some directions of the stream more than in others."""
    rows = size[1] if writes else size[0]
    drawn = _normal(random, (rows, width)) * np.exp(SPREAD * _normal(random, (rows, 1)))
    drawn *= np.exp(np.linspace(2 * SPREAD, -2 * SPREAD, width, dtype=np.float32)) / math.sqrt(width)
    seen = stream(drawn)
    return np.ascontiguousarray(seen.T) if writes else seen


def _stream(width: int, seed: int) -> Turn:
    """The directions of the stream of all models of one seed."""
    return _hadamard(width, [seed, 0xD1])


def _turn(width: int, variant: Variant) -> Turn:
    return _hadamard(width, [variant.seed, 0xD2])


def _hadamard(width: int, seed: list[int]) -> Turn:
    """Random signs and a Hadamard transform of rows (n, width), by two smaller ones; the width is a power of 2."""
    signs = np.random.Generator(np.random.SFC64(seed)).choice(np.array([-1, 1], np.float32), width)
    first = 2 ** (width.bit_length() // 2)
    one, other = _sylvester(first), _sylvester(width // first)

    def turn(rows: Numbers) -> Numbers:
        parts = (rows * signs).reshape(-1, first, width // first)
        done: Numbers = (one @ parts @ other).reshape(len(rows), width)
        return done

    return turn


def _sylvester(size: int) -> Numbers:
    matrix: NDArray[np.floating] = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / math.sqrt(2)
    return matrix.astype(np.float32)


def _normal(random: np.random.Generator, size: tuple[int, ...]) -> Numbers:
    return random.standard_normal(size, dtype=np.float32)


def _save(tensors: Mapping[str, Numbers], file: Path) -> None:
    # The upper half of a float32 is a bfloat16.
    halves = {
        name: np.ascontiguousarray((tensor.astype("<f4").view("<u4") + 0x8000 >> 16).astype("<u2"))
        for name, tensor in tensors.items()
    }
    specs = {
        name: TensorSpec(dtype="bfloat16", shape=half.shape, data_ptr=half.ctypes.data, data_len=half.nbytes)
        for name, half in halves.items()
    }
    serialize_file(specs, file, {"format": "pt"})


def _json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")
