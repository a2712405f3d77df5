"""Draft a registry file for a model whose class is not listed, guessed from its header: `python -m tools.draft MODEL`.

A human decides what a header cannot say: those lines carry a `?`. `registry/README.md` tells how to prove the file.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, NamedTuple

import msgspec
import yaml

from hf_lineage.architecture import guess
from hf_lineage.architecture.guess import KINDS, LayerGroup, YamlSet, find_groups
from hf_lineage.architecture.layers import BIASES, Shape
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.likeness import star_numbers, unread
from hf_lineage.architecture.registry import classes_named, factorizations, setting
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, MatrixSet, as_names, as_sets
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


_ROLES = tuple(itertools.chain.from_iterable(BRANCH_ROLES.values()))
_KEYS = ("packed", "blocks", "interleaved", "latent")
"""Other keys of a set about its matrices; norms are guessed separately, and sizes tell the orientation."""


class Pattern(NamedTuple):
    """The names of a matrix set, relative to the module that holds all of them."""

    kind: str
    yaml_set: YamlSet
    homes: Counter[str]  # The modules under which registry files have it


def patterns(registry: Iterable[Factorization]) -> list[Pattern]:
    """Return every pattern of the registry once; a set spread over several stacks makes none."""
    patterns_by_set: dict[str, Pattern] = {}
    sets = ((kind, one) for each in registry for kind in KINDS for one in as_sets(each.branches.sets(kind)))
    for kind, matrices in sets:
        stated = {key: getattr(matrices, key) for key in (*_ROLES, *_KEYS)}
        plain = {key: value for key, value in stated.items() if value != getattr(MatrixSet(), key)}
        modules = zip(*(name.split(".")[:-1] for name in names(plain)), strict=False)
        home = ".".join(parts[0] for parts in itertools.takewhile(lambda parts: len({*parts}) == 1, modules))
        yaml_set = _rename_module(plain, home, "")
        if "{layer}" not in str(yaml_set):
            patterns_by_set.setdefault(f"{kind}{yaml_set}", Pattern(kind, yaml_set, Counter())).homes[home] += 1
    return list(patterns_by_set.values())


def candidates(
    free: Mapping[str, Shape], layer: Mapping[str, Shape], width: int, patterns: Sequence[Pattern]
) -> list[tuple[str, YamlSet, frozenset[str]]]:
    """Return kind, set and free matrices where a layer has the names of a pattern and sizes that fit, the best first.

    The best have most tensors, then exactly the names of a registry file, then a pattern of many files.
    """
    ranked = []
    modules: dict[str, list[str]] = defaultdict(list)
    for name in free:
        parts = name.split(".")
        for cut in range(len(parts)):
            modules[".".join(parts[cut:])].append(".".join(parts[:cut]))
    for pattern in patterns:
        for module in modules.get(names(pattern.yaml_set)[0], ()):
            yaml_set = _rename_module(pattern.yaml_set, "", module)
            tensors = [name for name in names(yaml_set) if name in free]
            latent = yaml_set.get("latent", {})
            direct = {name: parts for name, parts in _parts(yaml_set).items() if name not in latent}
            units = {math.prod(free[name][-2:]) / parts for name, parts in direct.items() if name in free}
            fit = all(name in layer for name in names(yaml_set)) and all(width in free.get(name, ()) for name in direct)
            # Each role of an MLP has as many hidden units.
            if fit and (pattern.kind != "mlp" or len(units) == 1):
                rank = (len(tensors), int(module in pattern.homes), pattern.homes.total())
                ranked.append((rank, (pattern.kind, yaml_set, frozenset(tensors))))
    return [found for _, found in sorted(ranked, key=lambda one: one[0], reverse=True)]


def _parts(yaml_set: YamlSet) -> dict[str, int]:
    """Return tensor -> the number of roles that a set stores in it."""
    packed = {name: len(roles) for key in ("packed", "interleaved") for name, roles in yaml_set.get(key, {}).items()}
    return {yaml_set[role]: 1 for role in _ROLES if role in yaml_set} | packed


def names(yaml_set: YamlSet) -> list[str]:
    """Return every tensor that a set names, without its norms, each once."""
    latent = [name for pair in yaml_set.get("latent", {}).values() for name in pair]
    return list(dict.fromkeys((*_parts(yaml_set), *latent)))


def _rename_module(yaml_set: YamlSet, old: str, new: str) -> YamlSet:
    """Return the same set under another module."""

    def rename(name: str) -> str:
        return ".".join(part for part in (new, name.removeprefix(old).removeprefix(".")) if part)

    renamed: YamlSet = {}
    for key, value in yaml_set.items():
        if isinstance(value, dict):  # of names, each with roles, or with the names of its latent
            tensors = key == "latent"
            value = {rename(name): [rename(n) if tensors else n for n in entries] for name, entries in value.items()}
        renamed[key] = rename(value) if isinstance(value, str) else value
    return renamed


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
    norms, matrix_sets = (
        guess.norms(group, registry),
        guess.branches(group, functools.partial(candidates, patterns=patterns(registry))),
    )
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
