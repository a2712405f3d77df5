"""A tensor of a converted model is turned, or taken out of what a converter joined."""

from dataclasses import dataclass

import numpy as np
import pytest

from hf_lineage.checkpoint.foreign.transposed import by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError

JOINED = np.arange(12, dtype=np.float32).reshape(6, 2)


@dataclass(frozen=True)
class Piece:
    name: str
    stored: str = "joined"
    rows: tuple[int, int] | None = None
    turned: bool = False


def plain():
    return Checkpoint({}, {"joined": TensorInfo((6, 2), (), decode=lambda parts: JOINED)})


def test_pieces_are_the_rows_they_name():
    found = by_pieces(plain(), [Piece("a", rows=(0, 4)), Piece("b", rows=(4, 6), turned=True), Piece("c")])
    assert found.shapes == {"a": (4, 2), "b": (2, 2), "c": (6, 2)}
    for name, expected in {"a": JOINED[:4], "b": JOINED[4:].T, "c": JOINED}.items():
        np.testing.assert_array_equal(found.read(name), expected)
    assert found.decoded == {"a", "b"}


def test_two_pieces_of_one_name_are_refused():
    with pytest.raises(CheckpointError, match="two tensors of the file are a; do not trust it"):
        by_pieces(plain(), [Piece("a"), Piece("a", turned=True)])
