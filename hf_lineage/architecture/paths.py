"""Paths: ways through a layer, each M = Σ out @ inn with the roles of `out` (width, h) and `inn` (h, width).

Only the standard library is imported, since the command line names the paths.
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Path:
    """One path through a layer."""

    branch: str  # The branch of a registry file whose matrix sets it goes through
    writer: str  # The role that makes `out`: a matrix that writes into the stream or, as a query, reads it as well
    reader: str  # The role that makes `inn`
    bilinear: bool = False  # Whether both matrices read the stream

    @property
    def roles(self) -> tuple[str, str]:
        """The roles of the writer and of the reader."""
        return self.writer, self.reader


PATHS = {
    "mlp": Path("mlp", writer="down", reader="up"),
    "mlp_gate": Path("mlp", writer="down", reader="gate"),
    "value_output": Path("attention", writer="output", reader="value"),
    "query_key": Path("attention", writer="query", reader="key", bilinear=True),
}  # The canonical one first
ALL, USUAL = ("all",), ("usual",)
NAMED: dict[tuple[str, ...], tuple[str, ...]] = {ALL: tuple(PATHS), USUAL: ("mlp", "value_output")}
"""Name of several paths -> these paths; those that both models have count."""


def resolve_paths(paths: tuple[str, ...], available: Collection[str]) -> tuple[str, ...]:
    """Return the paths that are compared: the paths asked for or, under a name of several, those available."""
    if paths not in NAMED:
        return paths
    canonical = (path for path in PATHS if path in available)
    return tuple(path for path in NAMED[paths] if path in available) or tuple(itertools.islice(canonical, 1))
