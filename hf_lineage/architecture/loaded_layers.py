"""Loaded layers: the tensors that transformers loads as layers, and small tensors that can take layers out.

A repository that loaders would read differently is not judged; the error names both readings.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.config_checks import Outside, Part, known_type
from hf_lineage.architecture.layers import Layer, Shape, find_layers
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.schema import Factorization, as_stacks
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable

ALIASES = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")  # Keys of the number of layers, here as one
Shapes = Mapping[str, Shape]
Read = Callable[[str], NDArray[Any]]
NAME = re.compile(r"(?P<matrix>.+)\.(?:input|output|activation|q|k|v|kv)(?P<divides>_global)?_scale(?:_ub)?")
"""Scales of inputs: far above the largest number of the format they are cut off, far below its step they are 0."""
LARGEST = 448.0  # The largest number of E4M3; of the other formats it is 3 times less to 6 times more
LEAST_REACH, MOST_REACH = 1e-2, 1e6  # Largest input over the rms of the gain; calibration gives 1 to some ten thousand
LEAST, MOST = 1e-3, 1e3  # After training, numbers of small tensors that decide about a branch lie between these
MOST_NUMBERS = 2**20  # More than the widest stream has


class LoadedTensors(NamedTuple):
    """The tensors that transformers would load, and sentences about those that it would not."""

    shapes: Mapping[str, Shape]
    notes: tuple[str, ...] = ()


def as_loaded(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> LoadedTensors:
    """Return the tensors that transformers loads; NothingToCompare where loaders or `config.json` see others."""
    for patterns in as_stacks(factorization.layers).values():
        starts = {each: re.sub(r"\\{(layer|stage|block)\\}", r"[0-9]{1,6}", re.escape(each)) for each in patterns}
        names = [each for each, start in starts.items() if any(map(re.compile(rf"{start}\.").match, shapes))]
        if len(names) > 1:
            both = f"layers stand under {names[0]} and under {names[1]}"
            raise Ambiguous(f"{both}: loaders disagree on which of them are the model; remove the others")
    dropped: dict[str, int] = {}
    for stack, own in itertools.groupby(find_layers(factorization, shapes), key=lambda layer: layer.stack):
        layers = list(own)
        depth = _depth(factorization, layers, config)
        if depth is None or len(layers) == depth:
            continue
        # Layers beyond the depth are left out where `config.json` declares that they only predict further tokens.
        keys = ("num_nextn_predict_layers", "num_mtp_layers")
        if depth < len(layers) <= depth + next((count for key in keys if isinstance(count := config.get(key), int)), 0):
            dropped |= {name: 0 for layer in layers[depth:] for name in layer.shapes}
            continue
        name, fills = f" in the {stack.name}" if stack.name else "", "fills the missing ones with random numbers"
        loads = f"loads layers 0 to {depth - 1} and leaves the others out" if depth < len(layers) else fills
        both = f"config.json says {depth} layers{name} and the weights hold {len(layers)}"
        others = "other loaders refuse or load them all; make the two agree"
        raise NothingToCompare(f"{both}: transformers {loads}, {others}")
    note = f"{len(dropped)} tensors of layers that only predict further tokens are left out, as in transformers"
    left = {name: shape for name, shape in shapes.items() if name not in dropped}
    return LoadedTensors(left, (note,) if dropped else ())


def _depth(factorization: Factorization, layers: list[Layer], config: Mapping[str, Any]) -> int | None:
    """Return the number of layers of a stack by `config.json`, or by default for the model's type; None if unknown."""
    stack = layers[0].stack
    stacks = as_stacks(factorization.depth) if factorization.depth else {}
    prefix = re.sub(r"\d+(?=\D*$)", "{layer}", layers[0].prefix)
    keys = stacks.get(stack.name) or stacks.get(prefix) or stacks.get("")
    if keys:
        counts = [_count(config, stack.fill_stage(key)) for key in keys]
        # A stage beyond the list of the layers of each stage has no layers.
        lists = [setting(config, key.removesuffix(".{stage}")) for key in keys if key.endswith(".{stage}")]
        missing = 0 if any(isinstance(each, list) for each in lists) else None
        return next((count for count in counts if count is not None), missing)
    # The number of layers may stand beside the key that counts heads.
    outers = (key.removesuffix(".{stage}").rpartition(".")[0] for key in stack.heads(factorization))
    outer_keys = list(dict.fromkeys(f"{outer}." if outer else "" for outer in outers))
    entries = {f"{outer_key}{key}": _count(config, f"{outer_key}{key}") for outer_key in outer_keys for key in ALIASES}
    depths = {key: count for key, count in entries.items() if count is not None}
    if len(set(depths.values())) > 1:
        twice = " and ".join(f"{key}: {count}" for key, count in depths.items())
        disagree = "loaders disagree on which count to use; make them agree"
        raise Ambiguous(f"config.json counts the layers twice, {twice}: {disagree}")
    defaults = (known_type(setting(config, f"{outer_key}model_type")).depth for outer_key in outer_keys)
    return next(itertools.chain(depths.values(), filter(None, defaults)), None)


