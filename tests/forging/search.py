"""Search: cases of one class after the other, each judged if the part in question does nothing."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import Factorization
from hf_lineage.errors import LineageError
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, required
from tests.decoys import made
from tests.forging.kinds import KINDS, TURNS
from tests.forging.outputs import AT_WORK, EXACT, IDLE, SAME, moved, run, said_of, swap
from tests.forging.subject import FORMATS, Case, Subject
from tests.models import WEIGHTS

MEMORY = Path("/dev/shm")  # a file system in memory, where there is one


class Outcome(NamedTuple):
    said: str  # what was done
    came: str  # whether it loads, what the part does, or what is said of one that does nothing
    fooled: bool = False


def classes() -> Iterator[tuple[Factorization, str]]:
    """Every class of transformers that the registry lists, one of each factorization after the other."""
    known = [(listed, [name for name in listed.classes if name in known_classes()]) for listed in factorizations()]
    for turn in range(max(len(names) for _, names in known)):
        yield from ((listed, names[turn]) for listed, names in known if turn < len(names))


@contextmanager
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
