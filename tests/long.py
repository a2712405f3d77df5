"""Long tests: of several cases that show the same `make test` runs the first, and `make test-long` the others."""

from collections.abc import Iterable, Mapping
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