def _count(config: Mapping[str, Any], key: str) -> int | None:
    """Return a number, or a length, of layers; 0 for other values, None where absent, CheckpointError for its text."""
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
        more = f"{len(layout.unclaimed)} more matrices, such as {printable(layout.unclaimed[0], 200)}"
        remedy = "which may be loaded in their place; remove those that do not belong to the class"
        raise NothingToCompare(f"the layers hold {more}, {remedy}")
    # No class has an MLP and, inside of the same module, experts in one layer: config.json says which is dead weight.
    for sets in layout.branches["mlp"]:
        names = [next(iter(layer_set.slots.values())).tensor.removesuffix(".weight") for layer_set in sets]
        for module, name in {name.rpartition(".")[0]: name for name in names}.items():
            inside = [other for other in names if other.startswith(f"{module}.") and other.rpartition(".")[0] != module]
            if inside:
                raise NothingToCompare(
                    f"a layer holds {printable(name, 200)} and {printable(inside[0], 200)}: transformers loads the one "
                    "that config.json gives for the layer and leaves the other out; remove the one that is not loaded"
                )


def within_range(
    layout: Layout, names: Iterable[str], shapes: Shapes, read: Read, prefetch: Callable[..., None] = lambda *_: None
) -> Iterator[str]:
    """Yield, of some names, those of activation scales with which the output of a norm reaches the matrix."""
    small = (name for name in names if np.prod(shapes[name], dtype=float) <= 2**16)  # it may have one for each expert
    scales = {name: match for name in small if (match := NAME.fullmatch(name))}
    prefetch(*scales)
    slots = ((slot, layer_set.norm) for layer_set in layout.everything for slot in layer_set.slots.values())
    norms = {slot.tensor.removesuffix(".weight"): norm for slot, norm in slots}
    added = layout.factorization.gain == "one_plus"
    for name, match in scales.items():
        norm, scale = norms.get(match["matrix"]), read(name).astype(np.float64)
        gain = read(norm).astype(np.float64) + added if norm else np.ones(1)
        with np.errstate(all="ignore"):
            reach = LARGEST * (1 / scale if match["divides"] else scale) / np.sqrt(np.mean(gain**2))
        if reach.size and np.all((reach >= LEAST_REACH) & (reach <= MOST_REACH)):
            yield name


def scalar_reservations(
    layout: Layout, shapes: Shapes, read: Read, parts: Iterable[Part], prefetch: Callable[..., None] = lambda *_: None
) -> Iterator[str]:
    """Yield a sentence for each small tensor with which a branch may not reach the stream; all are fetched at once."""
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


def _reason(stored: str, width: int, sides: Outside, shapes: Shapes, read: Read) -> str:
    """Return why a branch may not reach the stream with the tensor under this name; empty if it does."""
    text = printable(stored, 200)
    if not 0 < math.prod(shapes[stored]) <= MOST_NUMBERS:
        return f"{text} has shape {shapes[stored]}, and decides whether a branch of its layer reaches the stream"
    try:
        sizes = np.abs(read(stored).astype(np.float64)).ravel()
    except NothingToCompare as error:
        return f"{printable(str(error), 300)}; it decides whether a branch of its layer reaches the stream"
    # Where each coordinate has a number, the mean counts.
    least, most = (sizes.mean(), sizes.max()) if sizes.size == width else (sizes.min(), sizes.max())
    if not ((sides.small and not least >= LEAST) or (sides.large and not most <= MOST)):
        return ""
    sizes_text = f"{text} holds numbers of the size {least:.2g} to {most:.2g}"
    lost = "a branch of its layer may not reach the stream"
    return f"{sizes_text}, with which {lost}; training leaves {LEAST:g} to {MOST:g}"
