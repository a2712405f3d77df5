"""Loaded layers: the tensors that transformers would load as layers, and the activation scales beside them.

Tensors that are not loaded do not count. A repository that loaders would read differently is not judged; the error
names both readings.

Inputs far above the largest number of the format are cut off, and those far below its step are 0: the branch is idle.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.config_checks import default_depth
from hf_lineage.architecture.layers import Layer, Shape, Stack, find_layers
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.schema import Factorization, as_stacks
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable

ALIASES = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
"""Names that configurations give to the number of layers; transformers treats them as one key."""
PREDICTING = ("num_nextn_predict_layers", "num_mtp_layers")
"""Keys that count additional layers which only predict further tokens; transformers does not load those."""


@dataclass(frozen=True)
class Reading:
    """The tensors that transformers would load, and sentences about those that it would not."""

    shapes: Mapping[str, Shape]
    notes: tuple[str, ...] = ()


def as_loaded(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Reading:
    """Return the tensors without the layers that transformers leaves out.

    Raise NothingToCompare where layers stand under two prefixes, or are not as many as `config.json` says.
    """
    for patterns in as_stacks(factorization.layers).values():
        names = [pattern for pattern in dict.fromkeys(patterns) if _on_disk(pattern, shapes)]
        if len(names) > 1:
            raise Ambiguous(
                f"layers stand under {names[0]} and under {names[1]}: loaders disagree on which of them are the "
                "model; remove the others"
            )
    dropped: dict[str, int] = {}
    for stack, own in itertools.groupby(find_layers(factorization, shapes), key=lambda layer: layer.stack):
        layers = list(own)
        depth = _depth(factorization, layers, config)
        if depth is not None and len(layers) != depth:
            dropped |= {name: 0 for layer in _beyond(layers, depth, stack, config) for name in layer.shapes}
    note = f"{len(dropped)} tensors of layers that only predict further tokens are left out, as in transformers"
    left = {name: shape for name, shape in shapes.items() if name not in dropped}
    return Reading(left, (note,) if dropped else ())


def _on_disk(pattern: str, shapes: Mapping[str, Shape]) -> bool:
    numbered = re.sub(r"\\{(layer|stage|block)\\}", r"[0-9]{1,6}", re.escape(pattern))
    return any(map(re.compile(f"{numbered}\\.").match, shapes))


def _beyond(layers: list[Layer], depth: int, stack: Stack, config: Mapping[str, Any]) -> list[Layer]:
    """Return the layers beyond the depth if `config.json` declares them as predicting; NothingToCompare otherwise."""
    predicting = next((count for key in PREDICTING if isinstance(count := config.get(key), int)), 0)
    if depth < len(layers) <= depth + predicting:
        return layers[depth:]
    name = f" in the {stack.name}" if stack.name else ""
    more = (
        f"transformers loads layers 0 to {depth - 1} and leaves the others out"
        if depth < len(layers)
        else "transformers fills the missing ones with random numbers"
    )
    raise NothingToCompare(
        f"config.json says {depth} layers{name} and the weights hold {len(layers)}: {more}, other loaders refuse or "
        "load them all; make the two agree"
    )


def _depth(factorization: Factorization, layers: list[Layer], config: Mapping[str, Any]) -> int | None:
    """Return the number of layers of a stack by `config.json`, or by default for the model's type; None if unknown."""
    stack = layers[0].stack
    named = as_stacks(factorization.depth) if factorization.depth else {}
    prefix = re.sub(r"\d+(?=\D*$)", "{layer}", layers[0].prefix)
    keys = named.get(stack.name) or named.get(prefix) or named.get("")
    if keys:
        counts = [_count(config, stack.named(key)) for key in keys]
        # A stage beyond the list of the layers of each stage has no layers.
        stages = [key.removesuffix(".{stage}") for key in keys if key.endswith(".{stage}")]
        listed = any(isinstance(setting(config, key), list) for key in stages)
        missing = 0 if listed else None
        return next((count for count in counts if count is not None), missing)
    outer_keys = list(dict.fromkeys(_prefixes(factorization, stack)))
    entries = {f"{outer_key}{key}": _count(config, f"{outer_key}{key}") for outer_key in outer_keys for key in ALIASES}
    depths = {key: count for key, count in entries.items() if count is not None}
    if len(set(depths.values())) > 1:
        raise Ambiguous(
            f"config.json counts the layers twice, {' and '.join(f'{key}: {count}' for key, count in depths.items())}: "
            "loaders disagree on which count to use; make them agree"
        )
    defaults = (default_depth(setting(config, f"{outer_key}model_type")) for outer_key in outer_keys)
    return next(itertools.chain(depths.values(), filter(None, defaults)), None)


