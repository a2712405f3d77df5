"""The adapter registry: one YAML file per factorization, looked up by transformers class, or chosen by the user.

Structure is data: no model class is named in this package. `registry/README.md` documents the schema.
"""

import difflib
import functools
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, MatrixSet, Setting, as_sets, as_stacks, prefixes
from hf_lineage.errors import NothingToCompare, RegistryError, UnlistedClass, printable
from hf_lineage.files.paths import open_regular

T = TypeVar("T")
parse_yaml = functools.partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # 8 times as fast
_SCHEMA = "registry/README.md documents the schema"


@functools.cache
def registry_root() -> Path:
    """Return the folder of factorizations: the one packed into the wheel, else the repository's."""
    package = Path(__file__).parents[1]
    packaged = package / "data" / "registry"
    return packaged if packaged.is_dir() else package.parent / "registry"


def registry_table(file: str, kind: type[T]) -> T:
    """Return the content of a file of the registry itself, as `read_table` does."""
    return cast(T, read_table(registry_root(), file, cast(Any, kind)))


@functools.cache
def read_table(root: Path, file: str, kind: Any) -> Any:
    """Return a YAML or JSON file of a registry's folder as a value of this type; RegistryError for anything else."""
    parse = json.loads if file.endswith(".json") else parse_yaml
    try:
        return msgspec.convert(parse((root / file).read_text(encoding="utf-8")), kind)
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError) as error:
        raise RegistryError(f"{file}: {error}; {_SCHEMA}") from None


class _KnownNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names, and a sentence about a repository or tensor that has one of them."""

    names: tuple[str, ...]
    sentence: str
    beside: str = ".*"
    without: str = "(?!)"  # Patterns of another name that has to be there, and of names of which none may be


def find_known(kind: str, names: Collection[str]) -> str:
    """Return the sentence in a list of `loading/known.yaml` about the first of these names in it; empty for none."""
    for row in registry_table("loading/known.yaml", dict[str, tuple[_KnownNames, ...]])[kind] if names else ():
        patterns = map(re.compile, ("|".join(row.names), row.beside, row.without))
        name, beside, without = (next(filter(one.fullmatch, sorted(names)), None) for one in patterns)
        if name is not None and beside is not None and without is None:
            return row.sentence.format(printable(name, 200))
    return ""


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes that share a reason."""

    reason: str
    classes: tuple[str, ...]


@functools.cache
def read_unsupported(root: Path) -> Mapping[str, str]:
    """Return the reason for every class in a registry's folder; raise RegistryError where a file breaks the schema."""
    reasons: dict[str, str] = {}
    for path in sorted((root / "unsupported").glob("*.yaml")):
        file = f"unsupported/{path.name}"
        for group in read_table(root, file, tuple[_Group, ...]):
            if twice := reasons.keys() & group.classes:
                raise RegistryError(f"{file}: {min(twice)} is listed twice")
            reasons |= dict.fromkeys(group.classes, group.reason)
    return reasons


