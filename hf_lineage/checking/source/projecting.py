"""Projecting: what stands beside the parts of a model, and whether what a part gives out reaches the language model.

A part that is stored and not used verifies nothing. What it gives out goes through a projector, whose matrices are
looked at: in which directions they write, and how long what they write is beside the words that it joins.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import find_layers
from hf_lineage.architecture.registry import as_names, prefixes, setting
from hf_lineage.checking.source.components import MAIN, inside, main_part, parts_of_class
from hf_lineage.checking.source.description import Described, whole_config
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.errors import LineageError, NothingToCompare, printable

PROJECTOR = re.compile(r"merger|project|adapter|connector|align|resampl|patch_embed|conv1\b", re.I)
"""Names of what makes pictures or sounds into the input of a part, and its output into words of the language model."""
CROSS = re.compile(r"cross_?att|encoder_attn|EncDecAttention")
"""Names of what a decoder reads an encoder with."""
NUMBERED = re.compile(r"\.\d+\.")
"""Part of the names in a list of layers."""
HEADS = ("lm_head", "score", "norm")
"""What stands beside the layers of a language model, and is no part by itself."""
LEAST, LEAST_GAIN = 1e-6, 1e-3
"""Numbers of a matrix, and gains of a norm, that are no larger count as zeros."""
WEAKEST = 0.25
"""Of the directions in which a matrix can write the share that may be weak: its weights need not have full rank."""
SHORT, LEAST_ROW = 0.01, 1e-4
"""What is shorter than this share of a token's row of the embedding does not count beside it."""
DROWNED = 0.1
"""What is shorter than this share of the bias that is added to it does not change it much."""
HELD_BACK, MOST_HELD_BACK = 4.0, 0.5
"""A bias of so many standard deviations below zero keeps a unit from ever writing; so many units may have one."""
WIDEST, LARGEST = 1024, 1e12
"""A matrix with more rows is looked at through so many mixtures of them; larger numbers count as none."""
MOST_NUMBERS, TOKENS = 2**26, 64
"""Rows of the embedding whose length is measured."""
Matrix = NDArray[Any]


