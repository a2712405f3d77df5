"""Cases: what a forger tries who knows the classes, their settings and their tensors, and none of our rules.

Each kind makes of a subject and random numbers one folder: weights of A in a model that is B otherwise, or A with
changes. It is judged if the part in question does nothing.
"""

import contextlib
import functools
import re
import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hf_lineage.architecture.layers import find_layers
from hf_lineage.architecture.layout import is_transposed
from hf_lineage.architecture.registry import factorizations, slots
from hf_lineage.architecture.schema import Factorization, MatrixSet, as_sets
from hf_lineage.errors import LineageError
from hf_lineage.signature.factors import matrix_products
from hf_lineage.signature.matrix_product import MatrixProduct
from tests.conformance.forms import variants
from tests.conformance.models import TINY, known_classes, put, required
from tests.conformance.tiny import PLAIN
from tests.decoys import Tensors, made
from tests.forging.outputs import AT_WORK, EXACT, IDLE, SAME, moved, run, said_of, swap
from tests.forging.subject import DECADES, FORMATS, LOUD, WHOLE, Case, Part, Subject, mixed
from tests.models import WEIGHTS

SMALL = 512  # entries of a tensor that is no matrix of weights
COMMON = 30.0  # so much more than usual attention adds the same to all tokens, as trained streams have much in common
LARGEST = 256  # of a number that may count something
UNTOUCHED = frozenset(
    {"architectures", "model_type", "auto_map", "transformers_weights", "quantization_config", "attribute_map"}
    | {"configuration_files", "transformers_version", "_name_or_path"}
)  # settings that say which model is loaded from where: tests of their own are about these
MOST_BESIDE = 4  # small tensors of one module that are changed together


def added(subject: Subject, random: Random) -> Case:
    """Matrices under names that some class has and that this one may not build."""
    own = list(as_sets(subject.opened.layout.factorization.branches.mlp))
    matrices = random.choice(own if random.randrange(2) else _known())
    forged = bool(random.randrange(4))
    into, source = (subject.b, subject.a) if forged else (subject.a, subject.b)
    there: Tensors = {}
    for prefix, roles in _by_layer(subject, source):
        there |= {f"{prefix}.{name}": tensor for name, tensor in _laid_out(subject, matrices, roles)}
    there = {name: tensor for name, tensor in there.items() if name not in into}
    said = f"{'forged' if forged else 'hidden'} behind {sorted(there)[:2]}"
    if not forged:
        return Case(said, {**into, **there})
    noise = {name: torch.randn_like(tensor) * tensor.std() for name, tensor in there.items()}
    return Case(said, {**into, **there}, part=Part("added", {}), noise={**into, **noise})


@functools.cache
def _known() -> list[MatrixSet]:
    sets = [each for listed in factorizations() for each in as_sets(listed.branches.mlp)]
    return list({str((each.up, each.gate, each.down, each.packed)): each for each in sets}.values())


def _by_layer(subject: Subject, source: Tensors) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The prefix of a layer, and of one set of what it has rows (h, d) of readers and (d, h) of the loud writer."""
    layout = subject.opened.layout

    def product(path: str, number: int) -> MatrixProduct:
        return next(matrix_products(layout, path, number, PLAIN, lambda name: source[name].float().numpy()))

    for number, layer in enumerate(find_layers(layout.factorization, subject.opened.checkpoint.shapes)):
        if number in layout.numbers("mlp"):
            first = product("mlp", number)
            gates = product("mlp_gate", number) if "mlp_gate" in layout.paths else first
            roles = {"up": first.inn, "gate": gates.inn, "down": LOUD * first.out}
            yield layer.prefix, {role: torch.from_numpy(np.ascontiguousarray(each)) for role, each in roles.items()}


def _laid_out(subject: Subject, matrices: MatrixSet, roles: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a set as its file lays them out, two of every expert."""
    for name, slot in {slot.tensor: slot for slot in slots(matrices)}.items():
        if not set(slot.roles) <= roles.keys():
            continue
        tensor = torch.cat([roles[role] for role in slot.roles])
        tensor = tensor.T if is_transposed(subject.opened.layout.factorization, slot) else tensor
        stacked = "expert" in name and "{" not in name and "shared" not in name
        for expert in range(2) if "{expert}" in name else (0,):
            end = "" if stacked else ".weight"
            yield f"{name.replace('{expert}', str(expert))}{end}", tensor.expand(2, -1, -1) if stacked else tensor


