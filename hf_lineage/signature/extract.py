"""Extraction: checkpoint -> Signature. Layer by layer, branches are formed, centred and multiplied with the probes."""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.paths import PATHS
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import Memory
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.signature import devices, factors
from hf_lineage.signature.devices import Share, alone, workers
from hf_lineage.signature.matrix_product import MatrixProduct, Probes, move
from hf_lineage.signature.recipe import Array, Recipe
from hf_lineage.signature.residual import Block, summarise
from hf_lineage.signature.values import PathSignature, UnitCodes

MLP = ("mlp",)
COPIES = 2  # copies of a layer's matrices in memory: as stored, and with heads repeated or experts unstacked
MODELS = 2  # models whose residuals are in memory while they are compared
BESIDES = 2**27  # bytes that threads, the linear algebra and the allocator need in addition
SMALL = 2**25  # bytes of working set up to which every thread computes layers of its own: dividing one would cost more
FEWEST = 64  # columns that exact mode has to hold at a time: with fewer it would need too many passes


@dataclass(frozen=True)
class Extraction:
    """The extraction of one model along some paths by one recipe: its layers pass through the devices one at a time."""

    checkpoint: Checkpoint
    layout: Layout
    recipe: Recipe
    paths: tuple[str, ...]
    memory: devices.Budgets

    def signatures(self, columns: slice = slice(None)) -> dict[str, PathSignature]:
        """Return the signature of each path, in exact mode of some columns; OptionError for little memory."""
        count = len(range(self.recipe.columns(self.layout.width))[columns])
        needed = [self.working_set(layer, count) for layer in range(self.layout.layers)]
        placed = devices.place(needed, self.memory)
        results = {}
        for path in self.paths:
            widths = tuple(self.layout.widths[number] for number in self.layout.numbers(path))
            size, unlike = min(self.recipe.coordinates, *widths), widths if min(widths) < self.layout.width else ()
            results[path] = empty(len(widths), (self.layout.width, count), size, unlike)
        units: dict[str, dict[int, UnitCodes]] = {path: {} for path in self.paths}
        probes = functools.cache(functools.partial(Probes.draw, self.recipe, columns=columns))
        progress = tqdm(total=len(placed), desc="layers", unit="layer", leave=False, disable=None)

        def fill(layers: Iterator[int], share: Share) -> None:
            for layer, branches in self._load_layers(layers, placed, share):
                for path, branch in branches.items():
                    row, most = self.layout.numbers(path).index(layer), results[path].corner.shape[1]
                    through = probes(self.layout.widths[layer], placed[layer], most=most)
                    block = summarise(branch, through, self.recipe, share)
                    put_block(results[path], row, block)
                    units[path][row] = block.units
                progress.update()

        try:
            with progress, workers() as share:
                if set(placed) == {devices.CPU} and max(needed) <= SMALL:
                    share(functools.partial(fill, share=alone), range(len(placed)))
                else:
                    fill(iter(range(len(placed))), share)
        finally:
            # After an interruption, running downloads are cancelled and not waited for.
            self.checkpoint.release()
        ordered = {path: tuple(units[path][row] for row in sorted(units[path])) for path in results}
        return {path: replace(signature, units=ordered[path]) for path, signature in results.items()}

    @property
    def room(self) -> int:
        """The number of residual columns that fit into memory in exact mode, for all paths and layers together."""
        least, filled = (max(self.working_set(layer, k) for layer in range(self.layout.layers)) for k in (0, 1))
        layers = sum(len(self.layout.numbers(path)) for path in self.paths)
        column = filled - least + 4 * MODELS * layers * self.layout.width
        room, fewest = (min(self.memory.values()) - BESIDES - least) // column, min(FEWEST, self.layout.width)
        if room < fewest:
            needed = math.ceil((BESIDES + least + fewest * column) / 2**20)
            raise OptionError(f"exact mode needs {needed} MiB here; raise {devices.LIMIT} or use probes")
        return min(room, self.layout.width)

    def working_set(self, layer: int, columns: int) -> int:
        """Return the bytes of memory that a layer needs with `columns` probes."""
        width, tensors = self.layout.width, self.checkpoint.tensors
        made = dict.fromkeys(self.paths, 0)  # counts of numbers of heads that read a latent, brought to the stream
        for path in self.paths:
            for one in self.layout.sets(path)[layer]:
                made[path] += sum(one.width * one.units for role in PATHS[path].roles if one.slots[role].latent)
        stored = {path: sum(tensors[name].numbers for name in self._names(layer, (path,))) for path in self.paths}
        hidden = max(stored[path] + made[path] for path in self.paths) // width
        projections = hidden // 2 * (columns + self.recipe.coordinates) + 2 * width * columns
        names = self._names(layer, self.paths)
        decoded = sum(tensors[name].itemsize * tensors[name].numbers for name in names)
        read = sum(part.size for part in self.checkpoint.parts(names).values())
        return COPIES * (read + decoded) + 4 * (projections + max(made.values()))

    def _names(self, layer: int, paths: Sequence[str]) -> dict[str, None]:
        # Each tensor once and in a fixed order, so that an error always names the same one.
        return {name: None for path in paths for name in factors.tensors(self.layout, path, layer, self.recipe)}

    def _load_layers(
        self, layers: Iterator[int], placed: Sequence[devices.Device], share: Share
    ) -> Iterator[tuple[int, Mapping[str, Iterable[MatrixProduct]]]]:
        """Yield some layers, each with its terms by path on its device; meanwhile the layer after it is fetched."""
        memory = Memory()
        for layer in layers:
            names = self._names(layer, self.paths)
            by_rows = {name for path in self.paths for name in factors.read_by_rows(self.layout, path, layer)}
            self.checkpoint.prefetch(*names)
            read = factors.open_tensors(self.checkpoint, names, by_rows, memory, share)
            if layer + 1 < len(placed):
                self.checkpoint.prefetch(*self._names(layer + 1, self.paths))
            branches: dict[str, Iterable[MatrixProduct]] = {}
            for path in self.paths:
                if layer in self.layout.numbers(path):
                    opened = functools.partial(lambda tensors, _names: tensors.__getitem__, read)
                    terms = factors.terms_by_expert(self.layout, path, layer, self.recipe, opened)
                    # On the CPU each term is made when it is needed.
                    on_cpu = placed[layer] == devices.CPU
                    branches[path] = terms if on_cpu else [move(term, placed[layer]) for term in terms]
            yield layer, branches


