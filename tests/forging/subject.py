"""Subject: two independent tiny models of a class, what of the one may stand in the other, and what both compute."""

import functools
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch

from hf_lineage import Options
from hf_lineage.architecture.layers import LayerSet
from hf_lineage.checking.check import comparing
from hf_lineage.checkpoint.gguf.form import _table
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import resolve
from hf_lineage.source.headers import Headers, headers
from tests import gguf_models
from tests.conformance.models import transformers
from tests.decoys import Pair, Tensors, loaded
from tests.forging.outputs import AT_WORK, EXACT, Outputs, run, said_of, swap
from tests.published.steps import STEPS, apart
from tests.tensors.names import renamers

WHOLE = "all MLPs"
LOUD = 30.0  # how much louder a part of a model is written than it was, so that it outweighs what else there is


class Format(NamedTuple):
    """How the folder of a case is stored anew, as people publish it, before it is judged."""

    step: Callable[[Path], object]
    kinds: tuple[str, ...] = ()  # of the cases that it can hold; all by default
    classes: frozenset[str] | None = None  # that it can hold; None for all


def _as_gguf(kind: str) -> Format:
    names = {entry.name: architecture for architecture, entry in _table().architectures.items()}

    def change(folder: Path) -> None:
        plain = apart(folder)
        (name,) = json.loads((plain / "config.json").read_text())["architectures"]
        gguf_models.write(plain, folder / "model.gguf", names[name], getattr(gguf_models.KINDS, kind))
        shutil.rmtree(plain)

    # A converter knows the names of a class and writes few of its settings, so that other kinds would leave nothing.
    return Format(change, ("scaled", "shut"), frozenset(names))


FORMATS: dict[str, Format] = {
    "plain": Format(lambda _: None),
    "gguf": _as_gguf("F32"),
    "gguf_eight_bits": _as_gguf("Q8_0"),
    **{name: Format(STEPS[name]) for name in ("awq", "bnb_eight_bits", "bnb_four_bits", "fp8", "gptq", "torchao")},
}  # by the name that `--stored` takes


@dataclass(frozen=True)
class Part:
    """Matrices of a model: by the name on disk which of the rows, or of the experts stacked there, belong to it."""

    name: str
    rows: Mapping[str, slice]
    loud: frozenset[str] = frozenset()  # those that are written louder than they were
    experts: int = 0  # of how many experts it is half

    @property
    def key(self) -> str:
        return f"{self.name} {sorted(self.rows)[:1]} {len(self.rows)}"

    def of(self, theirs: Tensors, own: Tensors) -> Tensors:
        mixed = dict(own)
        for name, rows in self.rows.items():
            mixed[name] = own[name].clone()
            mixed[name][rows] = theirs[name][rows] * (LOUD if name in self.loud else 1)
        return mixed

    def noise(self, own: Tensors) -> Tensors:
        """The same with noise of the same size."""
        generator, theirs = torch.Generator().manual_seed(9), dict(own)
        for name in self.rows:
            drawn = torch.randn(own[name].shape, generator=generator)
            theirs[name] = (drawn * own[name].float().std()).to(own[name].dtype)
        return Part(self.name, self.rows).of(theirs, own)


@dataclass
class Kept:
    """A model in memory, some of whose tensors are changed for a moment; it is not loaded anew for each case."""

    model: Any
    before: Tensors  # its tensors on disk
    noise: Tensors | None  # what stands in memory in place of the part of A; None: all of the model is A

    def __post_init__(self) -> None:
        self.state = self.model.state_dict()
        self.original = {name: tensor.clone() for name, tensor in self.state.items()}
        self.outputs = run(self.model)

    def at_work(self, tensors: Tensors, changed: tuple[str, ...]) -> str | None:
        """What the part does after some tensors changed; None where they are not found in memory as on disk."""
        if not all(name in self.original and torch.equal(self.original[name], self.before[name]) for name in changed):
            return None
        try:
            for name in changed:
                self.state[name].copy_(tensors[name])
            outputs = run(self.model)
            if self.noise is None:
                return said_of(outputs, self.outputs, EXACT)
            return said_of(outputs, swap(self.model, self.noise))
        finally:
            for name in {*changed, *(self.noise or ())}:
                self.state[name].copy_(self.original[name])


