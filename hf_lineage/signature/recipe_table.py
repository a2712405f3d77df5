"""The tables of recipes and of their frames, without NumPy: the command line names them before anything is computed.

A frame is the coordinates in which branch products are compared. The products of the paper are compared in those of the
residual stream. Another frame is another entry of the table, and nothing else; a recipe names the frame, so signatures
of different frames are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_lineage.signature.computing import Tensor

PARAMETERS: dict[str, dict[str, Any]] = {
    "robust": {
        **{"name": "robust", "gains": True, "means": True, "cap": True, "ones": True},
        **{"gates": True, "version": 4},
    },
    "paper": {"name": "paper", "gains": False, "means": False, "cap": False, "ones": False},
}
"""Name, as in `--set recipe=NAME`, the default first -> the fields of the Recipe that differ from its defaults."""

STREAM = "residual"
"""The frame that recipes name unless told otherwise."""


@dataclass(frozen=True)
class Frame:
    """One choice of coordinates."""

    dimension: Callable[[int], int]
    """From the width of the residual stream to the number of coordinates."""
    rows: Callable[[Tensor], Tensor]
    """Rows that read or write the stream, (t, width) -> these rows in this frame, (t, dimension): one linear map."""
    ones: bool
    """Whether the mean over all coordinates may be projected off beside the identity."""
    exchangeable: str
    """Why the coordinates of independent models may be permuted."""


FRAMES = {
    STREAM: Frame(
        dimension=lambda width: width,
        rows=lambda rows: rows,
        ones=True,
        exchangeable="initialisation and the usual training steps treat all residual coordinates alike",
    )
}
"""By the name that a recipe gives."""
