"""Figures in one style: labelled axes, and grey values, markers and dashes that tell series apart without colour."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.grid": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.facecolor": "white",
    "svg.hashsalt": "hf-lineage",
}
matplotlib.rcParams.update(STYLE)

SERIES = (("0.0", "-", "o"), ("0.45", "--", "s"), ("0.65", ":", "^"), ("0.3", "-.", "D"))
"""Grey, dashes and marker of the first, second, ... series."""
RELATED, UNRELATED = ("o", "0.15"), ("x", "0.55")  # marker and grey of a kind of pair


def panels(count: int = 1, rows: int = 1, size: tuple[float, float] = (3.2, 2.6)) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many panels of a size (inches) in each row, and the panels in reading order."""
    figure = Figure(figsize=(size[0] * count, size[1] * rows), layout="constrained")
    grid = figure.subplots(rows, count, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def save(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def strips(axes: Axes, related: Mapping[str, Sequence[float]], unrelated: Mapping[str, Sequence[float]]) -> None:
    """Draw the scores of groups of pairs as points, related groups as dots and the others as crosses, from top down."""
    groups = [(name, scores, RELATED) for name, scores in related.items()]
    groups += [(name, scores, UNRELATED) for name, scores in unrelated.items()]
    spread = np.random.default_rng(0)
    for height, (_, scores, (marker, grey)) in enumerate(groups):
        jitter = spread.uniform(-0.22, 0.22, len(scores))
        axes.scatter(scores, height + jitter, s=14, linewidths=0.9, alpha=0.8, marker=marker, color=grey)
    axes.set_yticks(range(len(groups)), [f"{name} ({len(scores)})" for name, scores, _ in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.axhline(len(related) - 0.5, color="0.8", linewidth=0.8)


def lines(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], markers: bool = True) -> None:
    """Draw series over common abscissas, with a legend where there are several."""
    for (name, y), (grey, dashes, marker) in zip(series.items(), cycle(SERIES), strict=False):
        axes.plot(x, y, color=grey, linestyle=dashes, marker=marker if markers else None, label=name)
    if len(series) > 1:
        axes.legend()


def matrix(axes: Axes, values: ArrayLike, title: str, most: float | None = None) -> None:
    """Draw a score matrix, dark where it is large; the same `most` makes several comparable."""
    image = axes.imshow(values, cmap="Greys", vmin=0, vmax=most, interpolation="nearest")
    axes.set_title(title)
    axes.set_xlabel("W_in of block j")
    axes.set_ylabel("W_out of block i")
    if axes.figure is not None:
        axes.figure.colorbar(image, ax=axes, shrink=0.8)


def roc(axes: Axes, series: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Draw the receiver operating characteristic of methods, each given its related and its unrelated scores."""
    for (name, (related, unrelated)), (grey, dashes, _) in zip(series.items(), cycle(SERIES), strict=False):
        thresholds = np.r_[np.inf, np.sort(np.r_[related, unrelated])[::-1]]
        hits, alarms = (np.mean(np.asarray(some)[:, None] >= thresholds, axis=0) for some in (related, unrelated))
        axes.plot(alarms, hits, color=grey, linestyle=dashes, label=name)
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=0.8, zorder=0)
    axes.set(xlabel="share of unrelated pairs called related", ylabel="share of related pairs found")
    axes.legend(loc="lower right")
