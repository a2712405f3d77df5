"""The adapter registry: one YAML file per factorization, looked up by transformers class.

Structure is data: no model class is named in this package. `registry/README.md` documents the schema.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml

from hf_lineage.errors import NothingToCompare, RegistryError
from hf_lineage.unsupported import unsupported

Names = str | tuple[str, ...]
Norms = str | tuple[str | None, ...]
Stacks = Names | dict[str, Names]
"""The same for every stack of layers or, by the name of a stack, for each."""
Name = TypeVar("Name", str, str | None)
Setting = bool | int | str | None

MLP_ROLES = ("up", "gate", "down")
ATTENTION_ROLES = ("query", "key", "value", "output")


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a registry file; an unknown key is an error."""


class MatrixSet(_Strict, frozen=True, kw_only=True):
    """Matrices that form one branch together; names are relative to the layer, without `.weight`."""

    where: Names = ()
    """What only the layers of this set have, where another kind of layer names its matrices alike."""
    unless: Names = ()
    """What only layers have in which this set is no residual branch, such as weights in the shortcut."""
    norm: Norms = ()
    """The norm whose output the branch reads; of several names the first on disk, null: a layer may have none."""
    output_norm: Norms = ()
    """The norm that sits on the branch's output, before it is added to the stream."""
    inner_norm: Norms = ()
    """The norm on the hidden units, between what reads and what writes."""
    packed: dict[str, tuple[str, ...]] = {}
    """One stored matrix that holds several roles, one after the other."""
    blocks: int = 1
    """How many blocks a packed matrix consists of, each of which holds its share of every role."""
    interleaved: dict[str, tuple[str, ...]] = {}
    """The same by turns: row by row for an MLP, by key/value head for attention."""
    latent: dict[str, tuple[str, str]] = {}
    """For a matrix that does not read the stream itself: the one that does, and the norm between the two."""
    transposed: tuple[str, ...] = ()
    """Matrices that are stored the other way than `stored` says."""
    activation: Stacks = ()
    """What stands between reader and writer: keys of `config.json` and names of activations, of which the first that
    applies counts. Where nothing is listed, hidden units count in full."""
    fed_by: Norms = ()
    """Of a post-norm model the norm whose output the branch reads: it tells how active the hidden units are, and its
    gain is folded nowhere."""
    router: Norms = ()
    """What makes the routing logits of the experts, (experts, width); of several names the first on disk."""
    correction: Norms = ()
    """What is added to each expert's score, between 0 and 1, before the experts are chosen; null: there may be none."""
    routed: Names = ()
    """The keys of `config.json` that count the experts a token is sent to; of several the first there."""
    up: str | None = None
    gate: str | None = None
    down: str | None = None
    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str | None = None


Sets = MatrixSet | tuple[MatrixSet | None, ...]


class Branches(_Strict, frozen=True, kw_only=True):
    """What a layer is made of; of a list, every set that the layer has counts, side by side; null: it may have none.

    A branch that is left out is no plain product in any layer.
    """

    mlp: Sets = (None,)
    attention: Sets = (None,)


class Factorization(_Strict, frozen=True, kw_only=True):
    """One registry file: which tensors on disk make which branch, for the listed classes."""

    name: str
    classes: tuple[str, ...]
    layers: Stacks
    """Prefix of a layer on disk, with `{layer}`; of several the first that the checkpoint has."""
    normalization: Literal["rms_norm", "layer_norm", "batch_norm"]
    branches: Branches
    stored: Literal["out_in", "in_out"] = "out_in"
    gain: Literal["plain", "one_plus"] = "plain"
    """`one_plus`: the file holds γ - 1."""
    exchangeable: bool = True
    """Whether the architecture treats all residual coordinates alike; fixed sinusoidal positions do not."""
    heads: Stacks = "num_attention_heads"
    """The key of `config.json` that counts the query heads, `outer.inner` for one inside another."""
    depth: Stacks | None = None
    """The key of `config.json` that counts the layers; by default one of the usual ones, beside that of the heads."""
    requires: dict[str, Setting | tuple[Setting, ...]] = {}
    """What `config.json` must say for this file to apply, one of several values, null for nothing: tells apart variants
    of one class."""
    ignores: tuple[str, ...] = ()
    """Matrices of the residual width that belong to no branch, such as routers; `*` stands for anything."""


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


def as_names(names: str | tuple[Name, ...]) -> tuple[str | Name, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else names


def as_stacks(stacks: Stacks) -> dict[str, tuple[str, ...]]:
    """Return what is said of each stack by its name; of the only one, or of all of them alike, under no name."""
    return {stack: as_names(names) for stack, names in (stacks if isinstance(stacks, dict) else {"": stacks}).items()}


def prefixes(factorization: Factorization) -> tuple[str, ...]:
    """Return every prefix that a layer may have."""
    return tuple(prefix for names in as_stacks(factorization.layers).values() for prefix in names)


def as_sets(sets: Sets) -> tuple[MatrixSet, ...]:
    """Return one matrix set or several as a tuple."""
    return (sets,) if isinstance(sets, MatrixSet) else tuple(each for each in sets if each is not None)


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
