"""How many of the classes of transformers the registry covers, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from hf_lineage.architecture.drafting import Coverage
from hf_lineage.report.formats import wrapped
from hf_lineage.report.words import indented


def text(coverage: Coverage) -> str:
    """Return the numbers, then the classes that are not covered and why, then those not reviewed yet."""
    return "\n".join(_blocks(coverage)) + "\n"


def json(coverage: Coverage) -> str:
    """Return the same as JSON."""
    return indented(asdict(coverage) | {"share": coverage.share})


COVERAGES: dict[str, Callable[[Coverage], str]] = {"text": text, "json": json}


def _blocks(coverage: Coverage) -> Iterator[str]:
    yield wrapped(counted(coverage))
    if coverage.unsupported:
        yield "\nNot covered:"
    for reason in dict.fromkeys(coverage.unsupported.values()):
        classes = (name for name, why in coverage.unsupported.items() if why == reason)
        yield wrapped(f"- {', '.join(classes)}: {reason}")
    if coverage.unknown:
        yield "\n" + wrapped(f"Not reviewed yet: {', '.join(coverage.unknown)}.")


def counted(coverage: Coverage) -> str:
    """Return the numbers in a sentence."""
    everything = len(coverage.listed) + len(coverage.unsupported) + len(coverage.unknown)
    return (
        f"The registry covers {len(coverage.listed)} of the {everything} classes of causal language models in "
        f"transformers {coverage.version} ({coverage.share:.1%}), each proved on the real module by "
        "tests/test_conformance.py."
    )
