"""The small family tree at the head of a page: what a report knows of the ancestry of its model, and nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Code, Word
from hf_lineage.index.tree import Edge, Mark
from hf_lineage.report.page import fill
from hf_lineage.report.tree.rows import CLAIMS, TONES, Node, picture
from hf_lineage.report.words import wording

FEWEST = 3
"""Models from which on there is a picture: of two, the verdict says it all."""
MOST = 8
"""Bases, and parts of the model, that are drawn; a picture with more is no summary."""
MARKS = {
    **{code: Mark.VERIFIED for code in Code if code.word is Word.VERIFIED},
    **{code: Mark.WEAKER for code in Code if code.word is Word.RELATED},
    Code.PART: Mark.IN_PART,
    Code.UNRELATED: Mark.CONTRADICTED,
}
"""Code of a verdict -> the evidence of an edge; any other code judged nothing."""
FIRST = (Mark.CONTRADICTED, Mark.NO_TRACE, Mark.VERIFIED, Mark.IN_PART, Mark.WEAKER, Mark.NOT_JUDGED)
"""Order in which bases are drawn if there are too many: other names never push out what the weights contradict."""
SOLID = "Solid lines: the weights confirm it."
DASHED = "Dashed lines: declared or named, but the weights do not confirm it."
ORDER = "Weights do not tell which model came first."
Edges = Mapping[tuple[str, str], Edge]
"""Names of parent and child in lower case -> the edge."""


@dataclass(frozen=True)
class Family:
    """The models that a report knows, those that others come from first."""

    nodes: tuple[Node, ...]
    left_out: int
    """Number of bases and parts of the model that are not drawn."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every line of the picture."""
        return tuple(edge for node in self.nodes for edge in node.edges)


def figure(report: Report) -> Markup:
    """Return the picture of a report with the same in words; nothing where it holds no more than one claim says."""
    family = family_of(report)
    if len(family.nodes) < FEWEST or any(row.model for row in report.rows):
        return Markup()
    sentences = [_sentence(edge) for edge in family.edges]
    title = f"Family tree of {printable(report.model, 200)}"
    return fill(
        "tree/family.html.j2",
        picture=picture(family.nodes, title, "; ".join(sentences)),
        caption=" ".join(_caption(family)),
        sentences=[f"{sentence}." for sentence in sentences],
    )


def family_of(report: Report) -> Family:
    """Return the models of a report: its bases, relatives, and itself."""
    parts = list(dict.fromkeys(row.part for row in report.rows))
    subjects = {part: f"{report.model}: {part}" if part and parts[1:] else report.model for part in parts[:MOST]}
    rows = [row for row in report.rows if row.part in subjects]
    bases = _drawn(rows)
    edges = [
        Edge(row.claim.base, subjects[row.part], mark_of(row), relation=row.claim.relation or "", seen=_seen(row))
        for row in rows
        if row.claim.base.casefold() in bases
    ]
    edges += [
        Edge(one.model, report.model, Mark.MEASURED, directed=False, seen=f"nearer than {one.base}")
        for one in report.relatives[: max(MOST - len(bases), 1)]
    ]
    left_out = len({row.claim.base.casefold() for row in report.rows}) - len(bases) + len(parts) - len(subjects)
    return Family(tuple(_nodes(edges, list(subjects.values()))), left_out)


def mark_of(row: Row) -> Mark:
    """Return what the edge of a claim rests on."""
    mark = MARKS.get(row.verdict.code, Mark.NOT_JUDGED)
    return Mark.NO_TRACE if mark is Mark.CONTRADICTED and row.claim.sources == NAMED else mark


def _drawn(rows: Sequence[Row]) -> set[str]:
    """Return the bases that are drawn, in lower case."""
    by_weight = sorted(rows, key=lambda row: FIRST.index(mark_of(row)))
    return set(list(dict.fromkeys(row.claim.base.casefold() for row in by_weight))[:MOST])


def _seen(row: Row) -> str:
    """Return the figure that says most: what a parent gave to a merge, else what is inherited."""
    share = row.parent.shares.get(row.verdict.decisive or "") if row.parent else None
    if share is not None and share.clear:
        return f"{share.value:.0%} of the merge"
    inherited = wording.inherited_share(row) if row.verdict.code in (Code.INHERITED, Code.PART) else None
    return "" if inherited is None else f"{inherited:.0%} inherited"


def _nodes(edges: Sequence[Edge], subjects: Sequence[str]) -> Iterator[Node]:
    """Yield every model once; each base a step to the right of the one above, so that its line has a column."""
    names = {name.casefold(): name for edge in reversed(edges) for name in (edge.child, edge.parent)}
    names |= {name.casefold(): name for name in subjects}
    lines: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        ends = edge.parent.casefold(), edge.child.casefold()
        # An adapter that verifies does not stand for weights beside it that were not read.
        if ends[0] != ends[1] and (ends not in lines or lines[ends].mark is Mark.VERIFIED):
            lines[ends] = replace(edge, parent=names[ends[0]], child=names[ends[1]])
    own = [name.casefold() for name in subjects]
    above = list(dict.fromkeys(end for ends in lines for end in ends if end not in own))
    for depth, end in enumerate(above):
        down = [edge for (parent, _), edge in lines.items() if parent == end]
        named = [] if own[1:] else [lines.get((end, own[0]), down[0])]
        yield _node(names[end], depth, named, _into(end, lines))
    for end in own:
        into = _into(end, lines)
        node = _node(names[end], len(above), into if own[1:] else (), into)
        yield replace(node, words=node.words or "this model", strong=True)


def _into(end: str, lines: Edges) -> tuple[Edge, ...]:
    return tuple(edge for (_, child), edge in lines.items() if child == end)


def _node(name: str, depth: int, edges: Sequence[Edge], into: tuple[Edge, ...]) -> Node:
    """Return a model, below which stands what some edges rest on."""
    words = "; ".join(f"{_short(edge)} ({edge.parent})" if edges[1:] else _short(edge) for edge in edges)
    return Node(name, depth, words, TONES[edges[0].mark] if len(edges) == 1 else "", into)


def _short(edge: Edge) -> str:
    return ", ".join(filter(None, (edge.mark.value, edge.seen)))


def _sentence(edge: Edge) -> str:
    relation = f"declared: {printable(edge.relation, 40)}" if edge.relation else ""
    direction = "" if edge.directed or edge.mark in CLAIMS else "direction not known"
    parts = filter(None, (edge.mark.value, printable(edge.seen, 300), direction, relation))
    return f"{printable(edge.child, 200)} from {printable(edge.parent, 200)}: {', '.join(parts)}"


def _caption(family: Family) -> Iterator[str]:
    """Yield what the lines mean that are there."""
    dashed = {edge.mark in CLAIMS for edge in family.edges}
    yield from (SOLID,) * (False in dashed) + (DASHED,) * (True in dashed)
    yield ORDER
    if family.left_out:
        yield f"{family.left_out} more are not drawn; the list below has all of them."
