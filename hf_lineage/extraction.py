"""Extraction: checkpoint -> Signature. Every branch is formed, centred and seen through the probes, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from hf_lineage import devices
from hf_lineage.branches import Read, Term, terms
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.errors import NothingToCompare
from hf_lineage.layout import Layout, Shape
from hf_lineage.signature import PathSignature, Recipe

COPIES = 2
"""A layer needs its largest matrix set as stored, at most float32, and once more where key heads are repeated."""


@dataclass(frozen=True)
class Probes:
    """What a branch is looked at through, on one device: Z (width, k), or None for the identity, and S (m,)."""

    matrix: torch.Tensor | None
    coordinates: torch.Tensor

    @classmethod
    def of(cls, recipe: Recipe, width: int, device: torch.device) -> Probes:
        """Return a recipe's probes on a device."""
        matrix = recipe.probe_matrix(width)
        return cls(
            None if matrix is None else torch.from_numpy(matrix).to(device),
            torch.from_numpy(recipe.test_coordinates(width)).to(device),
        )


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: torch.Tensor
    corner: torch.Tensor
    trace: float
    norm: float


def extract_paths(
    checkpoint: Checkpoint,
    layout: Layout,
    recipe: Recipe,
    paths: Iterable[str] = ("mlp",),
    max_memory: str | None = None,
) -> dict[str, PathSignature]:
    """Return the signature of each path. One layer is in memory at a time; a terminal's standard error shows progress.

    Raise NothingToCompare for a path that the model does not have, OptionError where no device can hold a layer.
    """
    wanted = tuple(paths)
    absent = [path for path in wanted if path not in layout.paths]
    if absent:
        raise NothingToCompare(f"{layout.factorization.name} has no path {absent[0]}; it has {', '.join(layout.paths)}")
    placed = devices.place(working_sets(layout, checkpoint.shapes, recipe), devices.budgets(max_memory))
    blocks: dict[str, list[Block]] = {path: [] for path in wanted}
    probes = {device: Probes.of(recipe, layout.width, torch.device(device)) for device in set(placed)}
    for layer, device in enumerate(tqdm(placed, desc="layers", unit="layer", leave=False, disable=None)):
        read = _reader(checkpoint, torch.device(device))
        for path in wanted:
            branch = terms(layout, path, layer, recipe, read)
            blocks[path].append(summarise(branch, layout.width, probes[device], recipe))
        checkpoint.release()
    return {path: stack(found) for path, found in blocks.items()}


def working_sets(layout: Layout, shapes: Mapping[str, Shape], recipe: Recipe) -> list[int]:
    """Return the bytes of memory that extracting each layer takes."""
    columns = layout.width if recipe.probes is None else min(recipe.probes, layout.width)
    products = 3 * layout.width * columns
    sets = zip(layout.mlp, layout.attention, strict=True)
    sizes = [
        max(sum(math.prod(shapes[name]) for name in found.tensors) for found in mlp + attention)
        for mlp, attention in sets
    ]
    return [4 * (COPIES * size + products) for size in sizes]


def summarise(branch: Iterable[Term], width: int, probes: Probes, recipe: Recipe) -> Block:
    """Return what the signature keeps of one branch: its centred residual R seen through the probes, tr M and ‖M‖_F.

    R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    """
    chosen = probes.coordinates
    device = chosen.device
    product = torch.zeros(width, width if probes.matrix is None else probes.matrix.shape[1], device=device)
    corner = torch.zeros(len(chosen), len(chosen), device=device)
    trace = total = torch.zeros((), dtype=torch.float64, device=device)
    for out, inn in (tile for term in branch for tile in term.tiles()):
        product.addmm_(out.mT, inn if probes.matrix is None else inn @ probes.matrix)
        corner.addmm_(out.index_select(1, chosen).mT, inn.index_select(1, chosen))
        trace = trace + torch.dot(out.flatten(), inn.flatten()).double()
        total = total + torch.dot(out.sum(dim=1).double(), inn.sum(dim=1).double())
    ones = (total - trace) / (width * (width - 1)) if recipe.ones else torch.zeros_like(trace)
    identity = trace / width - ones
    norm = product.double().norm()
    eye = torch.eye(width, device=device) if probes.matrix is None else probes.matrix
    sketch = product - identity.float() * eye - ones.float() * eye.sum(dim=0)
    corner = corner - identity.float() * torch.eye(len(chosen), device=device) - ones.float()
    if not (torch.isfinite(sketch).all() and torch.isfinite(corner).all() and torch.isfinite(norm)):
        return Block(torch.zeros_like(sketch).cpu(), torch.zeros_like(corner).cpu(), math.nan, math.nan)
    return Block(sketch.cpu(), corner.cpu(), float(trace), float(norm))


def _reader(checkpoint: Checkpoint, device: torch.device) -> Read:
    return lambda name: checkpoint.read(name).to(device)


def stack(blocks: Sequence[Block]) -> PathSignature:
    """Return the blocks of all layers as one PathSignature."""
    return PathSignature(
        sketch=torch.stack([block.sketch for block in blocks]).numpy(),
        corner=torch.stack([block.corner for block in blocks]).numpy(),
        trace=np.array([block.trace for block in blocks]),
        norm=np.array([block.norm for block in blocks]),
    )
