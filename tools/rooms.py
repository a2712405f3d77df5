"""The picture of the rooms of the package, `docs/rooms.svg`: `python -m tools.rooms` writes it anew.

A row is a layer of the import contract in `pyproject.toml`: a room imports only from rows below it. Beside the rows
stand the values that travel upwards, each in the row of the room that makes it.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from importlib import import_module
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PICTURE = ROOT / "hf_lineage", ROOT / "docs" / "rooms.svg"
VALUES = {
    "hub": {"hub.RepoRef": "what a name means"},
    "checkpoint": {"checkpoint.Checkpoint": "tensors by name, read one at a time"},
    "signature": {"signature.Signature": "what is computed from the weights"},
    "evidence": {"evidence.Verdict": "what two signatures show"},
    "checking": {
        "checking.contents.contents.Contents": "what is in a repository",
        "checking.results.report.Report": "every claim with its verdict",
    },
    "report": {"report.findings.finding.Finding": "what each format prints"},
}
"""Room -> the values that it makes for others, and what each is."""
WIDTH, LEFT, ROW, GAP, LETTERS = 790, 540, 68, 8, 6.2
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .name { font-weight: 600 }
.what { font-size: 11px; fill: #59636e }
rect { fill: #f6f8fa; stroke: #d1d9e0 } path { stroke: #0f766e; stroke-width: 2; fill: none } .value { fill: #0f766e }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .what { fill: #9198a1 } rect { fill: #151b23; stroke: #3d444d } .value { fill: #5eead4 }
  path { stroke: #5eead4 }
}
"""


def layers() -> list[list[str]]:
    """Return the rooms of each layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rooms = next(contract for contract in contracts if contract.get("containers") == ["hf_lineage"])
    return [[room.strip() for room in layer.split("|")] for layer in rooms["layers"]]


def purpose(room: str) -> str:
    """Return what a room is for, by the first sentence of its docstring."""
    file = PACKAGE / room / "__init__.py"
    text = ast.get_docstring(ast.parse((file if file.exists() else PACKAGE / f"{room}.py").read_text("utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.partition(": ")[2].rstrip(".") or first.rstrip(".")


def box(room: str, left: float, top: float, width: float) -> str:
    """Return one room: its name, and what it is for in at most two lines."""
    lines = textwrap.wrap(purpose(room), int((width - 16) / LETTERS), max_lines=2, placeholder=" …")
    texts = "".join(
        f'<text class="what" x="{left + 8:g}" y="{top + 32 + 14 * at:g}">{escape(line)}</text>\n'
        for at, line in enumerate(lines)
    )
    name = f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{ROW - GAP}" rx="6"/>\n'
        f'<text class="name" x="{left + 8:g}" y="{top + 17:g}">{escape(name)}</text>\n{texts}'
    )


def values(room: str, top: float) -> str:
    """Return the values that a room makes, if it makes any."""
    texts = ""
    for number, (place, what) in enumerate(VALUES.get(room, {}).items()):
        module, _, name = place.rpartition(".")
        getattr(import_module(f"hf_lineage.{module}"), name)
        at = top + 19 + 30 * number
        texts += f'<text class="name value" x="{LEFT + 40}" y="{at:g}">{name}</text>\n'
        texts += f'<text class="what" x="{LEFT + 40}" y="{at + 14:g}">{escape(what)}</text>\n'
    return texts


def picture() -> str:
    """Return the picture as SVG."""
    rows = layers()
    height = ROW * len(rows) + GAP
    parts, places = [], []
    for number, rooms in enumerate(rows):
        top, width = GAP + ROW * number, (LEFT - GAP * len(rooms)) / len(rooms)
        parts += [box(room, GAP + at * (width + GAP), top, width) for at, room in enumerate(rooms)]
        parts += [values(room, top) for room in rooms]
        places += [top + 15 for room in rooms if room in VALUES]
    arrows = "".join(
        f'<path d="M{LEFT + 24} {lower - 9:g}V{upper + 12:g}m-4 6l4-6l4 6"/>\n' for upper, lower in pairwise(places)
    )
    dots = "".join(f'<circle class="value" cx="{LEFT + 24}" cy="{place:g}" r="4"/>\n' for place in places)
    title = "The rooms of hf_lineage and the values between them"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n{''.join(parts)}{arrows}{dots}</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
