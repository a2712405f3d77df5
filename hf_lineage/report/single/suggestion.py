"""How a model fits the registry, as text and as JSON: the factorizations that fit, near misses, and a draft."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from hf_lineage.architecture.drafting import Draft, Fit, Miss, Suggestion
from hf_lineage.errors import printable
from hf_lineage.report.formats import wrapped
from hf_lineage.report.words import indented

SHOWN = 6
"""How many names a line holds."""
FITTING = 12
"""How many factorizations are shown that fit."""
LISTED = 100
"""How many names a list in JSON holds."""
NO_PROOF = (
    "Names and shapes do not show what is computed: a class is added after `pytest tests/test_conformance.py -k "
    "CLASS` proves it, and your own file after `hf-lineage registry --prove DIR MODEL` does. registry/README.md "
    "explains how."
)


def text(suggestion: Suggestion) -> str:
    """Return the fits, the near misses and, last, the draft as it could stand in a file."""
    return "\n".join(_blocks(suggestion)) + "\n"


def json(suggestion: Suggestion) -> str:
    """Return the same as JSON; of very many names the first, and how many there are."""
    plain = asdict(suggestion) | {"model": printable(suggestion.model), "classes": _escaped(suggestion.classes)}
    for fit in plain["fits"]:
        fit |= {"unread": _escaped(fit["unread"]), "unread_count": len(fit["unread"])}
    return indented(plain)


SUGGESTIONS: dict[str, Callable[[Suggestion], str]] = {"text": text, "json": json}


def _blocks(suggestion: Suggestion) -> Iterator[str]:
    yield wrapped(f"{printable(suggestion.model, 200)}: {_standing(suggestion)}.")
    yield _list("Names and shapes fit", [(fit.factorization, _left(fit)) for fit in suggestion.fits])
    yield _list("Near misses", [(miss.factorization, _missed(miss)) for miss in suggestion.misses])
    yield wrapped(NO_PROOF)
    if not suggestion.layers:
        yield wrapped("No draft: no tensors are numbered like layers, from 0 and without a gap.")
    if suggestion.draft is not None:
        yield wrapped(_promise(suggestion.draft))
        yield f"\n{suggestion.draft.text.rstrip()}"


def _list(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A line for each file, the next ones indented."""
    lines = [wrapped(f"- {name}.yaml: {finding}") for name, finding in rows[:FITTING]]
    more = [f"- and {len(rows) - FITTING} more"] if len(rows) > FITTING else []
    return "\n".join([f"\n{title}:", *(lines or ["- none"]), *more]) + ("\n" if title.startswith("Near") else "")


def _promise(draft: Draft) -> str:
    if draft.problem:
        return f"The draft below loads but does not fit yet: {printable(draft.problem, 500)}"
    return "The draft below loads and fits this model. Everything else in it is a guess:"


def _standing(suggestion: Suggestion) -> str:
    """Where the classes stand in the registry."""
    files = ", ".join(f"{name}.yaml" for name in suggestion.listed)
    fitting = [fit.factorization for fit in suggestion.fits if fit.factorization in suggestion.listed]
    if not suggestion.classes:
        return "config.json names no class under `architectures`"
    classes = printable(", ".join(suggestion.classes), 200)
    if fitting:
        return f"{classes} is listed already, in {files}, and {fitting[0]}.yaml fits; there is nothing to add"
    if files:
        return f"{classes} is listed already, in {files}, but this model does not fit"
    remote = (
        "; it is remote code (auto_map), which is never run, so it cannot be proved" if suggestion.remote_code else ""
    )
    return f"{classes} is in no file of the registry{remote}"


def _left(fit: Fit) -> str:
    return f"does not read {_shortened(fit.unread)}" if fit.unread else "reads everything"


def _missed(miss: Miss) -> str:
    reasons = [f"the layers are {miss.layers}"] if miss.layers else []
    reasons += [f"there is no {_shortened(miss.missing)}"] if miss.missing else []
    reasons += [printable(miss.problem, 300)] if miss.problem else []
    return f"{miss.names - len(miss.missing)} of {miss.names} names; {'; '.join(reasons)}"


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name, 100) for name in names[:SHOWN]) + more


def _escaped(names: Sequence[str]) -> list[str]:
    return [printable(name, 200) for name in names[:LISTED]]
