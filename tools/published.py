"""The repositories as people publish them, counted: `tests/published` holds each of them to its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

LIST = Path(__file__).parents[1] / "tests" / "published" / "repositories.yaml"


@dataclass(frozen=True)
class Counts:
    """How many repositories of the list there are of each kind."""

    repositories: int
    descendants: int
    """Those with a format and a class that can be read, each built as a true descendant of its base."""
    decided: int
    """Of these, how many are decided as a whole, and right; the others are right where they are decided."""
    undecoded: int
    """Those that cannot be decided, with the reason that the list demands."""


def published_counts() -> Counts:
    """Return what the list expects, which its test holds every repository to."""
    cases = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    readable = [case for case in cases if not {"undecided", "open"} & case.keys()]
    decided = [case for case in readable if set(case.get("rows", ["RELATED"])) == {"RELATED"}]
    return Counts(len(cases), len(readable), len(decided), len(cases) - len(readable))


def published_block() -> str:
    """The counts as a sentence."""
    counts = published_counts()
    share = counts.decided / counts.descendants
    return (
        f"`tests/published` builds {counts.repositories} repositories as people publish them, each as a true "
        f"descendant and as an independent model. Of the {counts.descendants} descendants that can be decoded, "
        f"{counts.decided} ({share:.1%}) are decided as a whole and RELATED; of the independent models none is. "
        f"No verdict is wrong. The other {counts.undecoded} repositories are undecided, each with its reason."
    )
