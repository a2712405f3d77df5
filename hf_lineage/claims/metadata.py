"""The YAML of a model card: `base_model` is set by replacing or adding lines; comments, order and style stay."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from hf_lineage.errors import CardError, printable
from hf_lineage.files import plain_yaml

BASE, RELATION = "base_model", "base_model_relation"
_WHERE = "README.md: the YAML at its top"


def with_base(text: str, base: str, relation: str | None, newline: str) -> str:
    """Return YAML that names `base` as the base model, and its relation unless that is None.

    Raise CardError if no line can be replaced or added without changing another value.
    """
    wanted = {BASE: base} | ({RELATION: relation} if relation else {})
    before = _loaded(text)
    declared = before.get(BASE)
    if base in (declared if isinstance(declared, list) else [declared]):
        wanted.pop(BASE)
    new = _spliced(text, wanted, newline)
    try:
        safe = _loaded(new) == before | {key: _like(before.get(key), value) for key, value in wanted.items()}
    except CardError:
        safe = False
    if not safe:
        raise CardError(f"{_WHERE} has no place where {BASE} can be set safely; set it by hand")
    return new


def _like(before: object, value: str) -> object:
    """Return the value as it is set: a list of one base stays a list."""
    return [value] if isinstance(before, list) and before else value


def _loaded(text: str) -> dict[str, object]:
    """Return keys and values; aliases are refused, because a few of them can make a value too large to compare."""
    try:
        content = plain_yaml.load(text)
        if any(map(_shares, plain_yaml.events(text))):
            raise CardError(f"{_WHERE} has anchors, aliases or tags and cannot be edited; set {BASE} by hand")
    except yaml.YAMLError as error:
        problem = printable(plain_yaml.problem(error), 200)
        raise CardError(f"{_WHERE} cannot be read: {problem}; correct it") from None
    if not isinstance(content or {}, dict):
        raise CardError(f"{_WHERE} holds a {type(content).__name__} where keys and values belong; correct it")
    return content or {}


def _shares(event: yaml.Event) -> bool:
    """Return whether a value has an anchor, an alias or a tag."""
    return bool(getattr(event, "anchor", None) or getattr(event, "tag", None))


def _spliced(text: str, wanted: Mapping[str, str], newline: str) -> str:
    """Return the text with existing keys set, from the last to the first, and the missing keys added."""
    root = yaml.compose(text, Loader=yaml.BaseLoader)
    if root is not None and not (isinstance(root, yaml.MappingNode) and not root.flow_style):
        raise CardError(f"{_WHERE} does not have one line for each key and cannot be edited; set {BASE} by hand")
    pairs = [(key.value, value) for key, value in root.value if isinstance(key, yaml.ScalarNode)] if root else []
    names = [name for name, _ in pairs]
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise CardError(f"{_WHERE} has the key {twice[0]} twice; remove one")
    places = {name: _place(value, name) for name, value in pairs if name in wanted}
    for name, (start, stop) in sorted(places.items(), key=lambda item: item[1], reverse=True):
        space = " " if text[:start].endswith((":", "-")) else ""
        text = f"{text[:start]}{space}{_scalar(wanted[name])}{text[stop:]}"
    indent = " " * (root.value[0][0].start_mark.column if root else 0)
    return text + "".join(f"{indent}{key}: {_scalar(wanted[key])}{newline}" for key in wanted if key not in places)


def _place(node: yaml.Node, name: str) -> tuple[int, int]:
    """Return the range of characters of the one value of a key, also where it is a list of one value."""
    if isinstance(node, yaml.SequenceNode) and len(node.value) > 1:
        raise CardError(
            f"{_WHERE} has {len(node.value)} entries under {name}, any of which may be right; edit it by hand"
        )
    if isinstance(node, yaml.SequenceNode) and node.value:
        node = node.value[0]
    plain = isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">")
    empty = isinstance(node, yaml.SequenceNode) and not node.value
    if not (plain or empty) or node.start_mark.line != node.end_mark.line:
        raise CardError(f"{_WHERE} has a {name} that is not a value on one line; edit it by hand")
    return node.start_mark.index, node.end_mark.index


def _scalar(value: str) -> str:
    """Return a value as YAML writes it: quoted if it would otherwise not be text, such as `1e3` or `no`."""
    return value if yaml.safe_load(value) == value else f'"{value}"'
