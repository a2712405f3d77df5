"""Kinds: model type -> the settings and small tensors that can take branches out of the stream, and values that do not.

They were measured by running transformers' modules (`python -m tests.settings`): a setting that is not listed changes
no branch, or the class does not read it, or another rule reads it. Small tensors that no factorization reads are looked
at as well, if they scale or gate the output of a branch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Shape, find_layers
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.tables import registry_table
from hf_lineage.errors import NothingToCompare, printable

SETTINGS = "loading/settings.json"


class Fine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of a setting with which every branch of a layer reaches the stream."""

    least: float | None = None
    most: float | None = None
    others: tuple[bool | str | None, ...] = ()
    """The values that are no numbers."""

    def holds(self, value: Any) -> bool:
        """Return whether every number, word or switch of a value is one of them."""
        return all(map(self._holds, value if isinstance(value, list) else [value]))

    def _holds(self, value: Any) -> bool:
        switches = [other for other in self.others if isinstance(other, bool)]
        if isinstance(value, int | float) and value in (0, 1) and switches:
            return bool(value) in switches
        if not isinstance(value, int | float):
            return value in self.others if isinstance(value, str | None) else isinstance(value, Mapping)
        ends = self.least, self.most
        above, below = (end is None or (value >= end if at == 0 else value <= end) for at, end in enumerate(ends))
        return ends != (None, None) and above and below

    def __str__(self) -> str:
        least = f"numbers from {self.least:g}" if self.least is not None else "numbers"
        most = f" to {self.most:g}" if self.most is not None else ""
        numbers = [f"{least}{most}"] if (self.least, self.most) != (None, None) else []
        return " or ".join((*numbers, *(json.dumps(other) for other in self.others if other is not None)))


class Outside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a small tensor takes a branch out of the stream if its numbers are too small, or too large."""

    small: bool = False
    large: bool = False


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model type."""

    settings: str
    """A mark that shows whether transformers has given the type other settings than those that were tried."""
    held: frozenset[str] = frozenset()
    """The keys of `loading/multipliers.yaml` that stand in its code."""
    rest: Mapping[str, Fine] = {}
    """Key, dotted for one inside of another -> the values with which every branch reaches the stream."""
    small: Mapping[str, Outside] = {}
    """Name of a small tensor in a layer, without `.weight` -> the sides on which it takes a branch out."""
    inner: Mapping[str, str] = {}
    """Key of an inner configuration -> its model type, where it does not state one itself."""


class Part(NamedTuple):
    """A configuration, or one inside of another, with the measurements of its model type."""

    name: str
    kind: Kind
    config: Mapping[str, Any]


def kinds() -> Mapping[str, Kind]:
    """Return every model type that was tried."""
    return registry_table(SETTINGS, dict[str, Kind])


def parts(config: Mapping[str, Any], usual: str | None) -> Iterator[Part]:
    """Yield a configuration and those inside of it, as far as their types were tried; `usual` is its type by class."""
    waiting: list[tuple[Mapping[str, Any], str | None]] = [(config, usual)]
    while waiting:
        inside, usual = waiting.pop()
        declared = inside.get("model_type")
        name = declared if isinstance(declared, str) and declared in kinds() else usual
        kind = kinds().get(name or "")
        if name and kind:
            yield Part(name, kind, inside)
        known = kind.inner if kind else {}
        waiting += [(value, known.get(key)) for key, value in inside.items() if isinstance(value, Mapping)]


def settings_reservations(config: Mapping[str, Any], usual: str | None) -> Iterator[str]:
    """Yield a sentence for each setting with which a branch may not reach the stream."""
    for part in parts(config, usual):
        for key, fine in part.kind.rest.items():
            outer, _, last = key.rpartition(".")
            within = setting(part.config, outer) if outer else part.config
            if isinstance(within, Mapping) and last in within and not fine.holds(within[last]):
                yield (
                    f"config.json says `{key}: {printable(json.dumps(within[last], default=str), 100)}`, with which a "
                    f"branch of the layers of {part.name} may not reach the stream; with {fine} every branch does"
                )


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
    """Return why a branch may not reach the stream with the tensor under this name; empty if it does."""
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
    """Return the least and the largest absolute value; both are the mean where each coordinate has a number."""
    sizes = np.abs(values.astype(np.float64)).ravel()
    return float(sizes.mean() if sizes.size == width else sizes.min()), float(sizes.max())
