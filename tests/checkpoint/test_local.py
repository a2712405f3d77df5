"""The checkpoint of a folder: its tensors by name, and what it says of one that it cannot give."""

import ml_dtypes
import numpy as np
import pytest
import torch

from hf_lineage.architecture.class_tensors import Place
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.conftest import opened
from tests.models import spoil, tiny_llama

NORM = "model.norm.weight"


@pytest.fixture
def folder(tmp_path):
    return tiny_llama(tmp_path)


def cast(dtype):
    return lambda tensors: tensors.update({name: tensor.to(dtype) for name, tensor in tensors.items()})


def test_shapes_and_values_are_those_on_disk_and_nothing_moves_over_a_network(folder):
    """A number format that is not decoded is nothing to compare."""
    found = opened(folder)
    assert found.shapes["model.layers.1.mlp.down_proj.weight"] == (32, 48)
    assert found.stored[NORM].size == 32 * 4
    np.testing.assert_array_equal(found.read(NORM), np.ones(32, np.float32), strict=True)
    assert list(found.parts([NORM, NORM])) == [NORM]
    found.release()
    assert (found.requests, found.bytes_read) == (0, 0)
    found = opened(spoil(folder, cast(torch.int8)))
    with pytest.raises(NothingToCompare, match=r"model\.norm\.weight is stored as I8, and config\.json does not say"):
        found.read(NORM)
    assert found.decoded_names == frozenset()


def test_eight_bit_floats_are_read_as_they_are_and_no_name_is_taken_for_rows(folder):
    name = "model.layers.0.mlp.up_proj.weight"
    expected = opened(folder).read(name).astype(ml_dtypes.float8_e5m2)
    stored = opened(spoil(folder, cast(torch.float8_e5m2))).read(name)
    assert stored.dtype == expected.dtype
    np.testing.assert_array_equal(single(stored), single(expected))
    place = {"some": Place((NORM,), slice(8, 16), None)}
    np.testing.assert_array_equal(opened(folder).with_places(place).read("some"), np.ones(8))
    twice = opened(spoil(folder, lambda tensors: tensors.update({f"{NORM}[8:]": torch.zeros(8)})))
    with pytest.raises(CheckpointError, match=r"named like model\.norm\.weight\[8:\]; do not trust the file"):
        twice.with_places(place)
