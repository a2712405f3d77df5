"""What a test against the weights of a known model showed, in the words and values that two reports have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.index.search import FOLDER, Group, Judged
from hf_lineage.index.storage import Entry

Against = Callable[[str], str]
"""The command that tests what was asked about against a base."""
SHOWN = 5
"""Models near one that was tested that are named."""


def named(entry: Entry) -> str:
    """Return the name of a known model, safe to print."""
    return printable(entry.model, 200)


def untested(group: Group) -> str:
    """Return the sentence on the models that one of a group was tested for; empty where it stands for itself alone."""
    if not group.near:
        return ""
    more = f" and {len(group.near) - SHOWN} more" if len(group.near) > SHOWN else ""
    verbs = "is near it by its keys, and was" if len(group.near) == 1 else "are near it by their keys, and were"
    return f"{', '.join(map(named, group.near[:SHOWN]))}{more} {verbs} not tested"


def reason(judged: Judged, against: Against | None) -> str:
    """Return why there is nothing more to say of one, with the command that tests a folder; empty if there is."""
    model = judged.group.entry.model
    tests = f"; `{against(model)}` tests it" if against and judged.verdict.reason == FOLDER else ""
    return f"{printable(judged.verdict.reason)}{tests}"


def values(judged: Judged) -> dict[str, Any]:
    """Return the model that was tested, those near it and the verdict, as plain values."""
    return {
        "model": judged.group.entry.model,
        "commit": judged.group.entry.commit,
        "near": [{"model": other.model, "commit": other.commit} for other in judged.group.near],
        "verdict": judged.verdict.name,
        "kind": judged.verdict.kind.identifier if judged.related else None,
        "reason": judged.verdict.reason,
    }
