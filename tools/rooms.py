"""Rooms: the map of the package, drawn from its contract of layers and from what imports what."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "hf_lineage"


def rooms() -> list[str]:
    """Return the rooms from the top to the bottom, as the contract orders them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers: list[str] = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return layers


def files(room: str) -> list[Path]:
    """Return the modules of a room."""
    return [*(ROOT / PACKAGE).glob(f"{room}.py"), *(ROOT / PACKAGE / room).rglob("*.py")]


def imported(room: str) -> set[str]:
    """Return the other rooms of which a room imports something, in functions too."""
    nodes = (node for file in files(room) for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    names = (node.module or "" for node in nodes if isinstance(node, ast.ImportFrom))
    return {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")} - {room}


def rooms_block() -> str:
    """Return the map: an arrow from each room to those that it imports from, but for what another arrow implies."""
    order = rooms()
    below = {room: imported(room) & {*order[number + 1 :]} for number, room in enumerate(order)}
    reached: dict[str, set[str]] = {}
    for room in reversed(order):
        reached[room] = below[room].union(*(reached[other] for other in below[room]))
    lines = ["```mermaid", "flowchart TD"]
    for room in order:
        count = len(files(room))
        implied = set().union(*(reached[other] for other in below[room]))
        others = " & ".join(other for other in order if other in below[room] - implied)
        lines.append(f'    {room}["{room}, {count} file{"s" * (count > 1)}"]{others and f" --> {others}"}')
    return "\n".join([*lines, "```"])
