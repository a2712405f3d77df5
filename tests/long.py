"""Long tests: of several cases that show the same `make test` runs the first, and `make test-long` the others."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

LONG = pytest.mark.long


def first_of(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Cases as parameters, of which all but the first few are long tests; of a mapping the keys are the names.

    A tuple holds several parameters.
    """
    named = cases.items() if isinstance(cases, Mapping) else ((None, case) for case in cases)
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), id=name, marks=[LONG] if number >= count else [])
        for number, (name, case) in enumerate(named)
    ]


def first_with(cases: Iterable[dict[str, Any]], shown: Callable[[dict[str, Any]], set[str]]) -> list[Any]:
    """Cases that have a name, of which those are long tests that show nothing that none before them shows."""
    parameters, before = [], set[str]()
    for case in cases:
        parameters.append(pytest.param(case, id=case["name"], marks=[LONG] if shown(case) <= before else []))
        before |= shown(case)
    return parameters
