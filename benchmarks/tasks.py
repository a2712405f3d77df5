"""What is measured inside a process of its own: functions of folders that return seconds, bytes and scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clock import Seconds, interleaved, peak

if TYPE_CHECKING:
    from benchmarks.rebasin import Block
    from hf_lineage import Recipe
    from hf_lineage.architecture.layout import Layout
    from hf_lineage.checkpoint import Checkpoint
    from hf_lineage.signature.devices import Device
    from hf_lineage.signature.values import PathSignature

PROBES = 64
PATHS = ("mlp",)


def graphics() -> str | None:
    """Return the name of the GPU that torch sees, None without one."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def recipe(probes: int | None) -> Recipe:
    """Return the default recipe with this many probes; None is exact."""
    from hf_lineage import RECIPES

    return replace(RECIPES["robust"], probes=probes)


def extraction(folder: Path, probes: int | None = PROBES) -> Callable[[], PathSignature]:
    """Return what extracts the `mlp` path of a model whose headers have been read."""
    from hf_lineage.signature.extraction import extract_paths

    checkpoint, layout = _opened(folder)
    return lambda: extract_paths(checkpoint, layout, recipe(probes), PATHS)["mlp"]


def times(subjects: Sequence[tuple[Path, int | None]], rounds: int) -> list[Seconds]:
    """Return how long extraction takes for each model and number of probes."""
    tasks = {str(number): extraction(*subject) for number, subject in enumerate(subjects)}
    return list(interleaved(tasks, rounds).values())


def times_and_limits(folder: Path, rounds: int) -> dict[str, Seconds]:
    """Return how long extraction takes, and the two things it cannot do without: reading and multiplying."""
    return interleaved({"extract": extraction(folder), "touch": touch(folder), "multiply": multiply(folder)}, rounds)


def _opened(folder: Path) -> tuple[Checkpoint, Layout]:
    """A model, its headers read."""
    from hf_lineage.checking.opened import headers
    from hf_lineage.hub.reference import resolve

    opened = headers(resolve(str(folder)))
    checkpoint, layout = opened.checkpoint, opened.layout
    return checkpoint, layout


def _matrices(layout: Layout) -> list[tuple[str, str]]:
    """The names of the two matrices that the `mlp` path reads in each layer, the one that reads the stream first."""
    return [(found.slots["up"].tensor, found.slots["down"].tensor) for layer in layout.sets("mlp") for found in layer]


def _device() -> Device:
    """Where the layers are computed: the first GPU, if there is one."""
    import torch

    return 0 if torch.cuda.is_available() else "cpu"


def _synchronize() -> None:
    """Wait for the GPU, which computes behind our back."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def touch(folder: Path) -> Callable[[], None]:
    """Return what reads every byte of the same matrices, to the GPU where there is one."""
    from hf_lineage.signature.arrays import on_device

    checkpoint, layout = _opened(folder)
    device = _device()

    def run() -> None:
        for names in _matrices(layout):
            for name in names:
                on_device(checkpoint.read(name).ravel().view(np.int64), device).sum()
            _synchronize()
            checkpoint.release()

    return run


def multiply(folder: Path) -> Callable[[], None]:
    """Return what does the 4 d h k operations of every layer in float32, on matrices ready in memory."""
    from hf_lineage.signature.arrays import on_device

    checkpoint, layout = _opened(folder)
    width, layers = layout.width, _matrices(layout)
    hidden = math.prod(checkpoint.shapes[layers[0][0]]) // width
    random, shapes = np.random.default_rng(0), ((hidden, width), (width, hidden), (width, min(PROBES, width)))
    up, down, probes = (on_device(random.standard_normal(shape, np.float32), _device()) for shape in shapes)

    def run() -> None:
        for _ in layers:
            down @ (up @ probes)
        _synchronize()

    return run


def peak_of_extraction(folder: Path) -> int:
    """Return the bytes that extraction adds to the process at its peak, imports and headers apart."""
    from hf_lineage.signature.devices import budgets

    budgets()  # which imports torch where there may be a GPU
    run = extraction(folder)
    before = peak()
    run()
    return peak() - before


def peak_of_exact_comparison(a: Path, b: Path, limit: str) -> int:
    """Return the bytes that comparing two models in exact mode adds at its peak under a limit such as `512MiB`."""
    import scipy.optimize  # noqa: F401

    from hf_lineage import Options, compare
    from hf_lineage.signature.devices import budgets

    budgets(limit)  # which imports torch
    for folder in (a, b):
        _opened(folder)
    before = peak()
    compare(str(a), str(b), Options(recipe=recipe(None), max_memory=limit))
    return peak() - before


def exact_and_sketched(a: Path, b: Path, rounds: int) -> tuple[dict[str, Seconds], float, float, float]:
    """Return the times of both kinds of extraction, the score of the pair in each, and the sketch's standard error."""
    from hf_lineage.evidence.comparison import compare_paths

    kinds = {"exact": None, "sketch": PROBES}
    taken = interleaved({name: extraction(a, probes) for name, probes in kinds.items()}, rounds)
    exact, sketch = (compare_paths(extraction(a, k)(), extraction(b, k)()) for k in kinds.values())
    return taken, exact.score, sketch.score, sketch.standard_error


def permutation_test(a: Path, b: Path, permutations: int, rounds: int) -> Seconds:
    """Return how long the permutation test of two stored signatures takes."""
    from hf_lineage import load_signature
    from hf_lineage.evidence.permutation_null import permutation_null

    ours, theirs = (load_signature(file).paths["mlp"] for file in (a, b))
    return interleaved({"test": lambda: permutation_null(ours, theirs, permutations, seed=0)}, rounds)["test"]


def blocks(folder: Path) -> list[Block]:
    """Return W_in (h, d) and W_out (d, h) of every layer's MLP, in float32."""
    from hf_lineage.checkpoint.numbers import single

    checkpoint, layout = _opened(folder)
    turned = layout.factorization.stored == "in_out"
    read = (tuple(single(checkpoint.read(name)) for name in names) for names in _matrices(layout))
    pairs = [tuple(matrix.mT if turned else matrix for matrix in matrices) for matrices in read]
    return [(w_in, w_out) for w_in, w_out in pairs]


def pairs_against_rebasin(a: Path, child: Path, stranger: Path, rounds: int) -> list[dict[str, Seconds]]:
    """Return how long a related and an unrelated pair take, with the product and with Re-Basin."""
    return [_against_rebasin(a, b, rounds) for b in (child, stranger)]


def _against_rebasin(a: Path, b: Path, rounds: int) -> dict[str, Seconds]:
    """From weights, between signatures, with Re-Basin, and the sketch's arithmetic alone."""
    from benchmarks import rebasin
    from hf_lineage.evidence.comparison import compare_paths

    models = [extraction(folder) for folder in (a, b)]
    signatures = [extract() for extract in models]
    products = [multiply(folder) for folder in (a, b)]
    return interleaved(
        {
            "weights": lambda: compare_paths(*(extract() for extract in models)),
            "signatures": lambda: compare_paths(*signatures),
            "Re-Basin": lambda: rebasin.similarity(blocks(a), blocks(b)),
            "multiply": lambda: [run() for run in products],
        },
        rounds,
    )
