"""Families: every model once, below the one it comes from; and the small tree at the head of a page.

In the picture a line goes to a row from each of those that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, ClaimResult
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Word
from hf_lineage.index.tree import Edge, Mark, Tree
from hf_lineage.report import wording
from hf_lineage.report.page import draw, fill
from hf_lineage.report.verdicts import sentences

TONES = {
    Mark.VERIFIED: "good",
    Mark.IN_PART: "part",
    Mark.WEAKER: "part",
    Mark.MEASURED: "open",
    Mark.DECLARED: "open",
    Mark.NOT_JUDGED: "open",
    Mark.NO_TRACE: "bad",
    Mark.CONTRADICTED: "bad",
}
"""Mark -> the tone in which it is shown."""
_COLOUR = {"good": "#12642c", "part": "#6b4a00", "open": "#404a57", "bad": "#a3122a"}
COLOURS = {mark: _COLOUR[tone] for mark, tone in TONES.items()}
"""Mark -> its colour where there is no style sheet."""
CLAIMS = (Mark.DECLARED, Mark.NOT_JUDGED, Mark.NO_TRACE, Mark.CONTRADICTED)
"""Marks of edges that no weights bear out, which are no part of a tree and drawn in dashes."""
MEANING = sentences("tree")["meaning"]


@dataclass(frozen=True)
class TreeRow:
    """One model, or an unknown ancestor."""

    name: str
    depth: int
    edge: Edge | None
    """To the node above it; None for a root."""
    further: tuple[Edge, ...] = ()
    """To others: the further parents of a merge, and what is declared and not borne out."""


def rows(tree: Tree) -> Iterator[TreeRow]:
    """Yield the nodes of every family, each after the node above it; families of several models come first."""
    placed = set[str]()
    for family in sorted(tree.families, key=lambda nodes: -len(nodes)):
        above = (edge for edge in tree.edges if edge.child == family[0] and edge.mark not in CLAIMS)
        if not (any(above) or family[0] in placed):
            yield from _below(tree, family[0], 0, None, placed)
    for family in tree.families:
        for name in family:
            if name not in placed:
                yield from _below(tree, name, 0, None, placed)


def _below(tree: Tree, name: str, depth: int, edge: Edge | None, placed: set[str]) -> Iterator[TreeRow]:
    if name in placed:
        return
    placed.add(name)
    yield TreeRow(name, depth, edge, tuple(one for one in tree.edges if one.child == name and one is not edge))
    for one in tree.edges:
        if one.parent == name and one.mark not in CLAIMS:
            yield from _below(tree, one.child, depth + 1, one, placed)


def about(edge: Edge) -> str:
    """Return what an edge rests on, in words."""
    parts = [edge.mark.value]
    if edge.mark not in CLAIMS and not edge.directed:
        parts.append("direction not known")
    if edge.relation:
        parts.append(f"declared: {printable(edge.relation, 40)}")
    if edge.way:
        parts.append(f"seen: {edge.way}")
    if edge.length is not None:
        parts.append(f"length {edge.length:.4f}")
    return ", ".join(parts)


def besides(edge: Edge) -> str:
    """Return what a further edge of a model says, in words that follow its name."""
    base = printable(edge.parent, 200)
    return f"declares {base}: {edge.mark.value}" if edge.mark in CLAIMS else f"also from {base}: {about(edge)}"


def describe_test(tree: Tree) -> str:
    """Return what p means, given how many pairs there are."""
    return (
        f"{len(tree.models)} models, {tree.pairs} pairs, path {tree.path}: two are of one family at p <= "
        f"{tree.alpha:g} of their own pair, uncorrected, if more than half is inherited too. By p alone "
        f"{tree.pairs * tree.alpha:.2g} of as many independent pairs would be called related"
    )


WIDTH, LINE, STEP, LEFT, TOP = 340, 42, 16, 14, 22
"""The picture as wide as a phone shows it, a row, a step to the right, and where the first row begins."""
BESIDE, BEND = 7, 10
"""Distance to the left at which a line passes other nodes than its own, and how early it turns to its own."""
DEEPEST = 8
LETTERS = 37
"""Letters that fit a row at its left edge; a step takes two of them."""
FONT = "system-ui, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"


@dataclass(frozen=True)
class Node:
    """One model of a picture."""

    name: str
    depth: int
    """Steps to the right."""
    words: str = ""
    """The text below its name."""
    tone: str = ""
    """Tone in which that is shown."""
    edges: tuple[Edge, ...] = ()
    """From nodes of the picture to this one, the one that it stands below first."""
    strong: bool = False
    """Whether it is the model that everything is about."""


def picture(nodes: Sequence[Node], title: str, described: str) -> Markup:
    """Return some models, each below those that it comes from; `described` says in words what the lines show."""
    places = {node.name: (LEFT + STEP * min(node.depth, DEEPEST), TOP + LINE * at) for at, node in enumerate(nodes)}
    return draw(
        "tree",
        title=title,
        described=described,
        size=(WIDTH, TOP + LINE * len(nodes) - LINE // 3),
        font=FONT,
        lines=[line for node in reversed(nodes) for line in _lines(node, places)],
        nodes=[_node_to_draw(node, *places[node.name]) for node in nodes],
    )


def _lines(node: Node, places: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield a line from every node that this one comes from; the nearest lies upon the others, and shows its tone."""
    end = places[node.name]
    for edge in sorted(node.edges, key=lambda edge: -abs(places[edge.parent][1] - end[1])):
        start = places[edge.parent]
        passed = [place for place in places.values() if min(start[1], end[1]) < place[1] < max(start[1], end[1])]
        free = start[0] < end[0] and all(place[0] != start[0] for place in passed)
        line = (_elbow if free else _bypass)(start, end)
        yield line, TONES[edge.mark], COLOURS[edge.mark], edge.mark in CLAIMS