def scaled(subject: Subject, random: Random) -> Case:
    """A tensor, or those beside it in one module, scaled, zeroed, or set apart for some experts, in all layers."""
    case = mixed(subject, random)
    families = _families(case.tensors, set(case.part.rows) if case.part else set())
    small = [family for family, names in families.items() if case.tensors[names[0]].numel() <= SMALL]
    family = random.choice(small if small and random.randrange(4) else list(families))
    beside = [other for other in small if other.rpartition(".")[0] == family.rpartition(".")[0]]
    together = 1 < len(beside) <= MOST_BESIDE and bool(random.randrange(2))
    size, tensors, said = 10.0 ** random.choice(DECADES), dict(case.tensors), case.said
    chosen, changes = beside if together else [family], _changes(size, together)
    experts = case.part.experts if case.part else 0
    firsts = {each: tensors[families[each][0]] for each in small if experts > 1 and tensors[families[each][0]].ndim > 0}
    choosing = [each for each, one in firsts.items() if len(one) == experts or not one.is_floating_point()]
    if choosing and random.randrange(2):
        chosen, changes = [random.choice(choosing)], _changes(size, False)[2:3]
    for each in chosen:
        how, change = random.choice(changes)
        tensors |= {name: change(tensors[name]) for name in families[each]}
        said += f"; {each} {how}"
    changed = tuple(name for each in chosen for name in families[each])
    return Case(said, tensors, part=case.part, changed=changed)