@dataclass(frozen=True)
class Slot:
    """The tensor that stores one role of a matrix set."""

    tensor: str
    roles: tuple[str, ...]  # Every role stored in this tensor, in order
    role: str
    interleaved: bool = False
    blocks: int = 1
    latent: tuple[str, ...] = ()  # The matrix that makes a latent, which the tensor reads, and the norm on it
    transposed: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every name: the tensor, and the matrix and the norm of the latent that it reads, if any."""
        return self.tensor, *self.latent


@functools.cache
def factorizations(root: Path | None = None) -> tuple[Factorization, ...]:
    """Return every factorization of the registry, by name; raise RegistryError where a file breaks the schema."""
    everything = tuple(_parse(path, text) for path, text in _texts(root or registry_root()).items())
    listed: dict[tuple[str, str], str] = {}
    for factorization in everything:
        for name in factorization.classes:
            other = listed.setdefault((name, repr(sorted(factorization.requires.items()))), factorization.name)
            if other is not factorization.name:
                twice = f"{name} is listed in {other}.yaml too, and `requires` is the same"
                raise RegistryError(f"{factorization.name}.yaml: {twice}")
    return everything


def listing(name: str, root: Path | None = None) -> Iterator[Factorization]:
    """Yield the factorizations that list a class, without parsing the files that do not name it."""
    for path, text in _texts(root or registry_root()).items():
        if name in text and name in (factorization := _parse(path, text)).classes:
            yield factorization


def similar(name: str) -> str | None:
    """Return the class of the registry that a user may mean by a name such as qwen3; None if none is like it."""
    classes = {_plain(listed): listed for chosen in factorizations() for listed in sorted(chosen.classes, reverse=True)}
    meant = _plain(name)
    begun = [known for known in classes if meant and known.startswith(meant)]
    close = difflib.get_close_matches(meant, classes, n=1, cutoff=0.9)
    best = min(begun, key=lambda known: (not known.endswith("forcausallm"), len(known), known), default=None)
    return classes[best or close[0]] if best or close else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _texts(root: Path) -> Mapping[Path, str]:
    """Return every file of the registry and what it holds, by name; read again only after something has changed."""
    if not root.is_dir():
        return {}
    with os.scandir(root) as entries:
        files = [(each.path, each.stat()) for each in entries if each.name.endswith(".yaml")]
    return _read(tuple(sorted((path, stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files)))


@functools.lru_cache(maxsize=4)
def _read(files: tuple[tuple[str, int, int, int], ...]) -> Mapping[Path, str]:
    """Return the texts of files; the time of the last change, the size and the number of each file tell a change."""
    texts = {}
    for path, *_ in files:
        with open_regular(Path(path)) as stream:
            texts[Path(path)] = stream.read().decode()
    return texts


@functools.cache
def _parse(path: Path, text: str) -> Factorization:
    try:
        factorization = msgspec.convert(dict(**parse_yaml(text), name=path.stem), Factorization)
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"{path.name}: {error}; {_SCHEMA}") from None
    problem, heads = "", factorization.heads
    if not all("{layer}" in pattern for pattern in prefixes(factorization)):
        problem = "`layers` needs {layer} in place of the number of a layer"
    elif isinstance(heads, dict) and heads.keys() != as_stacks(factorization.layers).keys():
        problem = "`heads` must name the stacks of `layers`, or one for all of them"
    sets = [(branch, one) for branch in BRANCH_ROLES for one in as_sets(factorization.branches.sets(branch))]
    for branch, matrices in sets:
        stored, needed = list(slots(matrices)), set(BRANCH_ROLES[branch]) - {"gate"}
        roles = sorted(slot.role for slot in stored)
        unknown = {*matrices.latent, *matrices.transposed} - {slot.tensor for slot in stored}
        if not needed <= set(roles) <= needed | {"gate"} or len(roles) != len(set(roles)):
            problem = problem or f"{branch} names the roles {roles}, but it needs {sorted(needed)}, each once"
        elif unknown:
            problem = problem or f"{branch} lists {sorted(unknown)}, which are not roles"
        elif matrices.blocks < 1 or (matrices.blocks > 1 and not matrices.packed):
            problem = problem or f"{branch} has {matrices.blocks} blocks, but blocks are for `packed` only"
    if problem:
        raise RegistryError(f"{path.name}: {problem}")
    return factorization


def classes_named(config: Mapping[str, Any]) -> list[str]:
    """Return the classes that `config.json` names."""
    names = config.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def setting(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of `config.json` under a key such as `heads`, `outer.inner` or `list.0`; None if absent."""
    value: Any = config
    for part in key.split("."):
        if isinstance(value, list) and part.isdecimal():
            value = dict(enumerate(value)).get(int(part))
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def unmet(config: Mapping[str, Any], requires: Mapping[str, Setting | tuple[Setting, ...]]) -> str | None:
    """Return the first key whose value in `config.json` is not the one that a factorization requires; else None."""
    wanted = {key: values if isinstance(values, tuple) else (values,) for key, values in requires.items()}
    return next((key for key, values in wanted.items() if setting(config, key) not in values), None)