def _elbow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a path straight down, or up, and to the right."""
    (x, top), (right, y) = start, end
    turn = y - BEND if top < y else y + BEND
    return f"M{x} {top}V{turn}Q{x} {y} {x + BEND} {y}H{right}"


def _bypass(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a path on the left of the nodes in between."""
    (x, top), (right, y) = start, end
    lane, bend = min(x, right) - BESIDE, BEND if top < y else -BEND
    return f"M{x} {top}Q{lane} {top} {lane} {top + bend}V{y - bend}Q{lane} {y} {right} {y}"


def shorten(words: str, room: int) -> str:
    """Return words in so many letters.

    >>> shorten("org/model", 9), shorten("org/models", 9)
    ('org/model', 'org/mode…')
    """
    line = printable(words, 200)
    return line if len(line) <= room else f"{line[: room - 1]}…"


def _node_to_draw(node: Node, x: int, y: int) -> dict[str, object]:
    """Return a node as it is drawn: names are cut to the room that is left."""
    room = LETTERS - 2 * min(node.depth, DEEPEST)
    whole = ": ".join(filter(None, (printable(node.name, 200), printable(node.words, 200))))
    name, words = shorten(node.name, room - 2 * node.strong), node.words and shorten(node.words, room + 7)
    return {"x": x, "y": y, "strong": node.strong, "whole": whole, "name": name, "words": words, "tone": node.tone}


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
        "family.html.j2",
        picture=picture(family.nodes, title, "; ".join(sentences)),
        caption=" ".join(_caption(family)),
        sentences=[f"{sentence}." for sentence in sentences],
    )


def family_of(report: Report) -> Family:
    """Return the models of a report: its bases, relatives, and itself."""
    parts = list(dict.fromkeys(row.part for row in report.rows))
    subjects = {part: f"{report.model}: {part}" if part and parts[1:] else report.model for part in parts[:MOST]}
    rows = [row for row in report.rows if row.part in subjects]
    by_weight = sorted(rows, key=lambda row: FIRST.index(mark_of(row)))
    bases = list(dict.fromkeys(row.claim.base.casefold() for row in by_weight))[:MOST]
    edges = [
        Edge(row.claim.base, subjects[row.part], mark_of(row), relation=row.claim.relation or "", way=_main_figure(row))
        for row in rows
        if row.claim.base.casefold() in bases
    ]
    edges += [
        Edge(one.model, report.model, Mark.MEASURED, directed=False, way=f"nearer than {one.base}")
        for one in report.relatives[: max(MOST - len(bases), 1)]
    ]
    left_out = len({row.claim.base.casefold() for row in report.rows}) - len(bases) + len(parts) - len(subjects)
    return Family(tuple(_nodes(edges, list(subjects.values()))), left_out)


def mark_of(row: ClaimResult) -> Mark:
    """Return what the edge of a claim rests on."""
    mark = MARKS.get(row.verdict.code, Mark.NOT_JUDGED)
    return Mark.NO_TRACE if mark is Mark.CONTRADICTED and row.claim.sources == NAMED else mark


def _main_figure(row: ClaimResult) -> str:
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
    into = {end: tuple(edge for (_, child), edge in lines.items() if child == end) for end in names}
    above = list(dict.fromkeys(end for ends in lines for end in ends if end not in own))
    for depth, end in enumerate(above):
        down = [edge for (parent, _), edge in lines.items() if parent == end]
        named = [] if own[1:] else [lines.get((end, own[0]), down[0])]
        yield _node(names[end], depth, named, into[end])
    for end in own:
        node = _node(names[end], len(above), into[end] if own[1:] else (), into[end])
        yield replace(node, words=node.words or "this model", strong=True)


def _node(name: str, depth: int, edges: Sequence[Edge], into: tuple[Edge, ...]) -> Node:
    """Return a model, below which stands what some edges rest on."""
    words = "; ".join(f"{_short(edge)} ({edge.parent})" if edges[1:] else _short(edge) for edge in edges)
    return Node(name, depth, words, TONES[edges[0].mark] if len(edges) == 1 else "", into)


def _short(edge: Edge) -> str:
    return ", ".join(filter(None, (edge.mark.value, edge.way)))


def _sentence(edge: Edge) -> str:
    relation = f"declared: {printable(edge.relation, 40)}" if edge.relation else ""
    direction = "" if edge.directed or edge.mark in CLAIMS else "direction not known"
    parts = filter(None, (edge.mark.value, printable(edge.way, 300), direction, relation))
    return f"{printable(edge.child, 200)} from {printable(edge.parent, 200)}: {', '.join(parts)}"


def _caption(family: Family) -> Iterator[str]:
    """Yield what the lines mean that are there."""
    dashed = {edge.mark in CLAIMS for edge in family.edges}
    if False in dashed:
        yield "Solid lines: the weights confirm it."
    if True in dashed:
        yield "Dashed lines: declared or named, but the weights do not confirm it."
    yield "Weights do not tell which model came first."
    if family.left_out:
        yield f"{family.left_out} more are not drawn; the list below has all of them."
