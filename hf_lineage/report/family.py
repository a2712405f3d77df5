"""Families: every model once, below the one it comes from; and the small tree at the head of a page."""

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

CLAIMS = (Mark.DECLARED, Mark.NOT_JUDGED, Mark.NO_TRACE, Mark.CONTRADICTED)  # drawn in dashes
TONES = {  # mark -> the tone in which it is shown
    Mark.VERIFIED: "good",
    **dict.fromkeys((Mark.IN_PART, Mark.WEAKER), "part"),
    **dict.fromkeys((Mark.MEASURED, Mark.DECLARED, Mark.NOT_JUDGED), "open"),
    **dict.fromkeys((Mark.NO_TRACE, Mark.CONTRADICTED), "bad"),
}
_COLOUR = {"good": "#12642c", "part": "#6b4a00", "open": "#404a57", "bad": "#a3122a"}
COLOURS = {mark: _COLOUR[tone] for mark, tone in TONES.items()}  # mark -> its colour where there is no style sheet
MEANING = sentences("tree")["meaning"]


# A model or an unknown ancestor: name, depth, the edge to the node above it (None for a root), and edges to others: the
TreeRow = tuple[str, int, Edge | None, list[Edge]]  # further parents of a merge, and what is declared and not borne out


def rows(tree: Tree) -> Iterator[TreeRow]:
    """Yield the nodes of every family, each after the node above it; families of several models come first."""
    below = {edge.child for edge in tree.edges if edge.mark not in CLAIMS}
    roots = [family[0] for family in sorted(tree.families, key=lambda nodes: -len(nodes)) if family[0] not in below]
    placed = set[str]()
    for name in (*roots, *(name for family in tree.families for name in family)):
        yield from _below(tree, name, 0, None, placed)


def _below(tree: Tree, name: str, depth: int, edge: Edge | None, placed: set[str]) -> Iterator[TreeRow]:
    if name in placed:
        return
    placed.add(name)
    yield name, depth, edge, [one for one in tree.edges if one.child == name and one is not edge]
    for one in tree.edges:
        if one.parent == name and one.mark not in CLAIMS:
            yield from _below(tree, one.child, depth + 1, one, placed)


def about(edge: Edge) -> str:
    """Return what an edge rests on, in words."""
    parts = (
        edge.mark.value,
        "" if edge.directed or edge.mark in CLAIMS else "direction not known",
        f"declared: {printable(edge.relation, 40)}" if edge.relation else "",
        f"seen: {edge.way}" if edge.way else "",
        "" if edge.length is None else f"length {edge.length:.4f}",
    )
    return ", ".join(filter(None, parts))


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


WIDTH, LINE, STEP, LEFT, TOP = 340, 42, 16, 14, 22  # of the picture, a row, a step, and the first row
BESIDE, BEND, DEEPEST = 7, 10, 8  # of a line that passes nodes, of its turn, and most steps
LETTERS = 37  # letters that fit a row at its left edge; a step takes two of them


@dataclass(frozen=True)
class Node:
    """One model of a picture."""

    name: str
    depth: int  # steps to the right
    words: str = ""  # the text below its name
    tone: str = ""  # tone in which that is shown
    edges: tuple[Edge, ...] = ()  # from nodes of the picture to this one, the one that it stands below first
    strong: bool = False  # whether it is the model that everything is about


