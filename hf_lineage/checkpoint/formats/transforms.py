"""Transforms: undoing the Hadamard matrices that rotate inputs or outputs of stored matrices while the model runs.

QuaRot and SpinQuant multiply what a matrix reads by such a matrix at run time and store the matrix times its inverse,
so that hidden units are mixtures of the model's own. `transform_config`, which compressed-tensors writes into
config.json, says where. Rotated back, a matrix is what the model computes with. If both sides of a product are rotated,
as queries and keys are, nothing has to be undone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.modules import LITERAL, method, pattern, settings
from hf_lineage.checkpoint.tensor import Decode, TensorInfo, single
from hf_lineage.errors import NothingToCompare

SIDES = {"input": 1, "output": 0}
"""Where a transform runs -> the axis of a matrix (out, in) that it rotates."""
ELSEWHERE = frozenset({"weight_input", "weight_output", "q_attn", "k_cache"})
"""Where it is in the stored numbers already, or rotates queries and keys alike."""
WEIGHT = ".weight"
ROTATED = "a rotation mixes the numbers of a matrix with each other before they are rounded"
"""Why no bound holds for each number."""
MOST = 2**8
"""Entries of `transform_config` that are followed."""
OTHERS = ("rotation", "rotation_config")
"""Settings of other programs that rotated weights before they quantized them, in ways that are not undone here."""


@dataclass(frozen=True)
class Online:
    """One transform that runs while the model does."""

    axis: int
    size: int | None
    """The size of its blocks; None if there is one block."""
    plain: bool
    """Whether it is the Hadamard matrix itself, which needs no numbers of its own."""
    targets: tuple[str, ...]
    ignored: tuple[str, ...]


def turned_back(tensors: dict[str, TensorInfo], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
    """Return the tensors as the model computes with them; one whose transform is not known is refused when it is read.

    Raise NothingToCompare for transforms that cannot be followed.
    """
    stated = settings(config)
    if written := next((key for key in OTHERS if stated.get(key)), None):
        raise NothingToCompare(
            f"config.json says that the weights were rotated before they were quantized (`{written}`), in a way that "
            "hf-lineage cannot undo; check the release that was not quantized"
        )
    transforms = list(_online(stated)) if method(config) == "compressed-tensors" else []
    if len(transforms) > MOST:
        raise NothingToCompare(f"config.json has {len(transforms)} entries in `transform_config`, too many to follow")
    for transform in transforms:
        chosen = _chosen(transform)
        for name, tensor in tensors.items():
            if name.endswith(WEIGHT) and chosen(name.removesuffix(WEIGHT)):
                tensors[name] = _turned(tensor, transform)
    return tensors


def _online(stated: Mapping[str, Any]) -> Iterator[Online]:
    """Yield the transforms that run while the model does; NothingToCompare for one that is not understood."""
    written = stated.get("transform_config")
    groups = written.get("config_groups") if isinstance(written, dict) else None
    for group in groups.values() if isinstance(groups, dict) else ():
        places = group.get("apply") if isinstance(group, dict) else None
        for place in places if isinstance(places, list) else [None]:
            place = place if isinstance(place, dict) else {}
            where = str(place.get("location"))
            if where in ELSEWHERE:
                continue
            if where not in SIDES:
                raise NothingToCompare("config.json has an unknown transform under `transform_config`")
            size = group.get("head_dim")
            plain = group.get("type") == "hadamard" and not group.get("randomize")
            known = plain and (size is None or (type(size) is int and size > 0))
            yield Online(SIDES[where], size, known, _names(place.get("targets")), _names(place.get("ignore")))


def _names(listed: Any) -> tuple[str, ...]:
    several = listed if isinstance(listed, list) else [listed]
    return tuple(entry for entry in several if isinstance(entry, str) and entry)


def _chosen(transform: Online) -> Any:
    """Whether a transform is for a module, by its name; NothingToCompare for names of classes and odd patterns."""
    sides = []
    for entries in (transform.targets, transform.ignored):
        literal = frozenset(entry for entry in entries if LITERAL.fullmatch(entry))
        patterns = [pattern(entry.removeprefix("re:")) for entry in entries if entry not in literal]
        sides.append((literal, patterns))
    if any(entry[0].isupper() and "." not in entry for entry in sides[0][0]):
        raise NothingToCompare("config.json has transforms of all modules of a class, which hf-lineage cannot undo")

    def matches(name: str) -> bool:
        chosen, left = (name in literal or any(each.match(name) for each in patterns) for literal, patterns in sides)
        return chosen and not left

    return matches


def _turned(tensor: TensorInfo, transform: Online) -> TensorInfo:
    """A matrix with one side rotated, or refused if the rotation is not known."""
    length = tensor.shape[transform.axis] if len(tensor.shape) == 2 else 0
    size = transform.size or length
    if not transform.plain or not length or length % size or size & (size - 1):
        return replace(tensor, refusal="is stored for a transform that runs with the model and cannot be undone")
    decode = functools.partial(_decode, tensor.decode, transform.axis, size)
    return replace(tensor, decode=decode, itemsize=4, codes=ROTATED)


def _decode(decode: Decode, axis: int, size: int, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    whole = np.moveaxis(single(decode(parts)), axis, -1)
    turned = hadamard(np.array(whole, np.float32, order="C").reshape(-1, size))
    return np.ascontiguousarray(np.moveaxis(turned.reshape(whole.shape), -1, axis))


def hadamard(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows (n, k) times the Hadamard matrix of Sylvester over √k, in place; k is a power of two."""
    size, step = rows.shape[1], 1
    while step < size:
        pairs = rows.reshape(len(rows), -1, 2, step)
        first, second = pairs[:, :, 0].copy(), pairs[:, :, 1]
        pairs[:, :, 0] += second
        np.subtract(first, second, out=second)
        step *= 2
    rows /= np.sqrt(np.float32(size))
    return rows
