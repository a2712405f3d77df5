"""Extraction: checkpoint -> Signature. Every branch is formed, centred and seen through the probes, layer by layer."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from hf_lineage import devices
from hf_lineage.branches import numbers_made, tensors, terms
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.layout import Layout
from hf_lineage.matrices import Read
from hf_lineage.recipe import Array, Recipe
from hf_lineage.residual import Block, Probes, summarise
from hf_lineage.signature import PathSignature, UnitCodes
from hf_lineage.threads import workers

COPIES = 3
"""A layer needs its matrices as stored, once more where heads are repeated or experts laid out, and the next one's."""
MODELS = 2
"""Residuals of both are held while they are compared."""
BESIDES = 2**27
"""Bytes that threads, the linear algebra and the allocator take besides."""
FEWEST = 64
"""Columns that exact mode has to hold at a time: with fewer it would take too many rounds."""


@dataclass(frozen=True)
class Extraction:
    """One model seen along some paths through one recipe: its layers pass through the devices one at a time."""

    checkpoint: Checkpoint
    layout: Layout
    recipe: Recipe
    paths: tuple[str, ...]
    memory: devices.Budgets

    def signatures(self, columns: slice = slice(None)) -> dict[str, PathSignature]:
        """Return the signature of each path, in exact mode only some columns of its residuals and the norm of those.

        A terminal's standard error shows the progress. Raise OptionError where no device can hold a layer.
        """
        layout, layers = self.layout, range(self.layout.layers)
        seen = len(range(self.recipe.columns(layout.width))[columns])
        placed = devices.place([self.working_set(layer, seen) for layer in layers], self.memory)
        found = {path: self._empty(path, seen) for path in self.paths}
        units: dict[str, list[UnitCodes]] = {path: [] for path in self.paths}
        probes = functools.cache(functools.partial(Probes.of, self.recipe, columns=columns))
        loaded = tqdm(self._loaded(placed), total=len(placed), desc="layers", unit="layer", leave=False, disable=None)
        with workers() as share:
            for layer, read in enumerate(loaded):
                for path in (path for path in self.paths if layer in layout.numbers(path)):
                    branch = terms(layout, path, layer, self.recipe, read)
                    most = found[path].corner.shape[1]
                    through = probes(layout.widths[layer], torch.device(placed[layer]), most=most)
                    block = summarise(branch, through, self.recipe, share)
                    put(found[path], layout.numbers(path).index(layer), block)
                    units[path].append(block.units)
        return {path: replace(each, units=tuple(units[path])) for path, each in found.items()}

    def _empty(self, path: str, columns: int) -> PathSignature:
        """The signature of a path before anything is known of it."""
        width, numbers = self.layout.width, self.layout.numbers(path)
        widths = tuple(self.layout.widths[number] for number in numbers)
        unlike = widths if min(widths) < width else ()
        return empty(len(numbers), (width, columns), min(self.recipe.coordinates, *widths), unlike)

    @property
    def room(self) -> int:
        """How many columns of the residuals, along all paths and in all layers, the memory holds in exact mode."""
        least, filled = (max(self.working_set(layer, k) for layer in range(self.layout.layers)) for k in (0, 1))
        layers = sum(len(self.layout.numbers(path)) for path in self.paths)
        column = filled - least + 4 * MODELS * layers * self.layout.width
        room, fewest = (min(self.memory.values()) - BESIDES - least) // column, min(FEWEST, self.layout.width)
        if room < fewest:
            needed = math.ceil((BESIDES + least + fewest * column) / 2**20)
            raise OptionError(f"exact mode needs {needed} MiB here; raise --max-memory or leave --exact out")
        return min(room, self.layout.width)

    def working_set(self, layer: int, columns: int) -> int:
        """Return the bytes of memory that a layer takes, seen through `columns` probes."""
        width, sizes = self.layout.width, self.checkpoint.tensors
        made = {path: numbers_made(self.layout, path, layer) for path in self.paths}
        stored = {path: sum(sizes[name].numbers for name in self._names(layer, (path,))) for path in self.paths}
        hidden = max(stored[path] + made[path] for path in self.paths) // width
        seen = hidden // 2 * (columns + self.recipe.coordinates) + 2 * width * columns
        mapped = sum(sizes[name].size for name in self._names(layer, self.paths))
        return COPIES * mapped + 4 * (seen + max(made.values()))

    def _names(self, layer: int, paths: Sequence[str]) -> dict[str, None]:
        """Each once, in one order whatever the run: the first that cannot be read is what an error names."""
        return {name: None for path in paths for name in tensors(self.layout, path, layer, self.recipe)}

    def _loaded(self, placed: Sequence[devices.Device]) -> Iterator[Read]:
        """Yield every layer's tensors on its device; the next one's are on their way while this one is computed."""
        with ThreadPoolExecutor(1) as pool:
            try:
                coming = pool.submit(self._load, 0, placed[0])
                for following in range(1, len(placed) + 1):
                    found = coming.result()
                    if following < len(placed):
                        coming = pool.submit(self._load, following, placed[following])
                    yield found.__getitem__
            finally:
                # Whoever interrupts does not wait for what is still on its way over the network.
                self.checkpoint.release()

    def _load(self, layer: int, device: devices.Device) -> dict[str, torch.Tensor]:
        """The tensors of one layer, mapped by themselves, so that they are unmapped with it."""
        self.checkpoint.release()
        names = self._names(layer, self.paths)
        self.checkpoint.prefetch(*names)
        return {name: _placed(self.checkpoint.read(name), torch.device(device)) for name in names}


