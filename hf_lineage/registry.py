"""The adapter registry: one YAML file per factorization, looked up by transformers class.

Structure is data: no model class is named in this package. `registry/README.md` documents the schema.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from hf_lineage.errors import NothingToCompare, RegistryError

Names = str | tuple[str, ...]
Norms = str | tuple[str | None, ...]

MLP_ROLES = ("up", "gate", "down")
ATTENTION_ROLES = ("query", "key", "value", "output")


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a registry file; an unknown key is an error."""


class MatrixSet(_Strict, frozen=True, kw_only=True):
    """Matrices that form one branch together; names are relative to the layer, without `.weight`."""

    norm: Norms = ()
    """The norm whose output the branch reads; of several names the first on disk, null: a layer may have none."""
    output_norm: Norms = ()
    """The norm that sits on the branch's output, before it is added to the stream."""
    packed: dict[str, tuple[str, ...]] = {}
    """One stored matrix that holds several roles, one after the other."""
    interleaved: dict[str, tuple[str, ...]] = {}
    """The same by turns: row by row for an MLP, by key/value head for attention."""
    up: str | None = None
    gate: str | None = None
    down: str | None = None
    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str | None = None


class Branches(_Strict, frozen=True, kw_only=True):
    """What a layer is made of; of a list, every set that the layer has counts, side by side."""

    mlp: MatrixSet | tuple[MatrixSet, ...]
    attention: MatrixSet | tuple[MatrixSet, ...]


class Factorization(_Strict, frozen=True, kw_only=True):
    """One registry file: which tensors on disk make which branch, for the listed classes."""

    name: str
    classes: tuple[str, ...]
    layers: Names
    """Prefix of a layer on disk, with `{layer}`; of several the first that the checkpoint has."""
    normalization: Literal["rms_norm", "layer_norm"]
    branches: Branches
    stored: Literal["out_in", "in_out"] = "out_in"
    gain: Literal["plain", "one_plus"] = "plain"
    """`one_plus`: the file holds γ - 1."""
    exchangeable: bool = True
    """Whether the architecture treats all residual coordinates alike; fixed sinusoidal positions do not."""
    heads: Names = "num_attention_heads"
    """The key of `config.json` that counts the query heads."""
    requires: dict[str, bool | int | str | None] = {}
    """What `config.json` must say for this file to apply (null: nothing); tells apart variants of one class."""
    ignores: tuple[str, ...] = ()
    """Matrices of the residual width that belong to no branch, such as routers."""


@dataclass(frozen=True)
class Slot:
    """Where one role of a matrix set is stored."""

    tensor: str
    roles: tuple[str, ...]
    """Every role stored in this tensor, in order."""
    role: str
    interleaved: bool


def registry_root() -> Path:
    """Return the folder of factorizations: the one packed into the wheel, else the repository's."""
    packaged = Path(__file__).parent / "data" / "registry"
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "registry"


@functools.cache
def factorizations(root: Path | None = None) -> tuple[Factorization, ...]:
    """Return every factorization of the registry, by name; raise RegistryError where a file breaks the schema."""
    everything = tuple(_parse(path) for path in sorted((root or registry_root()).glob("*.yaml")))
    listed: dict[tuple[str, str], str] = {}
    for found in everything:
        for name in found.classes:
            other = listed.setdefault((name, repr(sorted(found.requires.items()))), found.name)
            if other is not found.name:
                raise RegistryError(
                    f"{found.name}.yaml: {name} is listed in {other}.yaml too, and `requires` is the same"
                )
    return everything


def _parse(path: Path) -> Factorization:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = msgspec.convert(dict(**content, name=path.stem), Factorization)
    except (yaml.YAMLError, msgspec.ValidationError, TypeError) as error:
        raise RegistryError(f"{path.name}: {error}; registry/README.md documents the schema") from None
    if not all("{layer}" in pattern for pattern in as_names(found.layers)):
        raise RegistryError(f"{path.name}: `layers` needs {{layer}} where the number of a layer stands")
    for kind, roles in (("mlp", MLP_ROLES), ("attention", ATTENTION_ROLES)):
        for matrices in as_sets(getattr(found.branches, kind)):
            needed, named = set(roles) - {"gate"}, [name.role for name in slots(matrices)]
            if not needed <= set(named) <= set(roles) or len(named) != len(set(named)):
                raise RegistryError(
                    f"{path.name}: {kind} names the roles {sorted(named)}, it needs {sorted(needed)} once"
                )
    return found


def lookup(config: Mapping[str, Any], root: Path | None = None) -> tuple[str, Factorization]:
    """Return the class that `config.json` names and its factorization; raise NothingToCompare if there is none."""
    named = config.get("architectures")
    if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
        raise NothingToCompare("config.json names no class under `architectures`, so no factorization applies")
    known = [(name, found) for name in named for found in factorizations(root) if name in found.classes]
    fitting = [(name, found) for name, found in known if all(config.get(k) == v for k, v in found.requires.items())]
    if fitting:
        return max(fitting, key=lambda pair: len(pair[1].requires))
    if known:
        conditions = " or ".join(str(dict(found.requires)) for _, found in known)
        raise NothingToCompare(f"{named[0]} is supported only where config.json says {conditions}")
    remote = "; it is remote code (auto_map), which is never run" if config.get("auto_map") else ""
    raise NothingToCompare(
        f"{named[0]} is not in the registry{remote}; `hf-lineage registry` lists the classes, "
        "registry/README.md tells how to add one"
    )


def as_names(names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else names


def as_sets(sets: MatrixSet | tuple[MatrixSet, ...]) -> tuple[MatrixSet, ...]:
    """Return one matrix set or several as a tuple."""
    return (sets,) if isinstance(sets, MatrixSet) else sets


def slots(matrices: MatrixSet) -> Iterator[Slot]:
    """Yield where each role of a set is stored, the tensor names still relative to the layer."""
    for role in (*MLP_ROLES, *ATTENTION_ROLES):
        name = getattr(matrices, role)
        if name is not None:
            yield Slot(name, (role,), role, interleaved=False)
    for interleaved, packs in ((False, matrices.packed), (True, matrices.interleaved)):
        for name, roles in packs.items():
            for role in roles:
                yield Slot(name, roles, role, interleaved)
