"""Draft: a registry file to start from, guessed from a header; nothing ever judges a model by it.

A human decides what a header cannot say: those lines carry a `?`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import msgspec
import yaml

from hf_lineage import guess
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.layers import Shape
from hf_lineage.layout import Layout, bind
from hf_lineage.patterns import names
from hf_lineage.registry import setting
from hf_lineage.schema import ATTENTION_ROLES, Factorization, as_names, prefixes
from hf_lineage.stack import BIASES, Stack

SHOWN = 20
"""How many names are listed that nothing reads."""
PLACEHOLDER = "WHICH_TENSOR"
"""Stands where no guess is possible: such a draft loads, and binds to nothing."""
CLASS = "MyModel"
"""Stands where config.json names no class that could be one."""
DEFAULT = "num_attention_heads"
ORDER = ("classes", "layers", "normalization", "exchangeable", "stored", "heads", "branches", "ignores")
_CLASS = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_HEADS = re.compile(r"(?!.*(kv|key|group|mem))[a-z_]{0,40}heads?")
_HEAD = """\
# A draft: names and shapes agree, nothing else is known. Read the layer's `forward`, decide every line that has a `?`,
# take this comment away, and prove the file: pytest tests/test_conformance.py -k {name}
"""
_DECIDE = {
    "normalization": "  # ? layer_norm if the norms subtract the mean, whatever they are called",
    "exchangeable": "  # ? true if nothing tells residual coordinates apart: no fixed table of positions\n"
    "#   (sinusoidal) is added to the stream, no nested (Matryoshka) training; until then a check is INCONCLUSIVE",
    "heads": "  # ? the key of config.json that counts the query heads",
    "ignores": "  # ? what other files ignore under these names",
}
"""Behind a key: what has to be decided about it."""
_MISSING = {
    "normalization": "# gain: one_plus  # ? if the norms multiply with 1 + weight\n",
}
"""After a key: what may have to be said as well."""
_NOTES = {
    "norm": "# ? `norm` is the one a branch reads, `output_norm` one on what it writes, before that is added;\n"
    "#   a norm whose result is the stream itself (post-norm) is not named\n",
    "gate": "# ? `gate` goes through the activation and is multiplied with `up`\n",
    "None": "# ? null: a layer may have none\n",
    "packed": "# ? `packed`: one role after the other; `interleaved`: by turns, by head or, in an MLP, row by row\n",
}
"""Before the branches: what has to be decided where they say this."""


@dataclass(frozen=True)
class Draft:
    """A registry file that nobody has decided on yet."""

    text: str
    problem: str | None
    """Why it does not bind to the model it was made for; None: it does."""


def draft(
    classes: Sequence[str],
    stack: Stack,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    known: Sequence[Factorization],
) -> Draft:
    """Return a file for a model of these layers, which loads and says whether it binds."""
    named = [name for name in classes if _CLASS.fullmatch(name)][:SHOWN] or [CLASS]
    said = {"classes": named, "layers": stack.prefix} | _guessed(stack, config, known)
    problem = None
    for turned in _orientations(said, stack):
        try:
            left = unread(bind(loaded(turned), shapes, config), shapes)
        except CheckpointError as error:
            problem = problem or str(error)
            continue
        ignores = _ignored(left, stack.prefix, known)
        known_names = {name for here in ignores.values() for name in here}
        complete = turned | ({"ignores": list(ignores)} if ignores else {})
        return Draft(_text(complete, [name for name in left if name not in known_names]), None)
    return Draft(_text(said, ()), problem)


def _orientations(said: dict[str, Any], stack: Stack) -> Iterator[dict[str, Any]]:
    """The file as it is, with the stacks of experts stored the other way, and with every matrix."""
    yield said
    stacks = {name for name, shape in stack.tensors.items() if len(shape) == 3}
    branches = {}
    for kind, sets in said["branches"].items():
        several = sets if isinstance(sets, list) else [sets]
        turned = [each and each | _transposed([name for name in names(each) if name in stacks]) for each in several]
        branches[kind] = turned if isinstance(sets, list) else turned[0]
    yield said | {"branches": branches}
    yield said | {"stored": "in_out"}


def _transposed(tensors: list[str]) -> dict[str, list[str]]:
    return {"transposed": tensors} if tensors else {}


def loaded(said: Mapping[str, Any]) -> Factorization:
    """Return what a draft says as the schema reads it."""
    return msgspec.convert({"name": "draft", **said}, Factorization)


def unread(layout: Layout, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the matrices and gains of the residual width that no branch reads, without `.weight`, `*` for numbers."""
    claimed = {name for layer in layout.mlp + layout.attention for found in layer for name in found.tensors}
    layers = tuple(f"{_starred(prefix, '{layer}', '{stage}')}." for prefix in prefixes(layout.factorization))
    gains = (
        name
        for name, shape in shapes.items()
        if shape == (layout.width,) and name not in claimed and not name.endswith(BIASES)
    )
    inside = (name for name in map(_starred, gains) if name.startswith(layers))
    return tuple(dict.fromkeys((*map(_starred, layout.unclaimed), *inside)))


