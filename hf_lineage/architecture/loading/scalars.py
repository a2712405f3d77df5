"""Scalars: small tensors that multiply what a branch writes, or open it, and that no factorization reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Shape, find_layers
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.loading.kinds import Outside, Part
from hf_lineage.errors import NothingToCompare, printable

LEAST, MOST = 1e-3, 1e3
"""After training, the numbers of such tensors lie between these."""
MOST_NUMBERS = 2**20
"""More than the widest stream has."""


def scalar_reservations(
    layout: Layout,
    shapes: Mapping[str, Shape],
    read: Callable[[str], NDArray[Any]],
    parts: Iterable[Part],
    prefetch: Callable[..., None] = lambda *_: None,
) -> Iterator[str]:
    """Yield a sentence for each small tensor with which a branch may not reach the stream.

    Everything is requested at once with `prefetch` before it is read.
    """
    outside = {name: sides for part in parts for name, sides in part.kind.small.items()}
    if not outside:
        return
    # Layers beyond those of the layout only predict further tokens, and are not loaded.
    layers = list(zip(find_layers(layout.factorization, shapes), layout.widths, strict=False))
    on_disk = {name: [(stored, width) for layer, width in layers if (stored := layer.find(name))] for name in outside}
    small = (stored for places in on_disk.values() for stored, _ in places)
    prefetch(*(stored for stored in small if math.prod(shapes[stored]) <= MOST_NUMBERS))
    for name, sides in outside.items():
        reasons = [_reason(stored, width, sides, shapes, read) for stored, width in on_disk[name]]
        reasons = [reason for reason in reasons if reason]
        if reasons:
            more = f" ({len(reasons) - 1} more layers have such a tensor too)" if len(reasons) > 1 else ""
            yield f"{reasons[0]}{more}"


def _reason(
    stored: str, width: int, sides: Outside, shapes: Mapping[str, Shape], read: Callable[[str], NDArray[Any]]
) -> str:
    """Why a branch may not reach the stream with the tensor under this name; empty if it does."""
    shown = printable(stored, 200)
    if not 0 < math.prod(shapes[stored]) <= MOST_NUMBERS:
        return f"{shown} has shape {shapes[stored]}, and decides whether a branch of its layer reaches the stream"
    try:
        least, most = _sizes(read(stored), width)
    except NothingToCompare as error:
        return f"{printable(str(error), 300)}; it decides whether a branch of its layer reaches the stream"
    if not ((sides.small and not least >= LEAST) or (sides.large and not most <= MOST)):
        return ""
    return (
        f"{shown} holds numbers of the size {least:.2g} to {most:.2g}, with which a branch of its layer may not reach "
        f"the stream; training leaves {LEAST:g} to {MOST:g}"
    )


def _sizes(values: NDArray[Any], width: int) -> tuple[float, float]:
    """The least and the largest size of its numbers; of a number for each coordinate of the stream their mean size."""
    sizes = np.abs(values.astype(np.float64)).ravel()
    return float(sizes.mean() if sizes.size == width else sizes.min()), float(sizes.max())