@dataclass
class Subject:
    """A class with two models of it: A is the base, B the independent one, with the gains and MLP biases of A."""

    name: str
    pair: Pair
    stored: Format

    def __post_init__(self) -> None:
        self.memory: dict[str, Tensors] = {}  # by part what of the state in memory belongs to it: noise in its place
        self.models: dict[str, Kept] = {}  # by part B with that part of A, in memory
        self.a, b = self.pair.tensors()
        self.build = getattr(transformers, self.name)
        sets = tuple(self.opened.layout.everything)
        norms = {name for each in sets for name in (each.norm, each.output_norm)}
        beside = {name for own in self.opened.layout.sets("mlp") for each in own for name in each.biases.values()}
        self.b = b | {name: self.a[name] for name in norms | beside if name in b}

    @functools.cached_property
    def opened(self) -> Headers:
        return headers(resolve(str(self.pair.a)))

    @functools.cached_property
    def outputs(self) -> Outputs:
        return run(self.load(self.pair.a))

    def written(self, tensors: Tensors, settings: dict[str, Any]) -> Path:
        for name in (self.pair.folder.name, "plain"):
            shutil.rmtree(self.pair.folder.with_name(name), ignore_errors=True)
        return self.pair.write(tensors, **settings)

    def load(self, folder: Path) -> Any:
        return loaded(folder, self.build)

    def kept(self, part: Part | None) -> Kept:
        """B with a part of A, or A, in memory."""
        if (key := part.key if part else "") not in self.models:
            tensors, noise = (part.of(self.a, self.b), self.remember(part)) if part else (self.a, None)
            self.models[key] = Kept(self.load(self.pair.write(tensors)), tensors, noise)
        return self.models[key]

    def verdict(self, folder: Path) -> Verdict:
        """What a comparison of A says of a folder, which has weights in one file that transformers loads."""
        found: Verdict = self._judge(str(folder), resolve(str(folder))).rows[0].verdict
        return found

    @functools.cached_property
    def _judge(self) -> Any:
        return comparing(str(self.pair.a), resolve(str(self.pair.a)), Options(permutations=999, recompute=True, seed=0))

    @functools.cached_property
    def parts_known(self) -> list[Part]:
        """The parts that do something where nothing is done to them: of others an idle one says nothing."""
        return [part for part in self.parts() if self.kept(part).at_work({}, ()) == AT_WORK]

    @property
    def alone(self) -> bool:
        return "attention" not in self.opened.layout.branches or not any(self.opened.layout.sets("value_output"))

    def paid(self, part: Part) -> bool:
        """Whether a part is half of the numbers along every path: the price that docs/limits.md names."""
        for branch in ("mlp",) if self.alone else ("mlp", "attention"):
            sets = (each for own in self.opened.layout.branches[branch] for each in own)
            names = {slot.tensor for each in sets for slot in each.slots.values()}
            taken = sum(self.a[name][part.rows[name]].numel() for name in names & part.rows.keys())
            if 2 * taken < sum(self.a[name].numel() for name in names):
                return False
        return True

    @functools.cached_property
    def gates(self) -> list[str]:
        """The tensors on disk that are gates and nothing else, each a module of its own, from the first layer on."""
        slots = [each.slots["gate"] for own in self.opened.layout.sets("mlp") for each in own if "gate" in each.slots]
        modules = {f"{name}.weight" for name, _ in self.load(self.pair.a).named_modules()}
        return [slot.tensor for slot in slots if slot.roles == ("gate",) and slot.tensor in modules]

    @functools.cached_property
    def renamings(self) -> list[Any]:
        return renamers(self.load(self.pair.a))[2]

    @property
    def everything(self) -> Part:
        return _part("all matrices", list(self.opened.layout.everything))

    @property
    def whole(self) -> Part:
        return _part(WHOLE, [each for own in self.opened.layout.sets("mlp") for each in own])

    def parts(self) -> Iterator[Part]:
        """What of a model may stand in another one: all matrices, MLPs, those of a kind, half the experts, a layer."""
        sets = [(number, each) for number, own in enumerate(self.opened.layout.sets("mlp")) for each in own]
        yield from (self.whole,) if self.alone else (self.everything, self.whole)
        kinds: dict[str, list[LayerSet]] = defaultdict(list)
        for _, each in sets:
            kinds[re.sub(r"\d+", "N", each.slots["down"].tensor)].append(each)
        if len(kinds) > 1:
            yield from (_part(kind, own, loud=True) for kind, own in kinds.items())
        experts = 1 + max((each.expert for _, each in sets), default=0)
        if experts > 1:
            half = [each for _, each in sets if each.expert >= experts // 2]
            yield replace(_part("half of the experts", half, loud=True), experts=experts)
        if stacked := [each for _, each in sets if each.stacked]:
            count = stacked[0].stacked[0]
            yield replace(_part("half of the experts", stacked, slice(count // 2, None), loud=True), experts=count)
        last = max((number for number, _ in sets), default=0)
        if len({number for number, _ in sets}) > 1:
            yield _part("the last layer", [each for number, each in sets if number == last], loud=True)

    def remember(self, part: Part) -> Tensors:
        """What of the state in memory belongs to a part: noise in its place, found by loading the model both ways."""
        if part.key not in self.memory:
            mixed = part.of(self.a, self.b)
            one, other = (self.load(self.pair.write(tensors)).state_dict() for tensors in (mixed, part.noise(mixed)))
            differ = {name: tensor.clone() for name, tensor in other.items() if not torch.equal(tensor, one[name])}
            self.memory[part.key] = differ
        return self.memory[part.key]


def _part(name: str, sets: list[LayerSet], rows: slice = slice(None), loud: bool = False) -> Part:
    """The matrices of some sets, those that write louder."""
    roles = [(role, slot) for each in sets for role, slot in each.slots.items()]
    writers = {slot.tensor for role, slot in roles if role == "down"}
    return Part(name, {slot.tensor: rows for _, slot in roles}, frozenset(writers if loud else ()))


DECADES = tuple(range(-7, 0)) + tuple(range(1, 8))  # by how many powers of ten something is scaled


@dataclass(frozen=True)
class Case:
    said: str  # what was done
    tensors: Tensors
    settings: dict[str, Any] = field(default_factory=dict)
    part: Part | None = None  # what of A stands in the model, which is B otherwise; None: the model is A, changed
    noise: Tensors | None = None  # what stands on disk in place of the part, where that is not to be found in memory
    changed: tuple[str, ...] = ()  # the tensors that were changed in B with the part of A, or in A, and nothing else


def mixed(subject: Subject, random: Random) -> Case:
    if not random.randrange(5) or not subject.parts_known:
        return Case("A", subject.a)
    part = random.choice(subject.parts_known)
    return Case(f"B with {part.name} of A", part.of(subject.a, subject.b), part=part)
