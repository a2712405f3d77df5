"""Modules that config.json leaves out of the quantization, whatever their tensors are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hf_lineage.errors import NothingToCompare, printable

KEYS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore")
MOST = 2**12
"""Entries of a list; the longest ones have one for each matrix that is left out."""
LITERAL = re.compile(r"[\w.\-/:]+", re.ASCII)
LONGEST, QUANTIFIERS = 100, 3
"""Of a pattern: with more, a hostile one could take for ever."""


def left_out(stated: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return whether a loader takes a module as it is stored, by its name.

    Raise NothingToCompare for a list or a pattern that cannot be followed.
    """
    lists = [value for key in KEYS if isinstance(value := stated.get(key), list)]
    entries = [entry.removeprefix("re:") for value in lists for entry in value if isinstance(entry, str) and entry]
    if len(entries) > MOST:
        raise NothingToCompare(f"config.json leaves {len(entries)} modules out of the quantization, too many to follow")
    literal = tuple(entry for entry in entries if LITERAL.fullmatch(entry))
    below = tuple(f"{entry}." for entry in literal)
    patterns = [pattern(entry) for entry in entries if not LITERAL.fullmatch(entry)]

    def matches(name: str) -> bool:
        plain = name.endswith(literal) or name.startswith(below)
        return plain or any(pattern.match(name[:LONGEST]) for pattern in patterns)

    return matches


def pattern(entry: str) -> re.Pattern[str]:
    """Return a regular expression that ends at the end of a part of a name; NothingToCompare for a hostile one."""
    quantifiers = len(re.findall(r"[*+?{]", entry))
    if len(entry) <= LONGEST and quantifiers <= QUANTIFIERS and not re.search(r"\)[*+?{]|\\[1-9]|\(\?", entry):
        try:
            return re.compile(rf"(?:{entry})(?:(?<=\.)|(?=\.|$))")
        except (re.error, RecursionError, OverflowError):
            pass
    raise NothingToCompare(
        "config.json leaves modules out of the quantization by a pattern that hf-lineage cannot read: "
        f"{printable(entry, 200)}; write their names instead"
    )
