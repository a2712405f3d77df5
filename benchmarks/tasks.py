"""What is measured inside a process of its own: functions of folders that return seconds, bytes and scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clock import Seconds, interleaved, peak

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.rebasin import Block
    from hf_lineage import Recipe
    from hf_lineage.architecture.layout import Layout
    from hf_lineage.checkpoint.local import Checkpoint
    from hf_lineage.signature.devices import Device
    from hf_lineage.signature.values import PathSignature

PROBES = 64
PATHS = ("mlp",)


def graphics() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def recipe(probes: int | None) -> Recipe:
    from hf_lineage import RECIPES

    return replace(RECIPES["robust"], probes=probes)


def extraction(folder: Path, probes: int | None = PROBES) -> Callable[[], PathSignature]:
    """Return what extracts the `mlp` path of a model whose headers have been read."""
    from hf_lineage.signature.extract import extract_paths

    checkpoint, layout = _opened(folder)
    return lambda: extract_paths(checkpoint, layout, recipe(probes), PATHS)["mlp"]


def sketch(folder: Path) -> NDArray[np.float32]:
    return np.asarray(extraction(folder)().sketch)


def times(subjects: Sequence[tuple[Path, int | None]], rounds: int) -> list[Seconds]:
    """Return how long extraction takes for each model and number of probes."""
    tasks = {str(number): extraction(*subject) for number, subject in enumerate(subjects)}
    return list(interleaved(tasks, rounds).values())


def times_and_limits(folder: Path, rounds: int) -> dict[str, Seconds]:
    """Return how long extraction takes, and the two things it cannot do without: bytes and operations."""
    return interleaved({"extract": extraction(folder), "touch": touch(folder), "operate": operate(folder)}, rounds)


def _opened(folder: Path) -> tuple[Checkpoint, Layout]:
    """A model, its headers read."""
    from hf_lineage.hub.repo import resolve
    from hf_lineage.source.headers import headers

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
    from hf_lineage.signature.matrix_product import on_device

    checkpoint, layout = _opened(folder)
    device = _device()

    def run() -> None:
        for names in _matrices(layout):
            for name in names:
                on_device(checkpoint.read(name).ravel().view(np.int64), device).sum()
            _synchronize()
            checkpoint.release()

    return run


def operate(folder: Path) -> Callable[[], None]:
    """Return what does in float32, on matrices that lie ready in memory, the operations that the signature needs.

    They are 4 d h k for the two products of a layer, 4 h m² on the test coordinates, and an inner product for the norm
    of every row and column, the trace and the sums; matrices lie as these operations read them fastest. On a GPU it is
    the two products alone.
    """
    from hf_lineage.signature.matrix_product import on_device

    checkpoint, layout = _opened(folder)
    width, layers = layout.width, _matrices(layout)
    hidden = math.prod(checkpoint.shapes[layers[0][0]]) // width
    random, device = np.random.default_rng(0), _device()
    up, columns, gate = (random.standard_normal((hidden, width), np.float32) for _ in range(3))
    probes = random.standard_normal((width, min(PROBES, width)), np.float32)
    read = [up, columns, gate] if any(found.slots.get("gate") for found in layout.sets("mlp")[0]) else [up, columns]
    if device == "cpu":
        return _on_host(read, probes, len(layers))
    placed = [on_device(matrix, device) for matrix in (up, np.ascontiguousarray(columns.T), probes)]

    def on_gpu() -> None:
        for _ in layers:
            placed[1] @ (placed[0] @ placed[2])
        _synchronize()

    return on_gpu


def _on_host(read: Sequence[NDArray[np.float32]], probes: NDArray[np.float32], layers: int) -> Callable[[], None]:
    """Return what does the operations of so many layers, given W_in (h, d), W_outᵀ (h, d), and any gate."""
    from hf_lineage.signature.devices import workers
    from hf_lineage.signature.matrix_product import pieces

    up, columns, *_ = read
    hidden, width = up.shape
    down, ones = np.ascontiguousarray(columns.T), np.ones(width, np.float32)
    chosen = recipe(PROBES).test_coordinates(width)
    seen, corner = np.empty((hidden, probes.shape[1]), np.float32), np.empty((hidden, len(chosen)), np.float32)

    def survey(units: Iterator[slice]) -> None:
        for some in units:
            seen[some], corner[some] = up[some] @ probes, up[some].take(chosen, axis=1)
            for matrix in read:
                np.vecdot(matrix[some], matrix[some])
            np.vecdot(up[some], columns[some])
            (up[some] @ ones) * (columns[some] @ ones)

    def write(rows: Iterator[slice]) -> None:
        for some in rows:
            down[some] @ seen

    def run() -> None:
        with workers() as share:
            for _ in range(layers):
                share(survey, pieces(hidden, 64))
                share(write, pieces(width, 128))
                down[chosen] @ corner

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

    budgets(limit)  # which imports torch where there may be a GPU
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
    from hf_lineage.evidence.permutation import permutation_null

    ours, theirs = (load_signature(file).paths["mlp"] for file in (a, b))
    return interleaved({"test": lambda: permutation_null(ours, theirs, permutations, seed=0)}, rounds)["test"]


def against_many(base: Path, others: Sequence[Path], rounds: int) -> Seconds:
    """Return how long it takes to load stored signatures one after the other and to judge each against one base."""
    from hf_lineage import load_signature
    from hf_lineage.evidence.criteria import Criteria
    from hf_lineage.evidence.evaluate import evaluate

    loaded = load_signature(base)

    def run() -> None:
        for file in others:
            evaluate(loaded, load_signature(file), Criteria())

    return interleaved({"many": run}, rounds)["many"]


def batch_of_scores(a: Path, child: Path, stranger: Path, pairs: int, rounds: int) -> dict[str, Seconds]:
    """Return how long the scores of many models with one take, and those of a single pair, all signatures loaded."""
    from hf_lineage.evidence.comparison import scores

    base, *others = (extraction(folder)() for folder in (a, child, stranger))
    # Copies, because the same signature would stay in the processor's cache.
    many = [replace(others[number % 2], sketch=np.array(others[number % 2].sketch)) for number in range(pairs)]
    return interleaved(
        {"batch": lambda: list(scores(base, many)), "single": lambda: list(scores(base, many[:1]))}, rounds
    )


def blocks(folder: Path) -> list[Block]:
    """Return W_in (h, d) and W_out (d, h) of every layer's MLP, in float32."""
    from hf_lineage.checkpoint.tensor import single

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
    products = [operate(folder) for folder in (a, b)]
    return interleaved(
        {
            "weights": lambda: compare_paths(*(extract() for extract in models)),
            "signatures": lambda: compare_paths(*signatures),
            "Re-Basin": lambda: rebasin.similarity(blocks(a), blocks(b)),
            "operate": lambda: [run() for run in products],
        },
        rounds,
    )
