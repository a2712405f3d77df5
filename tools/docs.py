"""The blocks of the documentation that a program writes; `python -m tools.docs` writes them, a test keeps them true.

A block stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Names after the command write only those blocks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools import listed, measured, published, shown

ROOT = Path(__file__).parents[1]
README, REGISTRY = ROOT / "README.md", ROOT / "registry" / "README.md"
BENCHMARKS = ROOT / "benchmarks" / "README.md"
PAGES = ROOT / "docs"

BLOCKS: dict[str, tuple[Path, Callable[[], str]]] = {
    "demo": (README, shown.demo_block),
    "minilm": (README, partial(measured.summary_block, "minilm")),
    "use": (README, shown.use_block),
    "commands": (README, listed.commands_block),
    "options": (PAGES / "commands.md", listed.options_block),
    "inputs": (PAGES / "ci.md", listed.inputs_block),
    "outputs": (PAGES / "ci.md", listed.outputs_block),
    "organisation": (PAGES / "ci.md", listed.organisation_block),
    "audiences": (PAGES / "audiences.md", shown.audiences_block),
    "identify": (PAGES / "identify.md", shown.identify_block),
    "identify adapter": (PAGES / "identify.md", shown.identify_adapter_block),
    "tree": (PAGES / "identify.md", shown.tree_block),
    "search": (PAGES / "identify.md", measured.search_block),
    "building": (PAGES / "identify.md", measured.building_block),
    "cost": (PAGES / "identify.md", measured.cost_block),
    "reference": (PAGES / "method.md", listed.reference_block),
    "network": (PAGES / "signatures.md", measured.network_block),
    "link": (PAGES / "signatures.md", measured.link_block),
    "speed": (PAGES / "benchmarks.md", measured.speed_block),
    "unrelated": (PAGES / "benchmarks.md", measured.unrelated_block),
    "paper": (PAGES / "benchmarks.md", measured.paper_block),
    "adapters": (PAGES / "adapters.md", measured.adapters_block),
    "merges": (PAGES / "merges.md", partial(measured.summary_block, "merges")),
    "disputes": (PAGES / "disputes.md", measured.disputes_block),
    "accused": (PAGES / "disputes.md", measured.accused_block),
    "rivals": (PAGES / "benchmarks.md", measured.rivals_block),
    "missed": (BENCHMARKS, measured.missed_block),
    "attacks": (PAGES / "limits.md", partial(measured.summary_block, "attacks")),
    "forged": (PAGES / "limits.md", partial(measured.summary_block, "forged")),
    "executed": (PAGES / "run.md", partial(measured.summary_block, "executed")),
    "strict": (PAGES / "strict.md", measured.strict_block),
    "power": (PAGES / "limits.md", partial(measured.summary_block, "power")),
    "reshaped": (PAGES / "limits.md", partial(measured.summary_block, "reshaped")),
    "coverage": (PAGES / "classes.md", listed.coverage_block),
    "classes": (PAGES / "classes.md", listed.classes_block),
    "undecoded": (PAGES / "formats.md", listed.undecoded_block),
    "published": (PAGES / "verdicts.md", published.published_block),
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
