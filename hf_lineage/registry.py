"""The adapter registry: one YAML file per factorization, looked up by transformers class.

Structure is data: no model class is named in this package. `registry/README.md` documents the schema.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hf_lineage.errors import NothingToCompare, RegistryError
from hf_lineage.schema import (
    ATTENTION_ROLES,
    MLP_ROLES,
    Factorization,
    MatrixSet,
    Setting,
    as_sets,
    as_stacks,
    prefixes,
)
from hf_lineage.unsupported import unsupported


@dataclass(frozen=True)
class Slot:
    """Where one role of a matrix set is stored."""

    tensor: str
    roles: tuple[str, ...]
    """Every role stored in this tensor, in order."""
    role: str
    interleaved: bool = False
    blocks: int = 1
    latent: tuple[str, ...] = ()
    """What the tensor reads instead of the stream, and the norm on that."""
    transposed: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every name: the tensor, what it reads instead of the stream, and the norm on that."""
        return self.tensor, *self.latent


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
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"{path.name}: {error}; registry/README.md documents the schema") from None
    if not all("{layer}" in pattern for pattern in prefixes(found)):
        raise RegistryError(f"{path.name}: `layers` needs {{layer}} where the number of a layer stands")
    stacked = [("heads", found.heads), *(("activation", each.activation) for each in as_sets(found.branches.mlp))]
    for key, said in stacked:
        if isinstance(said, dict) and said.keys() != as_stacks(found.layers).keys():
            raise RegistryError(f"{path.name}: `{key}` needs the stacks that `layers` has, or one for all of them")
    for kind, roles in (("mlp", MLP_ROLES), ("attention", ATTENTION_ROLES)):
        for matrices in as_sets(getattr(found.branches, kind)):
            if problem := _problem(matrices, roles):
                raise RegistryError(f"{path.name}: {kind} {problem}")
    return found


def _problem(matrices: MatrixSet, roles: tuple[str, ...]) -> str:
    """What is wrong with a set, in words; nothing if nothing is."""
    stored = list(slots(matrices))
    needed, named = set(roles) - {"gate"}, [slot.role for slot in stored]
    if not needed <= set(named) <= needed | {"gate"} or len(named) != len(set(named)):
        return f"names the roles {sorted(named)}, it needs {sorted(needed)} once"
    unknown = {*matrices.latent, *matrices.transposed} - {slot.tensor for slot in stored}
    if unknown:
        return f"says something of {sorted(unknown)}, where no role is stored"
    if matrices.blocks < 1 or (matrices.blocks > 1 and not matrices.packed):
        return f"has {matrices.blocks} blocks, which says nothing without `packed`"
    return ""


def setting(config: Mapping[str, Any], key: str) -> Any:
    """Return what `config.json` says under a key, `outer.inner` for one inside another, `list.0`; None if nothing."""
    value: Any = config
    for part in key.split("."):
        if isinstance(value, list) and part.isdecimal():
            value = dict(enumerate(value)).get(int(part))
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def unmet(config: Mapping[str, Any], requires: Mapping[str, Setting | tuple[Setting, ...]]) -> str | None:
    """Return the first key under which `config.json` does not say what a factorization requires; None if all is met."""
    wanted = {key: values if isinstance(values, tuple) else (values,) for key, values in requires.items()}
    return next((key for key, values in wanted.items() if setting(config, key) not in values), None)


def lookup(config: Mapping[str, Any], root: Path | None = None) -> tuple[str, Factorization]:
    """Return the class that `config.json` names and its factorization; raise NothingToCompare if there is none."""
    named = config.get("architectures")
    if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
        raise NothingToCompare("config.json names no class under `architectures`, so no factorization applies")
    known = [(name, found) for name in named for found in factorizations(root) if name in found.classes]
    fitting = [(name, found) for name, found in known if unmet(config, found.requires) is None]
    if fitting:
        return max(fitting, key=lambda pair: len(pair[1].requires))
    if known:
        conditions = " or ".join(str(dict(found.requires)) for _, found in known)
        raise NothingToCompare(f"{named[0]} is supported only where config.json says {conditions}")
    reasons = unsupported(root or registry_root())
    if reason := next((reasons[name] for name in named if name in reasons), None):
        raise NothingToCompare(f"{named[0]} is not supported: {reason}")
    remote = "; it is remote code (auto_map), which is never run" if config.get("auto_map") else ""
    raise NothingToCompare(
        f"{named[0]} is not in the registry{remote}; `hf-lineage registry` lists the classes, "
        "registry/README.md tells how to add one"
    )


def slots(matrices: MatrixSet) -> Iterator[Slot]:
    """Yield where each role of a set is stored, the tensor names still relative to the layer."""
    for role in (*MLP_ROLES, *ATTENTION_ROLES):
        name = getattr(matrices, role)
        if name is not None:
            yield _slot(matrices, name, (role,), role)
    for name, roles in matrices.packed.items():
        yield from (replace(_slot(matrices, name, roles, role), blocks=matrices.blocks) for role in roles)
    for name, roles in matrices.interleaved.items():
        yield from (replace(_slot(matrices, name, roles, role), interleaved=True) for role in roles)


def _slot(matrices: MatrixSet, name: str, roles: tuple[str, ...], role: str) -> Slot:
    latent = matrices.latent.get(name, ())
    return Slot(name, roles, role, latent=latent, transposed=name in matrices.transposed)
