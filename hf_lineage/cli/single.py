"""Reports that judge no claim: the inspection of one model, the registry, and a tree of models."""

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from markupsafe import Markup

from hf_lineage.architecture.registry import factorizations, listing, similar
from hf_lineage.architecture.schema import Factorization
from hf_lineage.checking.inspect import Inspection
from hf_lineage.errors import RegistryError, printable
from hf_lineage.index.tree import Tree
from hf_lineage.options import moment, now
from hf_lineage.report import family
from hf_lineage.report.family import CLAIMS, COLOURS, TONES, Node, about, besides, describe_test
from hf_lineage.report.json import indent_json
from hf_lineage.report.page import fill, identifier, word
from hf_lineage.report.text import WIDTH, bar, table, wrap


def inspection_text(inspection: Inspection) -> str:
    """Return what one model shows by itself: a table of paths, then each layer's trace concentration."""
    share = inspection.bytes_read / max(inspection.bytes_stored, 1)
    head = (
        f"{printable(inspection.model, 200)}: {printable(inspection.architecture, 100)}, "
        f"factorization {inspection.factorization}, {inspection.layers} layers, width {inspection.width}, "
        f"{inspection.heads} heads; branches take {share:.0%} of {inspection.bytes_stored / 1e6:.1f} MB"
    )
    rows, below = list[tuple[str, ...]](), list[str]()
    for path, result in inspection.pairings.items():
        if isinstance(result, str):
            rows.append((path, "-", "-", "-"))
            below.append(wrap(f"{path}: {printable(result)}"))
            continue
        rows.append((path, f"{result.accuracy:.0%}", f"{result.auc:.2f}", f"{(result.signs < 0).mean():.0%}"))
        top = float(result.concentration.max())
        layers = [
            (str(layer), f"{value:.2f}", {1.0: "+", -1.0: "-"}.get(float(sign), " "), bar(float(value), top))
            for layer, value, sign in zip(result.layers, result.concentration, result.signs, strict=True)
        ]
        below.append(f"{path}: trace concentration of the plain product, s = |tr M| / ‖M‖")
        below.append(table(("Layer", "Plain s", "Sign", ""), layers, numeric=(0, 1)))
    columns = ("Path", "Pairing accuracy", "AUC", "Negative traces")
    blocks = [wrap(head), table(columns, rows, numeric=(1, 2, 3)), *below]
    if inspection.unclaimed:
        blocks.append(wrap(f"Tensors of unknown purpose, not read: {printable(', '.join(inspection.unclaimed))}"))
    return "\n".join(blocks) + "\n"


def inspection_json(inspection: Inspection) -> str:
    """Return the same as JSON, with the whole matrix of scores."""
    pairings: dict[str, Any] = {}
    for path, result in inspection.pairings.items():
        if isinstance(result, str):
            pairings[path] = {"reason": result}
            continue
        values = {"accuracy": result.accuracy, "auc": result.auc, "layers": result.layers}
        values |= {"concentration": result.concentration.tolist(), "trace_signs": result.signs.tolist()}
        pairings[path] = values | {"scores": result.scores.tolist()}
    return indent_json(vars(inspection) | {"pairings": pairings})


def registry_text(architecture: str | None) -> str:
    """Return the classes of every factorization, or how one class is read; RegistryError if it is not there."""
    if architecture is None:
        lines = [wrap(f"{chosen.name}: {', '.join(chosen.classes)}") for chosen in factorizations()]
        return "\n".join(lines) + "\n"
    return "\n".join(f"{chosen.name}\n{msgspec.yaml.encode(_prune(chosen)).decode()}" for chosen in _find(architecture))


def registry_json(architecture: str | None) -> str:
    """Return the factorizations as JSON, all of them or those of one class."""
    matches = factorizations() if architecture is None else _find(architecture)
    return indent_json([_prune(factorization) for factorization in matches])


INSPECTIONS: dict[str, Callable[[Inspection], str]] = {"text": inspection_text, "json": inspection_json}
REGISTRIES: dict[str, Callable[[str | None], str]] = {"text": registry_text, "json": registry_json}


def _find(architecture: str) -> list[Factorization]:
    if matches := list(listing(architecture)):
        return matches
    meant = similar(architecture)
    instead = f"did you mean {meant}?" if meant else "registry/README.md explains how to add a class"
    raise RegistryError(f"{printable(architecture, 200)} is not in the registry; {instead}")


