"""What the registry could make of a model, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from hf_lineage.draft import Draft
from hf_lineage.errors import printable
from hf_lineage.report.encoding import indented
from hf_lineage.report.text import wrapped
from hf_lineage.suggestion import Fit, Miss, Suggestion

SHOWN = 6
"""How many names a line holds."""
FITTING = 12
"""How many factorizations are shown that fit."""
LISTED = 100
"""How many names a list in JSON holds."""
NO_PROOF = (
    "Names and shapes say nothing about what is computed: a class is added once "
    "`pytest tests/test_conformance.py -k CLASS` proves it. registry/README.md tells how."
)


def text(found: Suggestion) -> str:
    """Return the fits, the near misses and, last, the draft as it could stand in a file."""
    return "\n".join(_blocks(found)) + "\n"


def json(found: Suggestion) -> str:
    """Return the same as JSON; of very many names the first, and how many there are."""
    said = asdict(found) | {"model": printable(found.model), "classes": _escaped(found.classes)}
    for each in said["fits"]:
        each |= {"unread": _escaped(each["unread"]), "unread_count": len(each["unread"])}
    return indented(said)


SUGGESTIONS: dict[str, Callable[[Suggestion], str]] = {"text": text, "json": json}


def _blocks(found: Suggestion) -> Iterator[str]:
    yield wrapped(f"{printable(found.model, 200)}: {_standing(found)}.")
    yield _list("Names and shapes fit", [(fit.factorization, _left(fit)) for fit in found.fits])
    yield _list("Near misses", [(miss.factorization, _missed(miss)) for miss in found.misses])
    yield wrapped(NO_PROOF)
    if not found.layers:
        yield wrapped("No draft: no tensors are numbered like layers, from 0 and without a gap.")
    if found.draft is not None:
        yield wrapped(_promise(found.draft))
        yield f"\n{found.draft.text.rstrip()}"


def _list(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A line for each file, the next ones indented."""
    lines = [wrapped(f"- {name}.yaml: {said}") for name, said in rows[:FITTING]]
    more = [f"- and {len(rows) - FITTING} more"] if len(rows) > FITTING else []
    return "\n".join([f"\n{title}:", *(lines or ["- none"]), *more]) + ("\n" if title.startswith("Near") else "")


def _promise(draft: Draft) -> str:
    if draft.problem:
        return f"The draft below loads but does not bind yet: {printable(draft.problem, 500)}"
    return "The draft below loads and binds to this model. All else about it is a guess:"


def _standing(found: Suggestion) -> str:
    """Where the classes stand in the registry."""
    files = ", ".join(f"{name}.yaml" for name in found.listed)
    fitting = [fit.factorization for fit in found.fits if fit.factorization in found.listed]
    if not found.classes:
        return "config.json names no class under `architectures`"
    classes = printable(", ".join(found.classes), 200)
    if fitting:
        return f"{classes} is listed already, in {files}, and {fitting[0]}.yaml fits; there is nothing to add"
    if files:
        return f"{classes} is listed already, in {files}, but this model does not fit"
    remote = "; it is remote code (auto_map), which is never run, so it cannot be proved" if found.remote_code else ""
    return f"{classes} is in no file of the registry{remote}"


def _left(fit: Fit) -> str:
    return f"does not read {_shortened(fit.unread)}" if fit.unread else "reads everything"


def _missed(miss: Miss) -> str:
    said = [f"the layers are {miss.layers}"] if miss.layers else []
    said += [f"there is no {_shortened(miss.missing)}"] if miss.missing else []
    said += [printable(miss.problem, 300)] if miss.problem else []
    return f"{miss.names - len(miss.missing)} of {miss.names} names; {'; '.join(said)}"


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name, 100) for name in names[:SHOWN]) + more


def _escaped(names: Sequence[str]) -> list[str]:
    return [printable(name, 200) for name in names[:LISTED]]