def _placed(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on a device; only from pinned memory does a GPU fetch it while it computes."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@dataclass(frozen=True)
class Residuals:
    """The whole residuals of one path, too large for memory: some columns are made whenever they are asked for."""

    extraction: Extraction
    room: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(L, d, d)."""
        (path,), layout = self.extraction.paths, self.extraction.layout
        return len(layout.numbers(path)), layout.width, layout.width

    def columns(self, chosen: slice) -> Array:
        """Return some columns of every residual, (L, d, b)."""
        (found,) = self.extraction.signatures(chosen).values()
        return np.asarray(found.sketch)


def extract_paths(
    checkpoint: Checkpoint,
    layout: Layout,
    recipe: Recipe,
    paths: Iterable[str] = ("mlp",),
    max_memory: str | None = None,
) -> dict[str, PathSignature]:
    """Return the signature of each path. One layer is in memory at a time.

    Raise NothingToCompare for a path that the model does not have, OptionError where the memory does not suffice.
    """
    wanted = tuple(paths)
    absent = [path for path in wanted if path not in layout.paths]
    if absent:
        raise NothingToCompare(f"{layout.factorization.name} has no path {absent[0]}; it has {', '.join(layout.paths)}")
    extraction = Extraction(checkpoint, layout, recipe, wanted, devices.budgets(max_memory))
    if recipe.probes is not None or extraction.room >= layout.width:
        return extraction.signatures()
    return {path: _by_columns(replace(extraction, paths=(path,))) for path in wanted}


def _by_columns(extraction: Extraction) -> PathSignature:
    """The exact signature of the only path, its residuals left out."""
    residuals = Residuals(extraction, extraction.room)
    squares = np.zeros(residuals.shape[0])
    for start in range(0, extraction.layout.width, residuals.room):
        (found,) = extraction.signatures(slice(start, start + residuals.room)).values()
        squares += found.norm**2
    return replace(found, sketch=residuals, norm=np.sqrt(squares))


def empty(layers: int, shape: tuple[int, ...], size: int, widths: tuple[int, ...] = ()) -> PathSignature:
    """Return the signature of a path before anything is put into it: sketches of a shape (d, k), corners of a size."""
    return PathSignature(
        sketch=np.zeros((layers, *shape), dtype=np.float32),
        corner=np.zeros((layers, size, size), dtype=np.float32),
        trace=np.zeros(layers),
        norm=np.zeros(layers),
        writes=np.zeros(layers),
        widths=widths,
    )


def put(signature: PathSignature, layer: int, block: Block) -> None:
    """Put the block of a layer in its place; one of a narrower stream fills a part of it."""
    rows, columns = block.sketch.shape
    signature.sketch[layer, :rows, :columns] = block.sketch  # type: ignore[index]
    for part in ("corner", "trace", "norm", "writes"):
        getattr(signature, part)[layer] = getattr(block, part)