def beside(model: Described, checkpoint: Checkpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return sentences about the matrices beside a model of several parts: those of no part, those that silence one."""
    own = (*prefixes(model.factorization), *as_names(model.factorization.embedding), *HEADS)
    here = model.within.prefixes if model.within else ()
    read = set() if here else set(map(_module, own))
    read |= {_module(prefix) for part in parts_of_class(whole_config(model)).values() for prefix in part.prefixes}
    matrices = [name for name, shape in checkpoint.shapes.items() if len(shape) > 1]
    others = [name for name in matrices if not name.startswith(here) and _module(name) not in read]
    if model.repo.part and model.repo.part not in MAIN:
        between = [name for name in checkpoint.shapes if _is_between(name, model)]
        alone = [name for name in others if _module(name) not in HEADS and _stands_alone(name, checkpoint)]
        reasons = [_silent(model, checkpoint, between), _zeros(checkpoint, alone)]
        if all(name.startswith(here) for name in between):
            reasons.append(_unread(model, checkpoint))
        with np.errstate(all="ignore"):  # numbers that are not finite are told, as a reason
            reason = next(itertools.chain(*reasons), None)
        return (), (f"{reason}, so that what the part gives out is not used",) if reason else ()
    shown = printable(", ".join(sorted(set(map(_module, others)))), 300)
    return (f"parts of the model that were not looked at: {shown}",) if others and not model.repo.part else (), ()


def left_out(model: Described, shapes: Mapping[str, tuple[int, ...]]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the tensors of those layers of a part that the rest of the model never reads, and a sentence about them.

    Raise NothingToCompare where `config.json` names no layer of the part.
    """
    key, stated = _read_after(model)
    if not key:
        return frozenset(), ()
    layers = find_layers(model.factorization, shapes)
    ends = [_after(each, len(layers)) for each in stated]
    read = max((end for end in ends if end is not None), default=0)
    if None in ends or not 0 < read <= len(layers):
        shown = printable(json.dumps(stated, default=str), 100)
        raise NothingToCompare(f"{key} is {shown}, so that none of the {len(layers)} layers of the part is read")
    beyond = layers[read:]
    names = frozenset(name for layer in beyond for name in layer.shapes)
    many = f"the last {len(beyond)} layers are" if len(beyond) > 1 else "the last layer is"
    return names, (f"{many} not used by the rest of the model ({key}), and not judged",) if beyond else ()


def _read_after(model: Described) -> tuple[str, Sequence[object]]:
    """The key of `config.json` that says after which layers of a part the rest reads it, and these; empty for none."""
    part = parts_of_class(whole_config(model)).get(model.repo.part)
    if part is None or part.until is None:
        return "", ()
    key, usual = part.until
    stated = setting(whole_config(model), key)
    stated = usual if stated is None else stated
    return key, stated if isinstance(stated, list | tuple) else (stated,)


def _after(stated: object, layers: int) -> int | None:
    """After how many layers a part is read, by an entry of its hidden states; None for what names none of them."""
    if isinstance(stated, bool) or not isinstance(stated, int) or not -layers - 1 <= stated <= layers:
        return None
    return stated if stated >= 0 else layers + 1 + stated


def _is_between(name: str, model: Described) -> bool:
    """Whether a tensor is of a projector, in a part or beside it, or of a norm that a part ends with."""
    here = model.within.prefixes if model.within else ()
    if name.startswith(here):
        layers = (f".{pattern.partition('{')[0]}" for pattern in prefixes(model.factorization))
        return not any(layer in f".{name}" for layer in layers) and bool(PROJECTOR.search(name) or "norm" in name)
    others = (prefix for part in parts_of_class(whole_config(model)).values() for prefix in part.prefixes)
    return bool(PROJECTOR.search(name)) and not (NUMBERED.search(name) and name.startswith(tuple(others)))


def _stands_alone(name: str, checkpoint: Checkpoint) -> bool:
    """Whether a matrix is in no list of layers, and small enough to be looked at whatever it is."""
    return not NUMBERED.search(name) and checkpoint.tensors[name].numbers <= MOST_NUMBERS


def _module(name: str) -> str:
    """The part of a model that a tensor is in, by its name."""
    return name.removeprefix("model.").partition(".")[0]


def _zeros(checkpoint: Checkpoint, names: Collection[str]) -> Iterator[str]:
    for name in names:
        if not float(abs(checkpoint.read(name)).max(initial=0.0)) > LEAST:
            yield f"{printable(name, 200)} holds zeros"


def _silent(model: Described, checkpoint: Checkpoint, names: Collection[str]) -> Iterator[str]:
    """Sentences about matrices that write next to nothing, and about norms that leave nothing."""
    shapes, here = checkpoint.shapes, model.within.prefixes if model.within else ()
    matrices = [name for name in sorted(names, key=_in_order) if len(shapes[name]) > 1 and name.endswith("weight")]
    yield from _zeros(checkpoint, matrices)
    language = _language(model)
    for name in names:
        if "norm" in name and name.endswith("weight") and len(shapes[name]) == 1 and shapes[name][0]:
            family = model if name.startswith(here) or language is None else language
            gains = abs(checkpoint.read(name) + float(family.factorization.gain == "one_plus"))
            if not min(float(np.median(each)) for each in _by_layer(model, gains)) > LEAST_GAIN:
                yield f"{printable(name, 200)} multiplies with zeros"
    row = max(_length_of_words(language, checkpoint), LEAST_ROW)
    before: tuple[str, Matrix] | None = None
    for name in matrices:
        matrix = _matrix(checkpoint, name)
        for each in _by_layer(model, matrix):
            yield from _weak(name, each, checkpoint, row)
        if before and matrix.shape[1] == len(before[1]):
            both = _strength(_fewer(matrix) @ before[1], most=matrix.shape[1])
            if not both > SHORT * _strength(matrix) * _strength(before[1]):
                yield f"{printable(name, 200)} reads nothing of what {printable(before[0], 200)} writes"
        before = name, matrix


def _by_layer(model: Described, stored: Matrix) -> Sequence[Matrix]:
    """What reads several layers of a part side by side, cut into what reads each of them; anything else as it is."""
    width, many = model.config.get("hidden_size"), len(_read_after(model)[1])
    if many < 2 or not isinstance(width, int) or stored.shape[-1] != many * width:
        return (stored,)
    return np.split(stored, many, axis=-1)


def _unread(model: Described, checkpoint: Checkpoint) -> Iterator[str]:
    """A sentence about a part that a decoder reads in its layers, where none of them does."""
    layers: dict[str, list[str]] = {}
    for name, shape in checkpoint.shapes.items():
        if CROSS.search(name) and len(shape) > 1 and name.endswith("weight") and (number := NUMBERED.search(name)):
            layers.setdefault(name[: number.end()], []).append(name)
    for names in layers.values():
        if not any(next(_weak(name, _matrix(checkpoint, name), checkpoint, LEAST_ROW), "") for name in names):
            return
    if layers or model.repo.part == "encoder":
        yield "no layer of the decoder reads it"


def _weak(name: str, matrix: Matrix, checkpoint: Checkpoint, row: float) -> Iterator[str]:
    """A sentence about a matrix that writes little for an input whose numbers are of size one."""
    biased, name = f"{name.removesuffix('weight')}bias", printable(name, 200)
    added = checkpoint.read(biased) if biased in checkpoint.shapes else np.zeros(1)
    length, bias = _strength(matrix) * math.sqrt(matrix.shape[1]), float(np.linalg.norm(added))
    if not length > SHORT * row:
        words = f"the rows of the embedding have {row:.2g}"
        yield f"{name} writes vectors of length {length:.2g} in its weaker directions, and {words}"
    elif not length > DROWNED * bias:
        yield f"{name} writes vectors of length {length:.2g}, beside a bias of {bias:.2g}"
    elif added.size == len(matrix) and np.mean(added < -HELD_BACK * np.linalg.norm(matrix, axis=1)) > MOST_HELD_BACK:
        yield f"the bias of {name} holds back what it writes"


def _strength(matrix: Matrix, most: int = WIDEST) -> float:
    """How long a matrix makes an input of length one, in all but its weakest directions; 0 if it is not finite.

    `most` is in how many directions it can write at all.
    """
    if not (abs(matrix) < LARGEST).all():
        return 0.0
    few = _fewer(matrix if len(matrix) < matrix.shape[1] else matrix.T).astype(np.float64)
    squares = np.linalg.eigvalsh(few @ few.T)[-most:]
    return math.sqrt(max(float(np.quantile(squares, WEAKEST)), 0.0))


def _fewer(matrix: Matrix) -> Matrix:
    """The matrix, or so many random mixtures of its rows."""
    if len(matrix) <= WIDEST:
        return matrix
    drawn = np.random.default_rng(0).standard_normal((WIDEST, len(matrix)), dtype=np.float32)
    mixed: Matrix = drawn @ matrix / np.float32(math.sqrt(len(matrix)))
    return mixed


def _in_order(name: str) -> list[tuple[int, str]]:
    """Names with the numbers in them in their order."""
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in re.split(r"(\d{1,9})", name)]


