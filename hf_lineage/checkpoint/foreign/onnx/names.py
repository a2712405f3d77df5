"""The tensors of an ONNX graph by their names on the Hub's disk, where the exporter kept its names or its roles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hf_lineage.architecture import Shape, named_tensors
from hf_lineage.architecture.registry import Factorization, as_sets, as_stacks, prefixes, setting
from hf_lineage.checkpoint.foreign.pieces import Piece, name_in_out, split_rows
from hf_lineage.errors import NothingToCompare, printable

KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
JOINED = "qkv_proj"
"""What ONNX Runtime's exporter calls queries, keys and values in one matrix."""
SHORTENED = {"attn.": "self_attn."}
"""What it shortens."""
MOST_WRAPPERS = 8


def name_tensors(
    factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]
) -> Iterator[Piece]:
    """Yield the tensors of a graph by their names on the Hub's disk; each matrix is (out, in) there.

    What an exporter put before all names is taken off where the layers have no name of the factorization otherwise.
    """
    layers = re.compile("|".join(rf"(?:{_numbered(pattern)})" for pattern in prefixes(factorization)))
    wrapping = _wrapping(shapes, layers)
    known = {name for name in named_tensors(factorization) if "{" not in name}
    turned = name_in_out(factorization)
    for stored in shapes:
        name = stored.removeprefix(wrapping)
        match = layers.match(name)
        before, rest = (name[: match.end()], name[match.end() :]) if match else ("", name)
        bare, dot, kind = rest.rpartition(".")
        bare = next((bare.replace(a, b) for a, b in SHORTENED.items() if bare.replace(a, b) in known), bare)
        roles = _roles(factorization) if match and bare.endswith(JOINED) and bare not in known else ()
        if roles:
            heads = _heads(factorization, config)
            for role, rows in zip(roles, split_rows(shapes[stored][0], *heads), strict=True):
                yield Piece(f"{before}{role}.{kind}", stored, rows)
        else:
            yield Piece(f"{before}{bare}{dot}{kind}", stored, turned=bare in turned and len(shapes[stored]) == 2)


def _roles(factorization: Factorization) -> tuple[str, ...]:
    """The names of the matrices of queries, keys and values; none where they are not three matrices."""
    (*_, attention) = (None, *as_sets(factorization.branches.attention))
    named = (attention.query, attention.key, attention.value) if attention else ()
    return tuple(name for name in named if name) if all(named) else ()


def _numbered(pattern: str) -> str:
    return re.sub(r"\\\{(layer|stage)\\\}", r"\\d{1,6}", re.escape(pattern)) + r"\."


def _wrapping(names: Collection[str], layers: re.Pattern[str]) -> str:
    """What stands before all names, as much of it as lets layers be recognised; nothing if that does not help."""
    prefix = ""
    for _ in range(MOST_WRAPPERS):
        if any(layers.match(name, len(prefix)) for name in names):
            return prefix
        prefix += next(iter(names), "")[len(prefix) :].partition(".")[0] + "."
        if not all(name.startswith(prefix) for name in names):
            break
    return ""


def _heads(factorization: Factorization, config: Mapping[str, Any]) -> tuple[int, int]:
    """How many heads of queries, and of keys and values, the configuration says; NothingToCompare where it does not."""
    keys = next(iter(as_stacks(factorization.heads).values()))
    heads = next((count for key in keys if (count := setting(config, key)) is not None), None)
    groups = next((count for key in KEY_VALUE_HEADS if (count := setting(config, key)) is not None), heads)
    if type(heads) is not int or type(groups) is not int:
        shown = printable(f"{heads} and {groups}", 50)
        raise NothingToCompare(f"config.json counts the heads of attention as {shown}, so they cannot be separated")
    return heads, groups
