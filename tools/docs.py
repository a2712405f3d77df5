"""The blocks of the documentation that a program writes; `python -m tools.docs` writes them, a test keeps them true.

A block stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Names after the command write only those blocks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools import listed, measured, published, rooms, shown

ROOT = Path(__file__).parents[1]
README, REGISTRY = ROOT / "README.md", ROOT / "registry" / "README.md"
BENCHMARKS = ROOT / "benchmarks" / "README.md"
PAGES = ROOT / "docs"

BLOCKS: dict[str, tuple[Path, Callable[[], str]]] = {
    "use": (README, shown.use_block),
    "commands": (PAGES / "index.md", listed.commands_block),
    "annotate": (PAGES / "publish.md", shown.annotate_block),
    "review": (PAGES / "review.md", shown.review_block),
    "inputs": (PAGES / "ci.md", listed.inputs_block),
    "outputs": (PAGES / "ci.md", listed.outputs_block),
    "organisation": (PAGES / "ci.md", listed.organisation_block),
    "demo": (PAGES / "many.md", shown.demo_block),
    "identify": (PAGES / "many.md", shown.identify_block),
    "tree": (PAGES / "many.md", shown.tree_block),
    "options": (PAGES / "reference.md", listed.options_block),
    "undecoded": (PAGES / "formats.md", listed.undecoded_block),
    "coverage": (PAGES / "formats.md", listed.coverage_block),
    "power": (PAGES / "limits.md", partial(measured.summary_block, "power")),
    "reference": (PAGES / "method.md", listed.reference_block),
    "adapters": (PAGES / "method.md", measured.adapters_block),
    "paper": (PAGES / "benchmarks.md", measured.paper_block),
    "published": (PAGES / "benchmarks.md", published.published_block),
    "rivals": (PAGES / "benchmarks.md", measured.rivals_block),
    "speed": (BENCHMARKS, measured.speed_block),
    "missed": (BENCHMARKS, measured.missed_block),
    "forged": (BENCHMARKS, partial(measured.summary_block, "forged")),
    "rooms": (ROOT / "CONTRIBUTING.md", rooms.rooms_block),
    "classes": (REGISTRY, listed.classes_block),
    "unsupported": (REGISTRY, listed.unsupported_block),
    "mlp alone": (REGISTRY, listed.mlp_alone_block),
}
"""By its name, the file that a block stands in and what writes it."""


def block(text: str, name: str) -> re.Match[str]:
    """Return where a generated block stands in a text; ValueError where there is none."""
    place = re.search(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", text, re.DOTALL)
    if place is None:
        raise ValueError(f"there is no block {name}: put its two markers where it belongs")
    return place


def write(name: str) -> None:
    """Write one block anew, with the empty lines around it that keep a table a table."""
    file, render = BLOCKS[name]
    text = file.read_text(encoding="utf-8")
    place = block(text, name)
    new = f"{text[: place.start(2)]}\n{render()}\n\n{text[place.start(3) :]}"
    file.write_text(new, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or BLOCKS:
        write(name)