def lookup(config: Mapping[str, Any], root: Path | None = None) -> tuple[str, Factorization]:
    """Return the class that `config.json` names and its factorization; raise NothingToCompare if there is none."""
    classes = classes_named(config)
    if not classes or config["architectures"] != classes:
        raise UnlistedClass("config.json names no class under `architectures`, so no factorization applies")
    candidates = [(name, factorization) for name in classes for factorization in listing(name, root)]
    if candidates:
        return fitting(config, candidates)
    reasons = read_unsupported(root or registry_root())
    if reason := next((reasons[name] for name in classes if name in reasons), None):
        raise NothingToCompare(f"{classes[0]} is not supported: {reason}")
    remote = "; it is remote code (auto_map), which hf-lineage never runs" if config.get("auto_map") else ""
    raise UnlistedClass(f"{classes[0]} is not in the registry{remote}")


def fitting(config: Mapping[str, Any], candidates: Sequence[tuple[str, Factorization]]) -> tuple[str, Factorization]:
    """Return that class and factorization among these which `config.json` asks for; NothingToCompare if none is."""
    met = [(name, factorization) for name, factorization in candidates if unmet(config, factorization.requires) is None]
    if not met:
        conditions = " or ".join(str(dict(factorization.requires)) for _, factorization in candidates)
        raise NothingToCompare(f"{candidates[0][0]} is supported only if config.json says {conditions}")
    name, chosen = max(met, key=lambda pair: len(pair[1].requires))
    return name, settle_exchangeable(config, chosen)


def settle_exchangeable(config: Mapping[str, Any], chosen: Factorization) -> Factorization:
    """Return a factorization with `exchangeable` settled for these settings: whether coordinates are exchangeable."""
    rule = chosen.exchangeable
    return chosen if isinstance(rule, bool) else msgspec.structs.replace(chosen, exchangeable=not unmet(config, rule))


def slots(matrices: MatrixSet) -> Iterator[Slot]:
    """Yield the slot of each role of a set, with tensor names still relative to the layer."""
    names = ((getattr(matrices, role), role) for roles in BRANCH_ROLES.values() for role in roles)
    stored: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [(name, (role,), {}) for name, role in names if name]
    stored += [(name, roles, {"blocks": matrices.blocks}) for name, roles in matrices.packed.items()]
    stored += [(name, roles, {"interleaved": True}) for name, roles in matrices.interleaved.items()]
    for name, roles, order in stored:
        latent, transposed = matrices.latent.get(name, ()), name in matrices.transposed
        yield from (Slot(name, roles, role, latent=latent, transposed=transposed, **order) for role in roles)


@dataclass(frozen=True)
class Choice:
    """The reading that the user chooses for an unlisted class; a listed class is read as the registry says."""

    as_class: str | None = None  # The listed class whose layers the model has
    registry: Path | None = None  # A folder of factorizations of the user's own


LISTED: Choice = Choice()  # The choice by which only classes of the registry are read


@dataclass(frozen=True)
class ClassChoice:
    """The class of a model, its factorization, and sentences about what is not proved of them."""

    architecture: str
    factorization: Factorization
    notes: tuple[str, ...] = ()


def choose(config: Mapping[str, Any], choice: Choice) -> ClassChoice:
    """Return class and factorization; UnlistedClass if neither registry nor choice has them, else RegistryError."""
    try:
        return ClassChoice(*lookup(config))
    except UnlistedClass:
        if choice == LISTED:
            raise
    own, notes, root = next(iter(classes_named(config)), None), [], choice.registry
    wanted, candidates, remedy = choice.as_class or own, list[Factorization](), "check the folder that --as names"
    if wanted and root:
        try:
            candidates = list(listing(wanted, root))
        except (OSError, UnicodeDecodeError) as error:
            raise RegistryError(f"{root} cannot be read: {error}; {remedy}") from None
        if not any(root.glob("*.yaml")):
            raise RegistryError(f"{root} holds no factorization (a file *.yaml); {remedy}")
    if wanted and candidates:
        name, factorization = fitting(config, [(wanted, one) for one in candidates])
        notes.append(f"read by {factorization.name}.yaml of the folder that --as names, an unproved factorization")
    else:
        name, factorization = lookup({**config, "architectures": [wanted] if wanted else []})
    if choice.as_class:
        text = printable(own or "a class that config.json does not name", 200)
        notes.append(f"read as {name} (--as) in place of {text}; it is not proved that both compute the same")
    return ClassChoice(own or name, factorization, tuple(notes))
