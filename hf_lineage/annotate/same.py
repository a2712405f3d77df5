"""Facts of an earlier record that a new one must not change, and the difference of two files for readers.

Which layers are read first, and which hidden units are looked up, is drawn anew for every run. Figures that depend on
these draws differ from run to run and mean the same; everything else has to be equal. And what was verified is not
taken back because this machine may not ask the Hub. In a difference untrusted text is escaped, and long lines are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.claims import card
from hf_lineage.errors import CardError, printable
from hf_lineage.evidence import Evidence
from hf_lineage.hub import client
from hf_lineage.report.findings import RecordedParent
from hf_lineage.report.record import FILE, Inherited, PathEvidence, Record, RecordedClaim
from hf_lineage.report.words import drawn

ROUNDING = 0.011
"""The largest difference of two equal figures that were rounded to whole per cent."""
ERRORS = 4
"""Standard errors by which the scores of two samples may differ at most."""
DRAWN: dict[str, Any] = {
    "reason": "",
    "score": None,
    "p_value_adjusted": None,
    "inherited": None,
    "paths": (),
    "parent": None,
    "findings": {},
}
"""The fields of a claim that may depend on random draws, with neutral values."""


def says_the_same(old: Record, new: Record, report: Report) -> bool:
    """Return whether an old record says the same as a new one, which was made from this report."""
    heads = (msgspec.structs.replace(record, claims=(), findings={}) for record in (old, new))
    if len({*map(repr, heads)}) > 1 or len(old.claims) != len(new.claims):
        return False
    return all(map(_same_claim, old.claims, new.claims, report.rows))


def _same_claim(old: RecordedClaim, new: RecordedClaim, row: Row) -> bool:
    if old == new:
        return True
    evidence = row.verdict.evidence
    plain = (msgspec.structs.replace(claim, **DRAWN) for claim in (old, new))
    if not any(map(drawn, evidence.values())) or len({*map(repr, plain)}) > 1 or set(old.evidence) != set(evidence):
        return False
    paths = ((old.evidence[path], new.evidence[path], measured) for path, measured in evidence.items())
    figures = {(path.score, path.p_value_adjusted, path.inherited) for path in old.evidence.values()}
    return (
        _wordless(old.reason) == _wordless(new.reason)
        and (old.score, old.p_value_adjusted, old.inherited) in figures
        and all(_same_path(*path, alpha=new.test.alpha) for path in paths)
        and same_parent(old.parent, new.parent)
    )


def same_parent(old: RecordedParent | None, new: RecordedParent | None) -> bool:
    """Return whether both say the same of the share of a parent: what is drawn moves it within its interval."""
    if old == new or old is None or new is None:
        return old == new
    plain = {repr(msgspec.structs.replace(parent, shares={})) for parent in (old, new)}
    pairs = [(share, new.shares[path]) for path, share in old.shares.items() if path in new.shares]
    return (
        len(plain) == 1
        and len(pairs) == len(old.shares) == len(new.shares)
        and all(
            (a.detected, a.declared) == (b.detected, b.declared)
            and a.low - ROUNDING <= b.high
            and b.low - ROUNDING <= a.high
            for a, b in pairs
        )
    )


def _same_path(old: PathEvidence, new: PathEvidence, evidence: Evidence, alpha: float) -> bool:
    """Return whether the figures of one path differ by no more than other layers and units can explain."""
    if old == new:
        return True
    if not drawn(evidence) or (old.inherited is None) != (new.inherited is None):
        return False
    early, cosines = evidence.analyses > 1, evidence.comparison.by_layer
    apart = float(cosines.max() - cosines.min()) + ROUNDING if early else 0.0
    apart += ERRORS * evidence.comparison.standard_error if evidence.sampled else 0.0
    return (
        (old.verdict, _wordless(old.reason), old.analyses) == (new.verdict, _wordless(new.reason), new.analyses)
        and abs(old.score - new.score) <= apart
        and (old.p_value_adjusted <= alpha) == (new.p_value_adjusted <= alpha)
        and abs(_share(old.inherited) - _share(new.inherited)) <= _shares_apart(evidence, early)
        and old.empirical_null == new.empirical_null
    )


def _share(inherited: Inherited | None) -> float:
    return inherited.share if inherited else 0.0


def _shares_apart(evidence: Evidence, early: bool) -> float:
    """Return the largest difference that two draws explain: both intervals of the share, and the layers' range."""
    if evidence.inherited is None:
        return 0.0
    shares = evidence.inherited.by_layer
    return 2 * evidence.inherited.error + ROUNDING + (float(shares.max() - shares.min()) if early else 0.0)


def _wordless(reason: str) -> str:
    """Return a reason without its numbers."""
    return re.sub(r"\d[\d.,% -]*", "#", reason)


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
    """Yield the hunks of a diff; equal lines at both ends are left out first, as most of a card is equal."""
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
    """Return a range of lines as diffs write it: counted from 1, an empty one by the line before it."""
    return f"{start + 1 if length else start},{length}"


def _shown(sign: str, line: str) -> str:
    text = line.rstrip("\r\n")
    return f"{sign}{printable(text)}" + ("" if text != line else "\n\\ No newline at end of file")


def _lines(content: bytes) -> list[str]:
    mark, lines = card.parted(content.decode("utf-8", errors="surrogateescape"))
    return [mark + lines[0], *lines[1:]] if lines else [mark] * bool(mark)
