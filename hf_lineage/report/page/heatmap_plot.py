"""The heat map alone, as a picture to put somewhere else; drawn by matplotlib, which is an extra."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_lineage import __version__
from hf_lineage.checking import Report
from hf_lineage.errors import OptionError, installation, printable
from hf_lineage.evidence import Evidence
from hf_lineage.files import write_output
from hf_lineage.report.findings import reasons
from hf_lineage.report.page.heatmap import BRIGHT, ticks
from hf_lineage.report.words import wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": f"hf-lineage {__version__}"},
}
"""What a file says about itself, by suffix: nothing that differs between two runs."""
STYLE = {"svg.hashsalt": "hf-lineage", "text.parse_math": False, "font.size": 9.0, "axes.titlesize": 9.0}
PANEL, ABREAST, MOST = (4.6, 5.8), 3, 24
"""Width and height of one map in inches, how many stand side by side, and how many there are at most."""
LINE, LONGEST = 32, 140
"""Letters in a line, which fit however wide they are, and in a name."""
TICKS = 12


def ready(file: Path) -> None:
    """Raise OptionError if no picture can be made under this name, before weights are read for hours."""
    if _form(file) not in METADATA:
        raise OptionError(f"--plot {file} must end in .png or .svg")
    if importlib.util.find_spec("matplotlib") is None:
        raise OptionError(f"--plot needs matplotlib, which is not installed; {installation('plot')}")


def save(report: Report, file: Path) -> None:
    """Write one map for each claim and path, side by side; where nothing was measured, why."""
    ready(file)
    from matplotlib import style

    content = io.BytesIO()
    with _without_time(), style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # letters of names: boxes will do
        figure = _figure(report)
        figure.savefig(content, format=_form(file), metadata=METADATA[_form(file)], dpi=120)
    write_output(file, content.getvalue())


@contextlib.contextmanager
def _without_time() -> Iterator[None]:
    """Keep SOURCE_DATE_EPOCH from matplotlib, which fails where it is not a time; no picture states one."""
    epoch = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if epoch is not None:
            os.environ["SOURCE_DATE_EPOCH"] = epoch


def _form(file: Path) -> str:
    return file.suffix.lower().removeprefix(".")


def _figure(report: Report) -> Figure:
    from matplotlib.figure import Figure

    panels = list(_panels(report))
    shown = panels[:MOST]
    columns = max(1, min(ABREAST, len(shown)))
    rows = max(1, math.ceil(len(shown) / columns))
    figure = Figure((PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    if not shown:
        figure.text(0.5, 0.5, _reasons(report), ha="center", va="center")
        return figure
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for place, (title, evidence) in zip(axes, shown, strict=False):
        _draw(place, title, evidence)
    for place in list(axes)[len(shown) :]:
        place.set_axis_off()
    if len(panels) > len(shown):
        figure.suptitle(f"The first {len(shown)} of {len(panels)}")
    return figure


def _panels(report: Report) -> Iterator[tuple[str, Evidence]]:
    """Both names and the verdict, and the evidence, for each claim and path."""
    for row in report.rows:
        names = f"{_folded(f'base: {wording.about(row)}')}\n{_folded(f'model: {report.model}')}"
        for path, evidence in row.verdict.evidence.items():
            words = row.verdict.by_path[path].words
            yield f"{names}\n{path}: {words}\n{wording.figures(evidence)}", evidence


def _draw(axes: Axes, title: str, evidence: Evidence) -> None:
    from matplotlib.patches import Rectangle

    comparison, (base, candidate) = evidence.comparison, evidence.layers
    picture = axes.imshow(comparison.similarity, cmap="viridis", vmin=0.0, vmax=1.0, interpolation="nearest")
    line = min(1.5, 30 / max(comparison.similarity.shape))
    for row, column, cosine in zip(*comparison.pairs, comparison.by_layer, strict=True):
        edge = "black" if cosine >= BRIGHT else "white"
        axes.add_patch(Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, fill=False, edgecolor=edge, linewidth=line))
    for axis, layers, side in ((axes.yaxis, base, "base"), (axes.xaxis, candidate, "model")):
        room = max(2, TICKS * len(layers) // max(comparison.similarity.shape))
        places, numbers = zip(*ticks(layers, len(layers) / room), strict=True)
        axis.set_ticks([place - 0.5 for place in places], numbers)
        axis.set_label_text(f"layer of the {side}")
    axes.set_title(title)
    bar = axes.figure.colorbar(picture, ax=axes, orientation="horizontal", fraction=0.05, pad=0.02)
    bar.set_label("cosine (0: independent, 1: the same weights)\noutlined: the assignment")


def _reasons(report: Report) -> str:
    """Why there is no map."""
    return "\n".join(textwrap.wrap(printable(f"{report.model}: {' '.join(reasons(report))}", 600), 2 * LINE))


def _folded(text: str) -> str:
    return "\n".join(textwrap.wrap(printable(text, LONGEST), LINE))