def _prefixes(factorization: Factorization, stack: Stack) -> Iterator[str]:
    """Yield prefixes of the keys of `config.json` that count heads: the number of layers may stand beside them."""
    heads = as_stacks(factorization.heads)
    for key in heads.get(stack.name) or next(iter(heads.values())):
        outer = key.removesuffix(".{stage}").rpartition(".")[0]
        yield f"{outer}." if outer else ""


def _count(config: Mapping[str, Any], key: str) -> int | None:
    """Return a number of layers, or the length of a list or text of them; 0 for other values, None where absent.

    Raise CheckpointError for a number that is written as a text.
    """
    value = setting(config, key)
    if value is None:
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        raise CheckpointError(f"config.json: `{key}` is the text {value[:20]!r}; leave out its quotes")
    if isinstance(value, list | str):
        return len(value)
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def refuse_hidden(layout: Layout) -> None:
    """Raise NothingToCompare for matrices in the layers that could be loaded in place of those that are read."""
    if layout.unclaimed:
        raise NothingToCompare(
            f"the layers hold {len(layout.unclaimed)} more matrices, such as {printable(layout.unclaimed[0], 200)}, "
            "which may be loaded in their place; remove those that do not belong to the class"
        )
    _refuse_alternatives(layout)


def _refuse_alternatives(layout: Layout) -> None:
    """Raise NothingToCompare where a layer holds an MLP and, inside of the same module, experts: it loads one of them.

    No class has both in one layer; `config.json` says which of them a layer has, and the other is dead weight.
    """
    for sets in layout.branches["mlp"]:
        names = [next(iter(layer_set.slots.values())).tensor.removesuffix(".weight") for layer_set in sets]
        modules = {name.rpartition(".")[0]: name for name in names}
        for module, name in modules.items():
            inside = next((other for other in names if other.startswith(f"{module}.") and other != name), None)
            if inside is not None and inside.rpartition(".")[0] != module:
                raise NothingToCompare(
                    f"a layer holds {printable(name, 200)} and {printable(inside, 200)}: transformers loads the one "
                    "that config.json gives for the layer and leaves the other out; remove the one that is not loaded"
                )


NAME = re.compile(r"(?P<matrix>.+)\.(?:input|output|activation|q|k|v|kv)(?P<divides>_global)?_scale(?:_ub)?")
LARGEST = 448.0
"""The largest number of E4M3; of the other formats it is 3 times less to 6 times more."""
LEAST, MOST = 1e-2, 1e6
"""The largest input over the root mean square of the gain; calibration gives 1 to some ten thousand."""
MOST_NUMBERS = 2**16
"""The most numbers of a tensor of scales, which may have one for each expert."""


def within_range(
    layout: Layout,
    names: Iterable[str],
    shapes: Mapping[str, Shape],
    read: Callable[[str], NDArray[Any]],
    prefetch: Callable[..., None] = lambda *_: None,
) -> Iterator[str]:
    """Yield, of some names, those of activation scales with which the output of a norm reaches the matrix."""
    small = (name for name in names if np.prod(shapes[name], dtype=float) <= MOST_NUMBERS)
    scales = {name: match for name in small if (match := NAME.fullmatch(name))}
    prefetch(*scales)
    norms = {
        slot.tensor.removesuffix(".weight"): layer_set.norm
        for layer_set in layout.everything
        for slot in layer_set.slots.values()
    }
    added = layout.factorization.gain == "one_plus"
    for name, match in scales.items():
        norm, scale = norms.get(match["matrix"]), read(name).astype(np.float64)
        gain = read(norm).astype(np.float64) + added if norm else np.ones(1)
        with np.errstate(all="ignore"):
            reach = LARGEST * (1 / scale if match["divides"] else scale) / np.sqrt(np.mean(gain**2))
        if reach.size and np.all((reach >= LEAST) & (reach <= MOST)):
            yield name