def _matrix(checkpoint: Checkpoint, name: str) -> Matrix:
    """A matrix with a row for each number that it writes; of a convolution with a column for each that it reads."""
    stored = np.asarray(checkpoint.read(name), dtype=np.float32)
    return stored.reshape(len(stored), -1)


def _language(model: Described) -> Described | None:
    main = main_part(parts_of_class(whole_config(model)))
    try:
        return inside(model.repo, whole_config(model), main) if main else None
    except LineageError:
        return None


def _length_of_words(language: Described | None, checkpoint: Checkpoint) -> float:
    """How long the rows of the token embedding usually are, the longest of several; 0 where there is none."""
    wanted = as_names(language.factorization.embedding) if language else ()
    ends = tuple(f".{end}{kind}" for end in wanted for kind in ("", ".weight"))
    stored = [name for name in checkpoint.shapes if f".{name}".endswith(ends)]
    return max((_usual_length(checkpoint, name) for name in stored if checkpoint.tensors[name].numbers), default=0.0)


def _usual_length(checkpoint: Checkpoint, name: str) -> float:
    from hf_lineage.signature.units import read_token_rows

    rows = checkpoint.shapes[name][0]
    read = read_token_rows(checkpoint, name, np.unique(np.linspace(0, rows - 1, TOKENS).astype(np.int64)))
    return float(np.median(np.linalg.norm(np.asarray(read, dtype=np.float64).reshape(len(read), -1), axis=1)))
