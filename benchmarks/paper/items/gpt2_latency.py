"""`tab:gpt2-latency`, and the GPT-2 row of latencies in `tab:laundering`: one pair by every method, in turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.language import Shape
from benchmarks.paper.parts.models import pruned
from benchmarks.paper.parts.scores import score, signature
from hf_lineage.evidence.comparison import assign
from hf_lineage.signature.recipe import RECIPES

OURS, LIBRARY, STORED = "ours", "ours, by the library", "ours, of two signatures"
RIVAL = "Re-Basin+scale"
PAPER: Mapping[str, tuple[float, float, float, float] | tuple[None, ...]] = {
    OURS: (5.1, 2.3, 4.4, 15.1),
    LIBRARY: (None,) * 4,
    STORED: (None,) * 4,
    RIVAL: (387.9, 10.9, 369.6, 424.6),
    "aligned Frobenius": (25.0, 1.3, 23.6, 29.2),
    "singular values": (1438.2, 35.5, 1417.7, 1585.1),
    "weight cosine": (50.1, 7.7, 46.2, 83.1),
}
"""Mean, standard deviation, least and most."""
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda taken: float(np.mean(taken)),
    "std": lambda taken: float(np.std(taken)),
    "min": min,
    "max": max,
}
WHERE = (
    "one thread of a processor against a GPU; both models in memory, and both sides of ours extracted anew; matrices "
    "of the paper's shape with random weights, half of the pairs related"
)
NOTES = {
    LIBRARY: "64 probes, and the coordinates that the permutation test needs, read in tiles as from a file",
    STORED: "64 probes, both signatures loaded",
}
Blocks = Sequence[tuple[torch.Tensor, torch.Tensor]]


def model(shape: Shape, seed: int) -> Blocks:
    """Return W_in and W_out of every layer of an untrained model."""
    random = torch.Generator().manual_seed(seed)
    sizes = (4 * shape.width, shape.width)
    return [
        (
            shape.initial * torch.randn(sizes, generator=random),
            shape.initial * torch.randn(sizes[::-1], generator=random),
        )
        for _ in range(shape.layers)
    ]


def plain(a: Blocks, b: Blocks) -> float:
    """Return the lineage score by equations 1 to 6 as they stand, the whole products and nothing besides."""
    (ours, one), (theirs, other) = (centred(blocks) for blocks in (a, b))
    cosines = (ours @ theirs.T).numpy()
    floor = float(one.min())
    gate = np.minimum(1.0, torch.minimum(one[:, None], other[None, :]).numpy() / floor)
    return float(cosines[assign(cosines * gate)].mean())


def centred(blocks: Blocks) -> tuple[torch.Tensor, torch.Tensor]:
    """Return φ of every layer (L, d²), and its trace concentration (L,)."""
    products = torch.stack([w_out @ w_in for w_in, w_out in blocks])
    traces = products.diagonal(dim1=1, dim2=2).sum(dim=1)
    concentration = traces.abs() / products.flatten(1).norm(dim=1)
    products.diagonal(dim1=1, dim2=2).sub_(traces[:, None] / products.shape[1])
    return torch.nn.functional.normalize(products.flatten(1)), concentration


def methods(a: Blocks, b: Blocks) -> dict[str, Callable[[], object]]:
    """Return what scores a pair, by method."""

    def library() -> float:
        return score(*(signature(blocks, RECIPES["paper"]) for blocks in (a, b)))

    stored = [signature(blocks, RECIPES["paper"]) for blocks in (a, b)]
    arrays = [baselines.arrays(blocks) for blocks in (a, b)]
    found: dict[str, Callable[[], object]] = {
        OURS: partial(plain, a, b),
        LIBRARY: library,
        STORED: partial(score, *stored),
    }
    return found | {name: partial(method, *arrays) for name, method in baselines.METHODS.items()}


def milliseconds(bench: Bench) -> dict[str, list[float]]:
    """Return the time of every pair by every method, the methods in turn, after a first pair that warms the caches."""
    shape, count = bench.sized(Shape(width=48), Shape()), bench.sized(4, 20)

    def measured() -> dict[str, list[float]]:
        taken: dict[str, list[float]] = {name: [] for name in PAPER}
        for number in range(count + 1):
            for name, task in methods(*pair(shape, number)).items():
                start = time.perf_counter()
                task()
                taken[name].append(1000 * (time.perf_counter() - start))
        return {name: times[1:] for name, times in taken.items()}

    return bench.cache.kept("latency", [3, shape, count], measured)


def pair(shape: Shape, number: int) -> tuple[Blocks, Blocks]:
    """Return two models: unrelated ones under an even number, one and the same pruned by 30 % under an odd one."""
    a = model(shape, 2 * number)
    related = [(pruned(w_in, 0.3), pruned(w_out, 0.3)) for w_in, w_out in a]
    return a, related if number % 2 else model(shape, 2 * number + 1)


def table(bench: Bench) -> Sequence[Row]:
    """Return the four statistics of every method, and how much faster ours is than two of them."""
    taken = milliseconds(bench)
    found = [
        Row(f"{name}: {statistic}, ms", paper, summarised(taken[name]), NOTES.get(name, WHERE))
        for name, printed in PAPER.items()
        for (statistic, summarised), paper in zip(STATISTICS.items(), printed, strict=True)
    ]
    for name, paper in ((RIVAL, 76.0), ("singular values", 283.0)):
        for own, times in ((OURS, paper), (STORED, None)):
            ratio = float(np.mean(taken[name]) / np.mean(taken[own]))
            found.append(Row(f"{name} over {own}: times", times, ratio, RATIO))
    return found


RATIO = (
    "the paper sets products on a GPU against assignments on a processor; on one processor products and assignments "
    "cost what their operations do, 4 L d² h to 4 L d h² and the assignment itself"
)


def column(bench: Bench) -> Sequence[Row]:
    """Return the means as the row of the other table."""
    taken = milliseconds(bench)
    paper = {OURS: 5.0, RIVAL: 388.0, "aligned Frobenius": 25.0, "singular values": 1438.0, "weight cosine": 50.0}
    return [
        Row(f"GPT-2, {name}: milliseconds", value, float(np.mean(taken[name])), WHERE) for name, value in paper.items()
    ]


def faster(rows: Mapping[str, Row]) -> None:
    """Stored signatures are compared in less time than any rival takes but the plain cosine."""
    ours = rows[f"{STORED}: min, ms"].number
    for rival in (RIVAL, "singular values"):
        theirs = rows[f"{rival}: min, ms"].number
        claim(ours < theirs, f"two signatures take {ours:.2f} ms, {rival} {theirs:.2f} ms")


def measured(rows: Mapping[str, Row]) -> None:
    claim(all(row.number > 0 for name, row in rows.items() if name.endswith("milliseconds")), "a time is not positive")


EXPERIMENTS = (
    Experiment("tab:gpt2-latency", "a pair by every method", table, faster),
    Experiment("tab:laundering", "GPT-2, latency", column, measured),
)
