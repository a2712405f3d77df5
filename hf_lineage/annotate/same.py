"""Verified claims that an earlier record keeps, and the difference of two files for readers.

A claim that was verified is not taken back because this machine may not ask the Hub. In a difference untrusted text is
escaped, and long lines are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from hf_lineage.checking import Report
from hf_lineage.claims import card
from hf_lineage.errors import CardError, printable
from hf_lineage.hub import client
from hf_lineage.report.record import FILE, Record


def refuse_to_forget(old: Record | None, report: Report) -> None:
    """Raise CardError if a base that a record calls verified cannot be read now, where requests are forbidden."""
    if old is None or not client.offline():
        return
    verified = {claim.base for claim in old.claims if claim.verified}
    for row in report.rows:
        if row.claim.base in verified and row.verdict.code.is_unjudged:
            raise CardError(
                f"{printable(row.claim.base, 200)} was verified before ({FILE} records it), but cannot be read now "
                "because HF_HUB_OFFLINE forbids requests; unset HF_HUB_OFFLINE to keep the record"
            )


CONTEXT = 3
"""Lines shown around a change."""
LARGEST = 4_000_000
"""The most pairs of lines that are compared; a larger change is shown as all lines removed and added."""


def render(file: str, before: bytes | None, after: bytes) -> str:
    """Return the unified diff of a file, empty if nothing changes."""
    old, new = _lines(before or b""), _lines(after)
    hunks = list(_hunks(old, new))
    names = ["--- /dev/null" if before is None else f"--- a/{file}", f"+++ b/{file}"]
    return "\n".join([*names, *hunks]) + "\n" if hunks else ""


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The hunks of a diff; equal lines at both ends are left out before the comparison, as most of a card is equal."""
    alike = _common(old, new)
    start = max(alike - CONTEXT, 0)
    stop = max(_common(old[alike:][::-1], new[alike:][::-1]) - CONTEXT, 0)
    a, b = old[start : len(old) - stop], new[start : len(new) - stop]
    if len(a) * len(b) <= LARGEST:
        groups = SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(CONTEXT)
    else:
        groups = iter([[("replace", 0, len(a), 0, len(b))]])
    for group in groups:
        (_, i, _, k, _), (_, _, j, _, m) = group[0], group[-1]
        yield f"@@ -{_range(start + i, j - i)} +{_range(start + k, m - k)} @@"
        for kind, first, last, low, high in group:
            if kind == "equal":
                yield from map(_shown, " " * (last - first), a[first:last])
            else:
                yield from map(_shown, "-" * (last - first), a[first:last])
                yield from map(_shown, "+" * (high - low), b[low:high])


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _range(start: int, length: int) -> str:
    """A range of lines as diffs write it: counted from 1, an empty one by the line before it."""
    return f"{start + 1 if length else start},{length}"


def _shown(sign: str, line: str) -> str:
    text = line.rstrip("\r\n")
    return f"{sign}{printable(text)}" + ("" if text != line else "\n\\ No newline at end of file")


def _lines(content: bytes) -> list[str]:
    mark, lines = card.parted(content.decode("utf-8", errors="surrogateescape"))
    return [mark + lines[0], *lines[1:]] if lines else [mark] * bool(mark)