def picture(nodes: Sequence[Node], title: str, described: str) -> Markup:
    """Return some models, each below those that it comes from; `described` says in words what the lines show."""
    places = {node.name: (LEFT + STEP * min(node.depth, DEEPEST), TOP + LINE * at) for at, node in enumerate(nodes)}
    drawn = []
    for node in nodes:
        (x, y), room = places[node.name], LETTERS - 2 * min(node.depth, DEEPEST)
        whole = ": ".join(filter(None, (printable(node.name, 200), printable(node.words, 200))))
        name, words = shorten(node.name, room - 2 * node.strong), node.words and shorten(node.words, room + 7)
        drawn.append({"x": x, "y": y, "strong": node.strong, "whole": whole} | {"name": name, "words": words})
        drawn[-1]["tone"] = node.tone
    return draw(
        "tree",
        title=title,
        described=described,
        size=(WIDTH, TOP + LINE * len(nodes) - LINE // 3),
        font="system-ui, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif",
        lines=[line for node in reversed(nodes) for line in _lines(node, places)],
        nodes=drawn,
    )


def _lines(node: Node, places: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield a line from every node that this one comes from; the nearest lies upon the others, and shows its tone."""
    right, y = places[node.name]
    for edge in sorted(node.edges, key=lambda edge: -abs(places[edge.parent][1] - y)):
        x, top = places[edge.parent]
        bend = BEND if top < y else -BEND
        passed = [at for at, row in places.values() if min(top, y) < row < max(top, y)]
        if x < right and x not in passed:  # straight down, or up, and to the right
            line = f"M{x} {top}V{y - bend}Q{x} {y} {x + BEND} {y}H{right}"
        else:  # on the left of the nodes in between
            lane = min(x, right) - BESIDE
            line = f"M{x} {top}Q{lane} {top} {lane} {top + bend}V{y - bend}Q{lane} {y} {right} {y}"
        yield line, TONES[edge.mark], COLOURS[edge.mark], edge.mark in CLAIMS


def shorten(words: str, room: int) -> str:
    """Return words in so many letters.

    >>> shorten("org/model", 9), shorten("org/models", 9)
    ('org/model', 'org/mode…')
    """
    line = printable(words, 200)
    return line if len(line) <= room else f"{line[: room - 1]}…"


MOST = 8  # bases, and parts of the model, that are drawn; a picture with more is no summary
MARKS = {  # code of a verdict -> the evidence of an edge; any other code judged nothing
    **{code: Mark.VERIFIED for code in Code if code.word is Word.VERIFIED},
    **{code: Mark.WEAKER for code in Code if code.word is Word.RELATED},
    Code.PART: Mark.IN_PART,
    Code.UNRELATED: Mark.CONTRADICTED,
}
# Order in which bases are drawn if there are too many: other names never push out what the weights contradict.
FIRST = (Mark.CONTRADICTED, Mark.NO_TRACE, Mark.VERIFIED, Mark.IN_PART, Mark.WEAKER, Mark.NOT_JUDGED)


def figure(report: Report) -> Markup:
    """Return the picture of a report with the same in words; nothing of two models: the verdict says it all."""
    nodes, left_out = draw_family(report)
    if len(nodes) < 3 or any(row.model for row in report.rows):
        return Markup()
    sentences, edges = [], [edge for node in nodes for edge in node.edges]
    for edge in edges:
        relation = f"declared: {printable(edge.relation, 40)}" if edge.relation else ""
        direction = "" if edge.directed or edge.mark in CLAIMS else "direction not known"
        parts = ", ".join(filter(None, (edge.mark.value, printable(edge.way, 300), direction, relation)))
        sentences.append(f"{printable(edge.child, 200)} from {printable(edge.parent, 200)}: {parts}")
    dashed = {edge.mark in CLAIMS for edge in edges}
    caption = ["Solid lines: the weights confirm it."] if False in dashed else []
    caption += ["Dashed lines: declared or named, but the weights do not confirm it."] if True in dashed else []
    caption.append("Weights do not tell which model came first.")
    if left_out:
        caption.append(f"{left_out} more are not drawn; the list below has all of them.")
    return fill(
        "family.html.j2",
        picture=picture(nodes, f"Family tree of {printable(report.model, 200)}", "; ".join(sentences)),
        caption=" ".join(caption),
        sentences=[f"{sentence}." for sentence in sentences],
    )


def draw_family(report: Report) -> tuple[list[Node], int]:
    """Return the models of a report, those that others come from first, and how many bases and parts are left out."""
    parts = list(dict.fromkeys(row.part for row in report.rows))
    subjects = {part: f"{report.model}: {part}" if part and parts[1:] else report.model for part in parts[:MOST]}
    rows = [row for row in report.rows if row.part in subjects]
    by_weight = sorted(rows, key=lambda row: FIRST.index(_edge(row, "").mark))
    bases = list(dict.fromkeys(row.claim.base.casefold() for row in by_weight))[:MOST]
    edges = [_edge(row, subjects[row.part]) for row in rows if row.claim.base.casefold() in bases]
    edges += [
        Edge(one.model, report.model, Mark.MEASURED, directed=False, way=f"nearer than {one.base}")
        for one in report.relatives[: max(MOST - len(bases), 1)]
    ]
    left_out = len({row.claim.base.casefold() for row in report.rows}) - len(bases) + len(parts) - len(subjects)
    return list(_nodes(edges, list(subjects.values()))), left_out


def _edge(row: ClaimResult, child: str) -> Edge:
    """Return the edge of a claim, with the figure that says most: what a parent gave, else what is inherited."""
    mark, way = MARKS.get(row.verdict.code, Mark.NOT_JUDGED), ""
    share = row.parent.shares.get(row.verdict.decisive or "") if row.parent else None
    if share is not None and share.clear:
        way = f"{share.value:.0%} of the merge"
    elif row.verdict.code in (Code.INHERITED, Code.PART) and (inherited := wording.inherited_share(row)) is not None:
        way = f"{inherited:.0%} inherited"
    mark = Mark.NO_TRACE if mark is Mark.CONTRADICTED and row.claim.sources == NAMED else mark
    return Edge(row.claim.base, child, mark, relation=row.claim.relation or "", way=way)


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
    for place, end in enumerate([*above, *own]):
        into = tuple(edge for (_, child), edge in lines.items() if child == end)
        down = [edge for (parent, _), edge in lines.items() if parent == end]
        below: Sequence[Edge] = into if own[1:] and end in own else ()
        if end not in own and not own[1:]:
            below = [lines.get((end, own[0]), down[0])]
        texts = [", ".join(filter(None, (edge.mark.value, edge.way))) for edge in below]
        if below[1:]:
            texts = [f"{text} ({edge.parent})" for text, edge in zip(texts, below, strict=True)]
        words = "; ".join(texts) or ("this model" if end in own else "")
        tone = TONES[below[0].mark] if len(below) == 1 else ""
        yield Node(names[end], min(place, len(above)), words, tone, into, end in own)
