"""Scratch: models are on the disk for as long as they are needed."""

from dataclasses import replace

import pytest

from benchmarks.scratch import most_at_once, scratch
from benchmarks.shapes import QUICK, Model

A, B, C = (replace(QUICK.model("125M", layers), name=name) for name, layers in (("a", 1), ("b", 2), ("c", 3)))


def size(*models: Model) -> int:
    return sum(model.shape.bytes for model in models)


@pytest.mark.parametrize(
    ("needs", "alive"),
    [
        ([], ()),
        ([(A,), (B,), (C,)], (C,)),
        ([(A, B), (C,)], (A, B)),
        ([(A,), (B,), (A,)], (A, B)),
        ([(C,), (), (C,)], (C,)),
    ],
)
def test_room_is_asked_for_what_lies_there_at_once(needs, alive):
    assert most_at_once(needs) == size(*alive)


def test_models_are_written_kept_and_removed(tmp_path):
    with scratch(tmp_path) as place:
        place.write((A, B))
        written = sum(file.stat().st_size for file in place.model(A).glob("*.safetensors"))
        assert size(A) < written < 1.01 * size(A)
        place.keep({B})
        assert (place.model(A).exists(), place.model(B).exists()) == (False, True)
    assert list(tmp_path.iterdir()) == []
