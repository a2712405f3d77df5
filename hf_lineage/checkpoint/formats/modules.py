"""Modules: the stored tensors of one quantized matrix, by the ends of their names; and the plain format."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, Decode
from hf_lineage.checkpoint.tensor import Memory, StoredTensor, TensorInfo
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
CAST = frozenset({"F8_E4M3", "F8_E5M2"})  # without scales, unless `config.json` names a quantization with them
SCALES = frozenset({"F32", "F16", "BF16"})
WORDS, BYTES, SINGLE, INDICES = (frozenset(names.split()) for names in ("I32", "U8", "F32", "I32 I64"))
ENDS = (".weight", ".bias")  # ends of the names of tensors that no format packs with others
SETTINGS = ("quantization_config", "compression_config", "quantization")  # keys of `config.json` about it
INSTEAD = "check the release in F16, BF16 or F32 instead"  # the remedy where weights are not decoded
KEYS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore")
MOST = 2**12  # entries of a list; the longest ones have one for each matrix that is left out
LITERAL = re.compile(r"[\w.\-/:]+", re.ASCII)
LONGEST, QUANTIFIERS = 100, 3  # of a pattern: with more, a hostile one could take for ever
Settings = Mapping[str, Any]  # the settings under `quantization_config` in `config.json`; untrusted input
Kind = tuple[str, frozenset[tuple[str, tuple[int, ...]]]]  # name without the number of its layer, shapes of its parts


def not_decoded(how: str) -> NothingToCompare:
    """Return the error about weights that are stored in a way that is not decoded; `how` follows "stored"."""
    return NothingToCompare(f"the weights are stored {how}; {INSTEAD}")


def plain_tensors(stored: Mapping[str, StoredTensor]) -> dict[str, TensorInfo]:
    """Return every stored tensor as itself; those of other formats, such as counters, cannot be read."""
    why = dict.fromkeys(FLOATS | CAST, "")
    for dtype in {tensor.dtype for tensor in stored.values()} - why.keys():
        why[dtype] = f"is stored as {dtype}, and config.json does not say how to decode it; {INSTEAD}"
    return {name: TensorInfo(one.shape, (name,), refusal=why[one.dtype]) for name, one in stored.items()}


def left_out(stated: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return a function that tells whether a loader takes a module as it is stored; raise if it cannot be told."""
    lists = [value for key in KEYS if isinstance(value := stated.get(key), list)]
    entries = [entry.removeprefix("re:") for value in lists for entry in value if isinstance(entry, str) and entry]
    if len(entries) > MOST:
        raise NothingToCompare(f"config.json leaves {len(entries)} modules out of the quantization, too many to follow")
    literal = tuple(entry for entry in entries if LITERAL.fullmatch(entry))
    below = tuple(f"{entry}." for entry in literal)
    patterns = [_pattern(entry) for entry in entries if not LITERAL.fullmatch(entry)]
    return lambda name: (
        name.endswith(literal) or name.startswith(below) or any(one.match(name[:LONGEST]) for one in patterns)
    )


def _pattern(entry: str) -> re.Pattern[str]:
    """Return a regular expression that ends at the end of a part of a name; NothingToCompare for a hostile one."""
    quantifiers = len(re.findall(r"[*+?{]", entry))
    if len(entry) <= LONGEST and quantifiers <= QUANTIFIERS and not re.search(r"\)[*+?{]|\\[1-9]|\(\?", entry):
        try:
            return re.compile(rf"(?:{entry})(?:(?<=\.)|(?=\.|$))")
        except (re.error, RecursionError, OverflowError):
            pass
    what = f"by a pattern that hf-lineage cannot read: {printable(entry, 200)}; write their names instead"
    raise NothingToCompare(f"config.json leaves modules out of the quantization {what}")


def settings(config: Mapping[str, Any]) -> Settings:
    """Return the settings of the quantization in `config.json`; empty where it has none that are known."""
    stated, of_mlx = config.get("quantization_config") or config.get("compression_config"), config.get("quantization")
    stated = stated if isinstance(stated, dict) else {}
    return of_mlx if of_mlx and isinstance(of_mlx, dict) and not stated.get("quant_method") else stated


