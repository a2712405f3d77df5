"""A comparison beside controls as one self-contained page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from hf_lineage.checking import Controlled, Report
from hf_lineage.checking.results import moment
from hf_lineage.errors import printable
from hf_lineage.report.controls.axis import axis, enlarged, points, whole
from hf_lineage.report.controls.rows import COLUMNS, MEANING, Line, Role, cells, command, lines, outcome, remarks
from hf_lineage.report.page import Commit, commit_of_base, commit_of_model, fill, identifier, word
from hf_lineage.report.words import KINDS, wording
from hf_lineage.report.words import publishable as public


def render(controlled: Controlled, explain: bool = False) -> str:
    """Return the page; `explain` adds nothing, the page of the pair alone has every layer."""
    del explain
    private = {name: short for report in _reports(controlled) for name, short in public.names(report).items()}
    again, controlled = command(controlled), _public(controlled, private)
    drawn, pair = lines(controlled), controlled.pair
    return fill(
        "controls/controls.html.j2",
        pair=pair,
        name=printable(pair.model, 200),
        base=controlled.base,
        base_name=printable(controlled.base, 200),
        moment=moment(pair.checked_at),
        banners=[(line.row, wording.reason(line.row), outcome(line)) for line in drawn if line.role is Role.PAIR],
        remarks=list(remarks(controlled)),
        meaning_of_controls=MEANING,
        paths=list(_axes(drawn)),
        columns=COLUMNS,
        rows=list(_cells(drawn)),
        outcomes=[outcome(line) for line in drawn if line.role is not Role.PAIR],
        limits=wording.LIMITS,
        models=list(_models(controlled)),
        command=f"{again} --format html",
        settings=wording.settings(pair),
    )


def _reports(controlled: Controlled) -> list[Report]:
    return [controlled.pair, *(one.report for one in controlled.controls)]


def _public(controlled: Controlled, private: Mapping[str, str]) -> Controlled:
    """The same without the paths of this machine, as on the page of one report."""
    controls = (
        replace(one, report=public.public(one.report), declares=private.get(one.declares, one.declares))
        for one in controlled.controls
    )
    base = private.get(controlled.base, controlled.base)
    return Controlled(base, public.public(controlled.pair), tuple(controls))


def _models(controlled: Controlled) -> Iterator[tuple[str, str, Commit]]:
    """What was compared, each with its commit."""
    pair = controlled.pair
    yield "Model", pair.model, commit_of_model(pair)
    yield from (("Base", row.claim.base, commit_of_base(row)) for row in pair.rows[:1])
    yield from (("Control", one.report.model, commit_of_model(one.report)) for one in controlled.controls)


def _axes(drawn: Sequence[Line]) -> Iterator[tuple[str, Markup, Markup | None, str]]:
    """For each path its axis, the same enlarged where the nulls are small, and the models that are not on it."""
    for path in dict.fromkeys(path for line in drawn for path in line.row.verdict.evidence):
        shown = points(drawn, path)
        close = enlarged(shown)
        absent = [line for line in drawn if all(point.line is not line for point in shown)]
        named = "; ".join(f"{line.name} ({line.row.verdict.words})" for line in absent)
        near = axis(shown, close, f"{path}-close") if close else None
        yield path, axis(shown, whole(shown), path), near, named


def _cells(drawn: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    for line in drawn:
        tone = KINDS[line.row.verdict.kind].tone
        for first, *rest, words in cells(line):
            yield identifier(first) if first else "", *rest, word(words, tone)
