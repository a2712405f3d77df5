"""Passing over: what of an index could not be read, told once and in few sentences, however much it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Passed:
    """What was passed over, by its name, and why."""

    shards: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    """By the model."""

    @property
    def notes(self) -> list[str]:
        """One sentence for files of keys, and one for signatures; none where all was read."""
        return [
            *_note("files of the index", self.shards),
            *_note("models of the index", self.signatures),
        ]


def _note(what: str, problems: Mapping[str, str]) -> list[str]:
    if not problems:
        return []
    first = next(iter(problems.values()))
    return [f"{len(problems)} {what} could not be read and were left out; the first: {first}"]