def _starred(name: str, *numbers: str) -> str:
    """A name without `.weight`, `*` for every number in it and for what stands for numbers."""
    for number in numbers:
        name = name.replace(number, "0")
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name.removesuffix(".weight"))


def _ignored(left: Iterable[str], prefix: str, known: Iterable[Factorization]) -> dict[str, list[str]]:
    """What registry files ignore -> what of that is here."""
    layer = f"{_starred(prefix, '{layer}')}."
    inside = {name.removeprefix(layer): name for name in left if name.startswith(layer)}
    found = {}
    for ignored in sorted({name for each in known for name in each.ignores}):
        pattern = re.compile(re.escape(_starred(ignored, "{expert}")).replace(r"\*", ".*"))
        found[ignored] = [name for relative, name in inside.items() if pattern.fullmatch(relative)]
    return {ignored: here for ignored, here in found.items() if here}


def _guessed(stack: Stack, config: Mapping[str, Any], known: Sequence[Factorization]) -> dict[str, Any]:
    norms, found = guess.norms(stack, known), guess.branches(stack, known)
    blank = {"mlp": ("up", "down"), "attention": ATTENTION_ROLES}
    branches = {}
    for kind, roles in blank.items():
        sets = found.get(kind) or [{role: f"{PLACEHOLDER}_{role}" for role in roles}]
        normed = [said and norms.get(kind, {}) | said for said in sets]
        branches[kind] = normed if len(normed) > 1 else normed[0]
    heads = _heads(stack.width, config, known)
    return {
        "normalization": _normalization(stack, config),
        "exchangeable": False,
        **({} if heads in (None, DEFAULT) else {"heads": heads}),
        "branches": branches,
    }


def _normalization(stack: Stack, config: Mapping[str, Any]) -> str:
    """Norms with a bias are layer_norm; without one the settings may name the kind."""
    biases = {f"{name.removesuffix('.gamma')}.{bias}" for name in stack.gains for bias in BIASES}
    if biases & stack.tensors.keys():
        return "layer_norm"
    said = " ".join(map(str, config))
    return "layer_norm" if re.search("layer_?norm", said) and "rms" not in said else "rms_norm"


def _heads(width: int, config: Mapping[str, Any], known: Iterable[Factorization]) -> str | None:
    """The key that counts the query heads: one that registry files know, or one called alike.

    Of several settings inside others those that speak of the same width come first.
    """
    counts = Counter(key for found in known if not isinstance(found.heads, dict) for key in as_names(found.heads))
    inner = [key for key, value in config.items() if isinstance(value, dict) and _CLASS.fullmatch(key)]
    inner.sort(key=lambda key: width not in config[key].values())
    spellings = [*(key for key, _ in counts.most_common()), *filter(_HEADS.fullmatch, config)]
    spellings += [f"{key}.{each}" for key in inner for each in spellings if "." not in each]
    spellings += [f"{key}.{each}" for key in inner for each in config[key] if _HEADS.fullmatch(each)]
    return next((key for key in spellings if type(count := setting(config, key)) is int and count > 0), None)


def _text(said: Mapping[str, Any], left: Sequence[str]) -> str:
    """The file, with what has to be decided beside it."""
    return f"{_HEAD.format(name=said['classes'][0])}{''.join(_lines(said))}{''.join(_left(left))}"


def _lines(said: Mapping[str, Any]) -> Iterator[str]:
    for key, value in sorted(said.items(), key=lambda item: ORDER.index(item[0])):
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