@dataclass(frozen=True)
class Residuals:
    """The whole residuals of one path, too large for memory: columns are computed when they are asked for."""

    extraction: Extraction
    room: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(L, d, d)."""
        (path,), layout = self.extraction.paths, self.extraction.layout
        return len(layout.numbers(path)), layout.width, layout.width

    def columns(self, chosen: slice) -> Array:
        """Return some columns of every residual, (L, d, b)."""
        (signature,) = self.extraction.signatures(chosen).values()
        return np.asarray(signature.sketch)


def extract_paths(
    checkpoint: Checkpoint, layout: Layout, recipe: Recipe, paths: Iterable[str] = MLP, max_memory: str | None = None
) -> dict[str, PathSignature]:
    """Return the signature of each path; NothingToCompare for one that there is not, OptionError for little memory."""
    wanted = tuple(paths)
    if absent := [path for path in wanted if path not in layout.paths]:
        raise NothingToCompare(f"{layout.factorization.name} has no path {absent[0]}; it has {', '.join(layout.paths)}")
    extraction = Extraction(checkpoint, layout, recipe, wanted, devices.budgets(max_memory))
    if recipe.probes is not None or extraction.room >= layout.width:
        return extraction.signatures()
    signatures = {}
    for path in wanted:  # without its residuals, some of whose columns are made at a time
        one = replace(extraction, paths=(path,))
        residuals = Residuals(one, one.room)
        squares = np.zeros(residuals.shape[0])
        for start in range(0, layout.width, residuals.room):
            (signature,) = one.signatures(slice(start, start + residuals.room)).values()
            squares += signature.norm**2
        signatures[path] = replace(signature, sketch=residuals, norm=np.sqrt(squares))
    return signatures


def empty(layers: int, shape: tuple[int, int], size: int, widths: tuple[int, ...] = ()) -> PathSignature:
    """Return the signature of a path filled with zeros: sketches of a shape (d, k), corners (size, size)."""
    sketch, corner = np.zeros((layers, *shape), np.float32), np.zeros((layers, size, size), np.float32)
    return PathSignature(sketch, corner, np.zeros(layers), np.zeros(layers), widths=widths)


def put_block(signature: PathSignature, layer: int, block: Block) -> None:
    """Put the block of a layer in its place; one of a narrower stream fills a part of it."""
    rows, columns = block.sketch.shape
    signature.sketch[layer, :rows, :columns] = block.sketch  # type: ignore[index]
    for part in ("corner", "trace", "norm"):
        getattr(signature, part)[layer] = getattr(block, part)
