"""Schema of the files of the adapter registry, which `registry/README.md` documents, and the fingerprint of a file."""

import hashlib
from collections.abc import Iterator
from typing import Literal, TypeVar

import msgspec

Names = str | tuple[str, ...]
Norms = str | tuple[str | None, ...]
Stacks = Names | dict[str, Names]  # Names for every stack of layers, or name of a stack -> its own names
Name = TypeVar("Name", str, str | None)
Setting = bool | int | str | None

MOST_LAYERS = 1024  # Several times those of real models; every pair of layers is compared in every permutation
MLP_READERS = ("up", "gate")  # The roles of an MLP that read the stream; their rows are hidden units
ATTENTION_ROLES = ("query", "key", "value", "output")
BRANCH_ROLES = {"mlp": (*MLP_READERS, "down"), "attention": ATTENTION_ROLES}  # Branch -> roles of its matrices


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a registry file; an unknown key is an error."""


class MatrixSet(_Strict, frozen=True, kw_only=True):
    """The matrices that form one branch together; names are relative to the layer, without `.weight`."""

    where: Names = ()  # Tensors that only layers with this set have, where other layers use the same names
    unless: Names = ()  # Tensors that mark layers in which this is no residual branch: weights in the shortcut
    norm: Norms = ()  # The norm whose output the branch reads; the first on disk, null: a layer may have none
    output_norm: Norms = ()  # The norm that sits on the branch's output, before it is added to the stream
    inner_norm: Norms = ()  # The norm on the hidden units, between reader and writer
    packed: dict[str, tuple[str, ...]] = {}  # One stored matrix that holds several roles, one after the other
    blocks: int = 1  # Number of blocks in a packed matrix, each of which holds its share of every role
    interleaved: dict[str, tuple[str, ...]] = {}  # Several roles in turn: by row for an MLP, else by key/value head
    latent: dict[str, tuple[str, str]] = {}  # Matrix that reads a latent -> the one that computes it, and its norm
    transposed: tuple[str, ...] = ()  # Matrices that are stored the other way than `stored` says
    up: str | None = None
    gate: str | None = None
    down: str | None = None
    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str | None = None

    @property
    def norms(self) -> tuple[Norms, Norms, Norms]:
        """The names of the norm, of the output norm and of the inner norm."""
        return self.norm, self.output_norm, self.inner_norm


Sets = MatrixSet | tuple[MatrixSet | None, ...]


class Branches(_Strict, frozen=True, kw_only=True):
    """The branches of a layer, side by side those of a list; null: it may have none; left out: no plain product."""

    mlp: Sets = (None,)
    attention: Sets = (None,)

    def sets(self, branch: str) -> Sets:
        """Return the matrix sets of a branch."""
        sets: Sets = getattr(self, branch)
        return sets

    def everything(self) -> Iterator[MatrixSet]:
        """Yield the matrix sets of all branches."""
        for branch in BRANCH_ROLES:
            yield from as_sets(self.sets(branch))


class Lora(_Strict, frozen=True, kw_only=True):
    """The facts that only the test of LoRA adapters needs; no signature depends on them."""

    in_memory: dict[str, str] = {}  # Part of a name on disk -> its name in transformers, or for a trainer of adapters
    unembedding: Names = ()  # The matrix that reads the last stream, or the tied embedding; the first on disk
    rotary: bool | str = True  # Whether queries and keys are turned by position; a key: only classes that have it
    calibrated: bool = True  # Whether the strength of traces was measured, so that a test can give its power
    values: dict[str, str] = {}  # Matrices of values in no branch, each with the one that writes their attention
    units: dict[str, str] = {}  # Matrices that make hidden units in no branch, each with the one that writes them
    value_heads: str = "num_attention_heads"  # The key that counts the heads of `values`: a number, or a list


class Factorization(_Strict, frozen=True, kw_only=True):
    """One registry file: which tensors on disk make which branch, for the listed classes."""

    name: str
    classes: tuple[str, ...]
    layers: Stacks  # Prefix of a layer on disk, with `{layer}`; of several the first that the checkpoint has
    normalization: Literal["rms_norm", "layer_norm", "batch_norm"]
    branches: Branches
    stored: Literal["out_in", "in_out"] = "out_in"
    gain: Literal["plain", "one_plus"] = "plain"  # `one_plus`: the file holds γ - 1
    exchangeable: bool | dict[str, Setting | tuple[Setting, ...]] = True  # As sinusoidal positions are not; or when so
    heads: Stacks = "num_attention_heads"  # The key that counts the query heads; `outer.inner` is inside another
    depth: Stacks | None = None  # The key that counts the layers; by default a usual one beside that of the heads
    embedding: Names = ()  # A row a token, by which two streams are related; of several the first on disk
    requires: dict[str, Setting | tuple[Setting, ...]] = {}  # Key of `config.json` -> value, or several; null for none
    lora: Lora = Lora()
    ignores: tuple[str, ...] = ()  # Matrices of the residual width in no branch, as routers; `*` stands for anything


def as_names(names: str | tuple[Name, ...]) -> tuple[str | Name, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else names


def as_stacks(stacks: Stacks) -> dict[str, tuple[str, ...]]:
    """Return stack -> names; under the empty name those for the only stack, or for all stacks."""
    return {stack: as_names(names) for stack, names in (stacks if isinstance(stacks, dict) else {"": stacks}).items()}


def prefixes(factorization: Factorization) -> tuple[str, ...]:
    """Return every prefix that a layer may have."""
    return tuple(prefix for names in as_stacks(factorization.layers).values() for prefix in names)


def base_prefixes(factorization: Factorization) -> tuple[str, ...]:
    """Return the prefixes that names have where a base model is saved with a head, the longest first."""
    every = prefixes(factorization)
    starts = {one.removesuffix(other) for one in every for other in every if one.endswith(f".{other}")}
    return tuple(sorted(starts, key=len, reverse=True))


def bare_name(name: str, starts: tuple[str, ...]) -> str:
    """Return the name of a tensor without the first of some prefixes that it has."""
    return name.removeprefix(next(filter(name.startswith, starts), ""))


def as_sets(sets: Sets) -> tuple[MatrixSet, ...]:
    """Return one matrix set or several as a tuple."""
    return (sets,) if isinstance(sets, MatrixSet) else tuple(matrices for matrices in sets if matrices is not None)


def fingerprint(factorization: Factorization) -> str:
    """Return a digest of what a factorization says about tensors; another digest may mean other numbers."""
    relevant = msgspec.structs.replace(factorization, classes=(), ignores=(), depth=None, lora=Lora())
    return hashlib.sha256(repr(_plain(relevant)).encode()).hexdigest()


def _plain(value: object) -> object:
    """Return a value with its structs as sorted pairs of name and value, without those at their defaults."""
    if isinstance(value, msgspec.Struct):
        values = ((field.name, field.default, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return sorted((name, _plain(setting)) for name, default, setting in values if setting not in (default, {}))
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return sorted((key, _plain(item)) for key, item in value.items()) if isinstance(value, dict) else value