def method(config: Mapping[str, Any]) -> str:
    """Return the name of the quantization in `config.json`, `mlx` for one without a name, empty if there is none."""
    stated = settings(config)
    if stated.get("load_in_4bit") or stated.get("load_in_8bit"):
        return "bitsandbytes"
    name = stated.get("quant_method", "mlx" if {"bits", "group_size"} <= stated.keys() else "")
    return name.lower() if isinstance(name, str) else ""


def count(stated: Settings, key: str, default: int | None = None) -> int:
    """Return a positive number of the settings, or -1; raise CheckpointError for anything else."""
    value = stated.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not (value == -1 or 1 <= value < 2**31):
        raise CheckpointError(f"config.json: `{key}` must be a positive integer, not {printable(repr(value), 50)}")
    return value


def pair(value: Any) -> tuple[int, int] | None:
    """Return two positive integers of the settings; None for anything else."""
    fits = isinstance(value, list) and len(value) == 2 and all(type(size) is int and size > 0 for size in value)
    return (value[0], value[1]) if fits else None


@dataclass(frozen=True)
class Module:
    """The stored tensors of one quantized matrix, by the ends of their names."""

    start: str  # the common beginning of their names
    parts: Mapping[str, StoredTensor]
    first_parts: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # read from the first matrix alike

    def name(self, end: str) -> str:
        """Return the name of a part as messages show it."""
        return printable(f"{self.start}{end}", 200)

    def shape(self, end: str, dtypes: frozenset[str], shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return the shape of a part; raise CheckpointError if it is missing or is not as the format asks."""
        part, name = self.parts.get(end), self.name(end)
        if part is None:
            other = self.name(next(iter(self.parts)))
            raise CheckpointError(f"{name} is missing, and {other} cannot be decoded without it; have it saved again")
        if part.dtype not in dtypes:
            needs = " or ".join(sorted(dtypes))
            raise CheckpointError(f"{name} is stored as {part.dtype}, but its format needs {needs}")
        if shape is not None and part.shape != shape:
            raise CheckpointError(f"{name} has shape {part.shape}, but the rest of its matrix needs {shape}")
        return part.shape

    def matrix(self, end: str, dtypes: frozenset[str]) -> tuple[int, int]:
        """Return the shape of a part that is a matrix; raise as `shape` does."""
        shape = self.shape(end, dtypes)
        if len(shape) != 2 or 0 in shape:
            raise CheckpointError(f"{self.name(end)} has shape {shape}, which is not the shape of a matrix")
        return shape[0], shape[1]

    def read(self, ends: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return the small parts with these ends as they are stored; raise CheckpointError where one cannot be read."""
        content = {}
        for end in ends:
            try:
                content[end] = self.parts[end].read(Memory())
            except (OSError, KeyError) as error:
                what = f"{self.name(end)} cannot be read: {error}"
                raise CheckpointError(f"{what}; check that nothing changes the file") from None
        return content

    def tensor(
        self, shape: tuple[int, ...], ends: Iterable[str], decode: Decode, codes: Codes | str, itemsize: int = 4
    ) -> TensorInfo:
        """Return the tensor of this shape that is decoded from the parts with these ends."""
        return TensorInfo(shape, tuple(f"{self.start}{end}" for end in ends), decode, itemsize, codes=codes)

    def make_error(self, what: str) -> CheckpointError:
        """Return an error about this matrix."""
        return CheckpointError(f"{self.name('')} {what}; have the weights saved again")


@dataclass(frozen=True)
class Format:
    """A format in which every quantized matrix is stored as several tensors, whose names begin alike."""

    name: str
    methods: frozenset[str]  # the names by which `quant_method` of config.json calls it
    mark: tuple[str, ...]  # ends of names; every quantized matrix has a tensor with one of them
    ends: tuple[str, ...]  # the ends of the names of all tensors of a matrix, those that are not needed among them
    decoded: Callable[[Module, Settings], TensorInfo]
    describing_ends: tuple[str, ...] = ()  # ends of small parts that have to be read before anything is known of others
    inert: tuple[str, ...] = ()  # the ends of parts that say only what the other parts show by themselves
    target: str = ".weight"  # the end of the name of the matrix itself
    stacked: tuple[str, ...] = ()  # ends of names beside a stack of matrices, which has no end of its own
    linear: bool = False  # whether matrices are stored as (out, in), also those that their class has as (in, out)
    alone: bool = False  # whether no other format has such names, so that `config.json` need not name it

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether `config.json` names this format, if it has to, and some matrix is stored in it."""
        return (self.alone or method(config) in self.methods) and any(True for _ in self._modules(stored))

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every tensor of the model, the quantized ones first; raise where parts do not fit or come twice."""
        stated, used, tensors = settings(config), set[str](), dict[str, TensorInfo]()
        skipped, first = left_out(stated), dict[Kind, Mapping[str, NDArray[Any]]]()
        for module in self._modules(stored):
            name = module.start if "" in module.parts else f"{module.start}{self.target}"
            if skipped(module.start):
                what = f"is stored as {self.name}, but config.json leaves it out of the quantization"
                raise Ambiguous(
                    f"{printable(name, 200)} {what}: loaders disagree on how to read it; make the two agree"
                )
            describing, kind = [end for end in self.describing_ends if end in module.parts], self._kind(module)
            if large := [end for end in describing if module.parts[end].size > 2**12]:
                what = f"{module.name(large[0])} takes {module.parts[large[0]].size} bytes"
                raise CheckpointError(f"{what}, too many for a description; have it saved again")
            if kind not in first:
                first[kind] = module.read(describing)
            module = replace(module, first_parts=first[kind])
            tensors[name] = replace(self.decoded(module, stated), linear=self.linear)
            used |= {*tensors[name].parts, *(f"{module.start}{end}" for end in (*self.describing_ends, *self.inert))}
        rest = {name: tensor for name, tensor in stored.items() if name not in used}
        for name, tensor in rest.items():
            if name in tensors:
                what = f"{printable(name, 200)} is stored in two ways, once as {self.name}"
                raise Ambiguous(f"{what}: loaders disagree on which one to use; remove one of them")
            if tensor.dtype in CAST:
                what = f"{printable(name, 200)} is stored as {tensor.dtype} without its scales"
                raise CheckpointError(f"{what}; have it saved again")
        return tensors | plain_tensors(rest)

    def first_read(self, stored: Mapping[str, StoredTensor]) -> list[str]:
        """Return the names of the stored tensors whose bytes `tensors` reads."""
        kinds: dict[Kind, Module] = {}  # the first matrix of each: one of each layer's, where the layers are alike
        for module in self._modules(stored) if self.describing_ends else ():
            kinds.setdefault(self._kind(module), module)
        modules = kinds.values()
        return [f"{module.start}{end}" for module in modules for end in self.describing_ends if end in module.parts]

    def _kind(self, module: Module) -> Kind:
        shapes = frozenset((end, part.shape) for end, part in module.parts.items() if end not in self.describing_ends)
        return re.sub(r"[0-9]+", "#", module.start), shapes

    def _modules(self, stored: Mapping[str, StoredTensor]) -> Iterator[Module]:
        marks = (*self.mark, *self.stacked)
        marked = ((name, mark) for name in stored if (mark := next(filter(name.endswith, marks), None)))
        for name, mark in {name.removesuffix(mark): mark for name, mark in marked}.items():
            if mark in self.stacked and name not in stored:
                continue
            ends = (mark, "") if mark in self.stacked else (mark, *self.mark, *self.ends)
            parts = {end: stored[f"{name}{end}"] for end in ends if f"{name}{end}" in stored}
            if any(part.dtype not in FLOATS for part in parts.values()):
                yield Module(name, parts)
