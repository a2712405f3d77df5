"""How much of transformers the registry covers, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from hf_lineage.coverage import Coverage
from hf_lineage.report.encoding import indented
from hf_lineage.report.text import wrapped


def text(found: Coverage) -> str:
    """Return the numbers, then what is left out with its reason, then what is new."""
    return "\n".join(_blocks(found)) + "\n"


def json(found: Coverage) -> str:
    """Return the same as JSON."""
    return indented(asdict(found) | {"share": found.share})


COVERAGES: dict[str, Callable[[Coverage], str]] = {"text": text, "json": json}


def _blocks(found: Coverage) -> Iterator[str]:
    yield wrapped(counted(found))
    if found.unsupported:
        yield "\nNot covered:"
    for reason in dict.fromkeys(found.unsupported.values()):
        classes = (name for name, said in found.unsupported.items() if said == reason)
        yield wrapped(f"- {', '.join(classes)}: {reason}")
    if found.unknown:
        yield "\n" + wrapped(f"Nobody has looked at these yet: {', '.join(found.unknown)}.")


def counted(found: Coverage) -> str:
    """Return the numbers in a sentence."""
    everything = len(found.listed) + len(found.unsupported) + len(found.unknown)
    return (
        f"The registry covers {len(found.listed)} of the {everything} classes of causal language models in "
        f"transformers {found.version} ({found.share:.1%}), each proved on the real module by "
        "tests/test_conformance.py."
    )