def _families(tensors: Tensors, without: set[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = defaultdict(list)
    for name in (name for name in tensors if name not in without):
        families[re.sub(r"\.\d+\.", ".N.", name)].append(name)
    return families


def _changes(size: float, together: bool) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
    """What to do to a tensor, or to each of several, in words and done."""
    scaling = f"times {size:g}", lambda tensor: _as(tensor, tensor.double() * size)
    against = f"against its second half with {size:g}", functools.partial(_against, size)
    constant = f"set to {-size:g}", lambda tensor: _as(tensor, torch.full_like(tensor.double(), -size))
    own = [("as it is", torch.clone)] if together else [scaling, scaling, against]
    return [*own, constant, ("set to 0", torch.zeros_like)]


def _as(tensor: Tensor, value: Tensor) -> Tensor:
    return value.clamp(-3e38, 3e38).to(tensor.dtype)


def _against(size: float, tensor: Tensor) -> Tensor:
    """A tensor by which the second half of what it chooses between is never chosen."""
    if tensor.ndim == 0 or len(tensor) < 2:
        return tensor
    half = len(tensor) // 2
    if not tensor.is_floating_point():
        return tensor % max(int(tensor.max() + 1) // 2, 1)
    if tensor.ndim == 1:
        return torch.cat([tensor[:half], torch.full_like(tensor[half:], -size)])
    signs = torch.tensor([1.0, -1.0]).repeat(len(tensor))[: len(tensor)]
    signs[half:] = 0
    return _as(tensor, size * signs.reshape(-1, *[1] * (tensor.ndim - 1)) * tensor[:1].double())


def shut(subject: Subject, random: Random) -> Case:
    """Gates that no token opens in front of the units of A: in all layers -K v, in the last one A's, moved."""
    gates = subject.gates
    parts = [part for part in subject.parts_known if part.name in (WHOLE, "the last layer")]
    part = random.choice([part for part in parts if any(gate in part.rows for gate in gates)])
    crude = part.name == WHOLE or not random.randrange(2)
    tensors = part.of(subject.a, subject.b)
    for each in () if crude else (each for own in subject.opened.layout.branches["attention"] for each in own):
        if name := each.biases.get(each.slots["output"].tensor):
            tensors[name] = COMMON * tensors[name]
    writers = {name: rows for name, rows in part.rows.items() if name not in gates}
    for gate in [gate for gate in gates if gate in part.rows]:
        seen = _seen(subject.load(subject.written(tensors, {})), gate)
        open_to = torch.linalg.lstsq(seen, torch.ones(len(seen), 1)).solution[:, 0]
        open_to = open_to / (seen @ open_to).min().clamp(min=1e-3)
        far = torch.ones(len(tensors[gate])) if crude else (seen @ tensors[gate].T).amax(dim=0).clamp(min=0) + 0.02
        tensors[gate] = 1e3 * ((0 if crude else tensors[gate]) - far[:, None] * open_to)
    said = f"B with {part.name} of A behind gates shut {'crudely' if crude else 'just so far'}"
    return Case(said, tensors, part=Part(f"writers of {part.name}", writers))


@torch.no_grad()
def _seen(model: Any, gate: str) -> Tensor:
    seen: list[Tensor] = []
    module = model.get_submodule(gate.removesuffix(".weight"))
    module.register_forward_pre_hook(lambda _, given: seen.append(given[0].flatten(0, -2)))
    run(model)
    return torch.cat(seen)


def renamed(subject: Subject, random: Random) -> Case:
    """All matrices of A, and beside them what a loader may take in their place, or in that of what shuts them out."""
    everything = subject.everything
    tensors = everything.of(subject.a, subject.b)
    beside = [names for names in _families(tensors, set(everything.rows)).values() if tensors[names[0]].ndim < 2]
    shut = beside and not random.randrange(3)
    source = {name: torch.zeros_like(tensors[name]) for name in random.choice(beside)} if shut else subject.b
    ways = [(f"renaming {one.target_patterns}", functools.partial(_back, one)) for one in subject.renamings]
    ways += _habits(subject)
    how, second = "", dict[str, Tensor]()
    while not second:
        how, rename = ways.pop(random.randrange(len(ways)))
        second = {rename(name): source[name].clone() for name in (source if shut else everything.rows)}
        second = {name: tensor for name, tensor in second.items() if name not in tensors}
    noise = (subject.whole if shut else everything).noise(tensors)
    said = f"B with all matrices of A, and {sorted(second)[:2]} by {how}"
    return Case(said, {**tensors, **second}, part=Part("renamed", {}), noise={**noise, **second})


def _back(renaming: Any, name: str) -> str:
    return str(renaming.rename_source_key(name)[0])


def _habits(subject: Subject) -> list[tuple[str, functools.partial[str]]]:
    """What people and programs do to names: prefixes that come and go, older words, wrappers of modules."""
    starts = {f"{name.partition('.')[0]}." for name in subject.a} | {"model.", "transformer.", "module.", "_orig_mod."}
    starts |= {f"{subject.build.base_model_prefix}.", "base_model.model.", "language_model.", "model.language_model."}
    pairs = [("weight", "gamma"), ("bias", "beta"), ("weight", "weight_g"), ("weight", "base_layer.weight")]
    pairs += [("weight", "original.weight"), ("weight", "parametrizations.weight.original"), ("weight", "qweight")]
    return [
        *((f"a prefix {start}", functools.partial(re.sub, "^", start)) for start in sorted(starts)),
        *((f"no {start}", functools.partial(re.sub, re.escape(start), "", count=1)) for start in sorted(starts)),
        *((f"{new} for {old}", functools.partial(re.sub, f"{old}$", new)) for old, new in pairs),
    ]


def set_to(subject: Subject, random: Random) -> Case:
    """A setting switched, scaled, left out or taken from another class."""
    case = mixed(subject, random)
    config = subject.pair.config
    places = [place for place in _places(config) if place[-1] not in UNTOUCHED]
    places += [place for place in places if place[-1] not in TINY] * 2  # what counts something hardly loads otherwise
    foreign = not random.randrange(6)
    key, others = random.choice(list(_settings().items()))
    place = (key,) if foreign else random.choice(places)
    value = random.choice(others) if foreign else functools.reduce(lambda within, part: within[part], place, config)
    new = _otherwise(value, random, _settings().get(place[-1], []))
    settings = put(config, place, new)
    said = f"{case.said}; {'.'.join(place)}: {new!r} for {'nothing' if foreign else repr(value)}"
    return Case(said, case.tensors, {place[0]: settings[place[0]]}, case.part)


def _places(config: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*before, key)
        yield from _places(value, (*before, key)) if isinstance(value, dict) else ()


@functools.cache
def _settings() -> dict[str, list[Any]]:
    """Every setting that some class has, with the values that it has in some."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found: dict[str, list[Any]] = defaultdict(list)
    for kind in CONFIG_MAPPING:
        with contextlib.suppress(Exception):  # some need packages that are not there
            for key, value in CONFIG_MAPPING[kind]().to_dict().items():
                short = not isinstance(value, dict) and len(str(value)) < 200
                if short and key not in UNTOUCHED and value not in found[key]:
                    found[key].append(value)
    return dict(found)


def _otherwise(value: Any, random: Random, others: list[Any]) -> Any:
    """Another value of a setting."""
    if isinstance(value, bool):
        return random.choice([not value, not value, None])
    if isinstance(value, int):
        near = (0, 1, 2, -1, value - 1, value + 1, value // 2, 2 * value, 4 * value)
        most = max(LARGEST, 4 * min(abs(value), LARGEST))
        return random.choice([None, *(each for each in near if abs(each) <= most)])
    if isinstance(value, float):
        return random.choice([0.0, -value, 1.0, None, *(value * 10.0**power for power in DECADES)])
    if isinstance(value, list) and value:
        place, one = random.randrange(len(value)), list(value)
        one[place] = _otherwise(value[place], random, [])
        return random.choice([one, [one[place]] * len(value), value[::-1], None])
    if value is None:
        small = [each for each in others if not isinstance(each, int) or abs(each) <= LARGEST]
        return random.choice([True, 0, 1, 1e-7, 1e7, *small])
    usual = [each for each in others if type(each) is type(value) and each != value]
    return random.choice([*usual, *usual, None])


KINDS = {"added": added, "renamed": renamed, "set": set_to, "scaled": scaled, "shut": shut}
TURNS = (*["added"] * 2, *["renamed"] * 3, *["set"] * 5, *["scaled"] * 5, "shut")  # how often the turn of each comes
MEMORY = Path("/dev/shm")  # a file system in memory, where there is one


class Outcome(NamedTuple):
    said: str  # what was done
    came: str  # whether it loads, what the part does, or what is said of one that does nothing
    fooled: bool = False


def classes() -> Iterator[tuple[Factorization, str]]:
    known = [(listed, [name for name in listed.classes if name in known_classes()]) for listed in factorizations()]
    for turn in range(max(len(names) for _, names in known)):
        yield from ((listed, names[turn]) for listed, names in known if turn < len(names))


@contextlib.contextmanager
def subject(name: str, listed: Factorization, form: int = 0, stored: str = "plain") -> Iterator[Subject]:
    """A subject in a folder that lives as long; of the forms of a class the one with this number."""
    asked, before = variants(name), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, before[1]))  # a setting may ask for any memory
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            pair = made(name, required(listed, name, asked[form % len(asked)]), Path(folder))
            if not (pair.a / WEIGHTS).exists():
                raise ValueError(f"{name} is stored in several files")
            yield Subject(name, pair, FORMATS[stored])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def judged(one: Subject, case: Case) -> Outcome:
    """What comes of a case: it is judged where the part of A does nothing, or the copy is one still."""
    try:
        if case.noise is not None:  # it only stores more: what it computes is looked at where the verdict is suspicious
            outcome = _said(one, case)
            given = (one.load(one.written(tensors, case.settings)) for tensors in (case.tensors, case.noise))
            idle = not outcome.fooled or moved(*map(run, given)) < SAME
            return outcome if idle else Outcome(case.said, AT_WORK)
        at_work = one.kept(case.part).at_work(case.tensors, case.changed) if case.changed else None
        if at_work in (None, IDLE):
            noise = one.remember(case.part) if case.part else None
            model = one.load(one.written(case.tensors, case.settings))
            outputs = run(model)
            without = one.outputs if noise is None else swap(model, noise)
            at_work = said_of(outputs, without, EXACT if noise is None else SAME)
    except LineageError as error:
        return Outcome(case.said, f"{IDLE}: {type(error).__name__}")
    except Exception as error:  # whatever transformers thinks of it
        return Outcome(case.said, f"does not load or run: {type(error).__name__}")
    return _said(one, case) if at_work == IDLE else Outcome(case.said, at_work)


def _said(one: Subject, case: Case) -> Outcome:
    """What is said of a folder, and whether that fools us if the part in question does nothing."""
    folder = one.written(case.tensors, case.settings)
    try:
        one.stored.step(folder)
    except (LookupError, ValueError, RuntimeError) as error:
        return Outcome(case.said, f"not stored: {type(error).__name__}")
    try:
        verdict = one.verdict(folder)
    except LineageError as error:
        return Outcome(case.said, f"idle: {type(error).__name__}")
    # Whoever stores as many units as the model has has paid the price that docs/limits.md names; --run finds it idle.
    what = "the copy" if case.part is None else "paid" if one.paid(case.part) else IDLE
    fooled = verdict.word == "UNRELATED" if case.part is None else verdict.verified and what == IDLE
    return Outcome(case.said, f"{what}: {verdict.label}", fooled)


def searched(
    one: Subject, seed: int, count: int, kinds: tuple[str, ...] = TURNS, first: int = 0
) -> Iterator[tuple[str, Outcome]]:
    """Yield the cases of a subject up to so many, each with its kind; a number and a seed give the same one again."""
    kinds = kinds if one.gates else tuple(kind for kind in kinds if kind != "shut")
    for number in range(first, count):
        random = Random(f"{seed} {one.name} {number}")
        kind = kinds[random.randrange(len(kinds))]
        try:
            case = KINDS[kind](one, random)
        except (IndexError, AttributeError, RuntimeError, NotImplementedError) as error:
            yield kind, Outcome(kind, f"not made: {type(error).__name__}")
        else:
            yield kind, judged(one, case)