def _prune(value: Any) -> Any:
    """Return a factorization, or a value in it, as plain values, without what is left at its default."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {key: _prune(item) for key, item in plain.items() if item not in (None, [], {}, ())}
    return [_prune(item) for item in plain] if isinstance(plain, list | tuple) else plain


def dot(tree: Tree) -> str:
    """Return the tree for Graphviz."""
    lines = [f"  {_quote(name)};" for name in _nodes(tree)]
    for edge in tree.edges:
        values = {"label": edge.mark.value, "color": COLOURS[edge.mark]}
        values |= {} if edge.directed else {"dir": "none"}
        values |= {"style": "dashed", "constraint": "false"} if edge.mark in CLAIMS else {}
        attributes = ", ".join(f"{key}={_quote(value)}" for key, value in values.items())
        lines.append(f"  {_quote(edge.parent)} -> {_quote(edge.child)} [{attributes}];")
    return "\n".join(["digraph lineage {", "  rankdir=LR;", "  node [shape=box];", *lines, "}"]) + "\n"


def _quote(name: str) -> str:
    safe = printable(name, 200).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"'


def mermaid(tree: Tree) -> str:
    """Return the tree for Mermaid, as a card on the Hub or a page of GitHub shows it."""
    numbers = {name: f"n{number}" for number, name in enumerate(_nodes(tree))}
    # Entities leave nothing in a name that Mermaid, Markdown or HTML reads as its own.
    safe = [re.sub(r"[^A-Za-z0-9 /_.-]", lambda it: f"#{ord(it[0])};", printable(name, 200)) for name in numbers]
    lines = [f'  {number}["{name}"]' for name, number in zip(safe, numbers.values(), strict=True)]
    for edge in tree.edges:
        arrow = "-.->" if edge.mark in CLAIMS else "-->" if edge.directed else "---"
        lines.append(f'  {numbers[edge.parent]} {arrow}|"{edge.mark.value}"| {numbers[edge.child]}')
    return "\n".join(["flowchart LR", *lines]) + "\n"


def _nodes(tree: Tree) -> list[str]:
    names = [name for family in tree.families for name in family]
    return list(dict.fromkeys([*names, *(edge.parent for edge in tree.edges)]))


def svg(tree: Tree) -> str:
    """Return the picture as a file of its own."""
    return f"{_draw(tree)}\n"


def _draw(tree: Tree) -> Markup:
    names, nodes = {name for family in tree.families for name in family}, []
    for name, depth, upward, further in family.rows(tree):
        edges = [upward] if upward else []
        above = [edge for edge in further if edge.mark not in CLAIMS and edge.parent in names]
        claims = [edge for edge in further if edge.mark in CLAIMS]
        several = f", from {1 + len(above)} models" if above else ""
        words = [f"{edge.mark.value}{several}" for edge in edges]
        words += [f"declares {edge.parent}: {edge.mark.value}" for edge in claims[:1]]
        tones = [TONES[edge.mark] for edge in (*edges, *above, *claims)]
        tone = tones[0] if len({*tones}) == 1 else ""
        nodes.append(Node(name, depth, "; ".join(words), tone, (*edges, *above)))
    lines = [f"{printable(one.child, 100)} from {printable(one.parent, 100)}: {one.mark.value}" for one in tree.edges]
    described = "; ".join(lines) or "no two of them are related"
    return family.picture(nodes, f"Family tree of {len(tree.models)} models", described)


def html(tree: Tree) -> str:
    """Return the picture on a page of its own, with a table of its edges."""
    rows = []
    for edge in tree.edges:
        direction = "" if edge.directed or edge.mark in CLAIMS else ", direction not known"
        length = "-" if edge.length is None else f"{edge.length:.4f}"
        mark = word(f"{edge.mark.value}{direction}", TONES[edge.mark])
        ends = identifier(edge.child), identifier(edge.parent)
        rows.append((*ends, mark, edge.relation or "-", edge.way or "-", length))
    return fill(
        "tree.html.j2",
        number=len(tree.models),
        moment=moment(now()),
        picture=_draw(tree),
        meaning_of_marks=family.MEANING,
        columns=("Model", "Comes from", "Shown by", "Declared", "Seen in the weights", "Length"),
        rows=rows,
        tested=f"{describe_test(tree).replace('<=', '≤')}.",
    )


def text(tree: Tree) -> str:
    """Return the tree as indented names, no line over 80 columns; deep models stand ten steps to the right."""
    lines = []
    for name, depth, edge, further in family.rows(tree):
        start = "  " * min(depth, 10)
        sentences = [*([about(edge)] if edge else []), *map(besides, further)]
        for indent, words in ((start, printable(name, 200)), *((f"{start}    ", words) for words in sentences)):
            indents: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": f"{indent}  "}
            lines += textwrap.wrap(words, WIDTH, **indents, break_on_hyphens=False)
    return "\n".join([*lines, "", wrap(describe_test(tree)), wrap(family.MEANING)]) + "\n"


def json(tree: Tree) -> str:
    """Return the same as JSON."""
    edges = []
    for edge in tree.edges:
        ends = {"parent": printable(edge.parent, 200), "child": printable(edge.child, 200)}
        drawn = {"mark": edge.mark.name.lower(), "directed": edge.directed, "length": edge.length}
        relations = {"relation": printable(edge.relation, 40) or None, "relation_seen": edge.way or None}
        edges.append(ends | drawn | relations)
    families = [[printable(name, 200) for name in family] for family in tree.families]
    models = [printable(name, 200) for name in tree.models]
    document = {"schema_version": 1, "path": tree.path, "models": models, "families": families, "edges": edges}
    return indent_json(document | {"pairs": tree.pairs, "alpha": tree.alpha})


FORMATS: Mapping[str, Callable[[Tree], str]] = {form.__name__: form for form in (text, json, dot, mermaid, svg, html)}
