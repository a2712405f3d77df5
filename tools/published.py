"""The repositories as people publish them, counted: `tests/published` holds each of them to its verdict."""

from __future__ import annotations

from pathlib import Path

import yaml

LIST = Path(__file__).parents[1] / "tests" / "published" / "repositories.yaml"


def published_counts() -> tuple[int, int, int]:
    """Return how many repositories there are, how many true descendants can be decoded, and how many are decided."""
    cases = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    readable = [case for case in cases if "undecided" not in case]
    decided = [case for case in readable if set(case.get("rows", ["VERIFIED"])) == {"VERIFIED"}]
    return len(cases), len(readable), len(decided)


def published_block() -> str:
    """Return the counts as sentences."""
    every, descendants, decided = published_counts()
    return (
        f"`tests/published` builds {every} repositories as people publish them, each as a true descendant and as an "
        f"independent model. Of the {descendants} descendants that can be decoded, {decided} "
        f"({decided / descendants:.1%}) are decided as a whole and related; of the independent models none is. "
        f"No verdict is wrong. The other {every - descendants} repositories are undecided, each with its reason."
    )
