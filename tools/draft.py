"""Draft a registry file for a model whose class is not listed, guessed from its header: `python -m tools.draft MODEL`.

A human decides what a header cannot say: those lines carry a `?`. `registry/README.md` tells how to prove the file.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import msgspec
import yaml

from hf_lineage.architecture import guess
from hf_lineage.architecture.guess import LayerGroup, find_groups, names
from hf_lineage.architecture.layers import BIASES, Shape
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.likeness import classes_named, star_numbers, unread
from hf_lineage.architecture.registry import factorizations, setting
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, as_names
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.source.config import open_header
from hf_lineage.source.locate import one
from hf_lineage.source.options import Options

SHOWN = 20
"""How many names of tensors that no branch reads are listed."""
PLACEHOLDER = "WHICH_TENSOR"
"""Written where no guess is possible: such a draft loads, and binds to no checkpoint."""
CLASS = "MyModel"
"""Written where config.json names no valid class."""
DEFAULT = "num_attention_heads"
ORDER = ("classes", "layers", "normalization", "exchangeable", "stored", "heads", "branches", "ignores")
_CLASS = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_HEADS = re.compile(r"(?!.*(kv|key|group|mem))[a-z_]{0,40}heads?")
_HEAD = """\
# A draft: names and shapes agree, nothing else is known. Read the layer's `forward`, decide every line that has a `?`,
# take this comment away, and prove the file where transformers has {name}: pytest tests/test_conformance.py -k {name}
"""
_DECIDE = {
    "normalization": "  # ? layer_norm if the norms subtract the mean, whatever they are called",
    "exchangeable": "  # ? true if nothing tells residual coordinates apart: no fixed table of positions\n"
    "#   (sinusoidal) is added to the stream, no nested (Matryoshka) training; until then a check rests on the\n"
    "#   order of hidden units alone, and is UNDECIDED where that cannot be compared",
    "heads": "  # ? the key of config.json that counts the query heads",
    "ignores": "  # ? what other files ignore under these names",
}
"""Key -> comment behind it about what has to be decided."""
_MISSING = {
    "normalization": "# gain: one_plus  # ? if the norms multiply with 1 + weight\n",
}
"""Key -> comment after it about a further key that may be needed."""
_NOTES = {
    "norm": "# ? `norm` is the one a branch reads, `output_norm` one on what it writes, before that is added;\n"
    "#   a norm whose result is the stream itself (post-norm) is not named\n",
    "gate": "# ? `gate` goes through the activation and is multiplied with `up`\n",
    "None": "# ? null: a layer may have none\n",
    "packed": "# ? `packed`: one role after the other; `interleaved`: by turns, by head or, in an MLP, row by row\n",
}
"""Word in the branches -> comment before them about what has to be decided."""


@dataclass(frozen=True)
class Draft:
    """A registry file whose open lines a person still has to decide."""

    text: str
    problem: str | None
    """Why it does not fit the model that it was made for; None if it fits."""


def draft(
    classes: Sequence[str],
    group: LayerGroup,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    registry: Sequence[Factorization],
) -> Draft:
    """Return a registry file for a model with these layers; it loads, and `problem` says why it does not bind."""
    named = [name for name in classes if _CLASS.fullmatch(name)][:SHOWN] or [CLASS]
    content = {"classes": named, "layers": group.prefix} | _guessed(group, config, registry)
    problem = None
    for turned in _orientations(content, group):
        try:
            unread_names = unread(bind(loaded(turned), shapes, config), shapes)
        except CheckpointError as error:
            problem = problem or str(error)
            continue
        ignores = _ignored(unread_names, group.prefix, registry)
        ignored_names = {name for here in ignores.values() for name in here}
        complete = turned | ({"ignores": list(ignores)} if ignores else {})
        return Draft(_text(complete, [name for name in unread_names if name not in ignored_names]), None)
    return Draft(_text(content, ()), problem)


def _orientations(content: dict[str, Any], group: LayerGroup) -> Iterator[dict[str, Any]]:
    """The file as it is, then with stacked experts stored transposed, then with every matrix stored transposed."""
    yield content
    stacks = {name for name, shape in group.tensors.items() if len(shape) == 3}
    branches = {}
    for kind, sets in content["branches"].items():
        several = sets if isinstance(sets, list) else [sets]
        turned = [
            yaml_set and yaml_set | _transposed([name for name in names(yaml_set) if name in stacks])
            for yaml_set in several
        ]
        branches[kind] = turned if isinstance(sets, list) else turned[0]
    yield content | {"branches": branches}
    yield content | {"stored": "in_out"}


def _transposed(tensors: list[str]) -> dict[str, list[str]]:
    return {"transposed": tensors} if tensors else {}


def loaded(content: Mapping[str, Any]) -> Factorization:
    """Return the factorization that a draft describes."""
    return msgspec.convert({"name": "draft", **content}, Factorization)


def _ignored(left: Iterable[str], prefix: str, registry: Iterable[Factorization]) -> dict[str, list[str]]:
    """Name that registry files ignore -> the names of this model that it matches."""
    layer = f"{star_numbers(prefix, '{layer}')}."
    inside = {name.removeprefix(layer): name for name in left if name.startswith(layer)}
    matches = {}
    for ignored in sorted({name for factorization in registry for name in factorization.ignores}):
        pattern = re.compile(re.escape(star_numbers(ignored, "{expert}")).replace(r"\*", ".*"))
        matches[ignored] = [name for relative, name in inside.items() if pattern.fullmatch(relative)]
    return {ignored: here for ignored, here in matches.items() if here}


def _guessed(group: LayerGroup, config: Mapping[str, Any], registry: Sequence[Factorization]) -> dict[str, Any]:
    norms, matrix_sets = guess.norms(group, registry), guess.branches(group, registry)
    branches = {}
    for kind, roles in BRANCH_ROLES.items():
        sets = matrix_sets.get(kind) or [{role: f"{PLACEHOLDER}_{role}" for role in roles if role != "gate"}]
        normed = [yaml_set and norms.get(kind, {}) | yaml_set for yaml_set in sets]
        branches[kind] = normed if len(normed) > 1 else normed[0]
    heads = _heads(group.width, config, registry)
    return {
        "normalization": _normalization(group, config),
        "exchangeable": False,
        **({} if heads in (None, DEFAULT) else {"heads": heads}),
        "branches": branches,
    }


def _normalization(group: LayerGroup, config: Mapping[str, Any]) -> str:
    """Norms with a bias are layer_norm; without one the settings may name the kind."""
    biases = {f"{name.removesuffix('.gamma')}.{bias}" for name in group.gains for bias in BIASES}
    if biases & group.tensors.keys():
        return "layer_norm"
    keys = " ".join(map(str, config))
    return "layer_norm" if re.search("layer_?norm", keys) and "rms" not in keys else "rms_norm"


def _heads(width: int, config: Mapping[str, Any], registry: Iterable[Factorization]) -> str | None:
    """The key that counts the query heads: one that registry files use, or one with a similar name.

    Of several settings inside others those that speak of the same width come first.
    """
    counts = Counter(
        key
        for factorization in registry
        if not isinstance(factorization.heads, dict)
        for key in as_names(factorization.heads)
    )
    inner = [key for key, value in config.items() if isinstance(value, dict) and _CLASS.fullmatch(key)]
    inner.sort(key=lambda key: width not in config[key].values())
    spellings = [*(key for key, _ in counts.most_common()), *filter(_HEADS.fullmatch, config)]
    spellings += [f"{key}.{spelling}" for key in inner for spelling in spellings if "." not in spelling]
    spellings += [f"{key}.{spelling}" for key in inner for spelling in config[key] if _HEADS.fullmatch(spelling)]
    return next((key for key in spellings if type(count := setting(config, key)) is int and count > 0), None)


def _text(content: Mapping[str, Any], left: Sequence[str]) -> str:
    """The text of the file, with comments on what has to be decided."""
    return f"{_HEAD.format(name=content['classes'][0])}{''.join(_lines(content))}{''.join(_left(left))}"


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    for key, value in sorted(content.items(), key=lambda item: ORDER.index(item[0])):
        if key == "branches":
            yield "".join(note for mark, note in _NOTES.items() if mark in str(value))
        line = yaml.safe_dump(value, default_flow_style=None, sort_keys=False, width=90).removesuffix("...\n").rstrip()
        yield f"{key}:\n{indent(line, '  ')}\n" if isinstance(value, dict) else f"{key}: {line}{_DECIDE.get(key, '')}\n"
        yield _MISSING.get(key, "")


def _left(left: Sequence[str]) -> Iterator[str]:
    if left:
        yield "# ? Nothing reads these. A matrix belongs to a branch or under `ignores`, a gain to a branch or none:\n"
    for name in left[:SHOWN]:
        yield f"#     {printable(name, 200)}\n"
    if len(left) > SHOWN:
        yield f"#     and {len(left) - SHOWN} more\n"


def main(model: str) -> str:
    """Return the draft for a model, and before it as a comment why it does not fit yet, if so."""
    shapes, config = open_header(one(model, Options()))
    groups = find_groups(shapes)
    if not groups:
        return "# No draft: no tensors are numbered like layers, from 0 and without a gap.\n"
    found = draft(classes_named(config), groups[0], shapes, config, factorizations())
    return (f"# It does not fit yet: {printable(found.problem, 500)}\n" if found.problem else "") + found.text


if __name__ == "__main__":
    print(main(sys.argv[1]), end="")
