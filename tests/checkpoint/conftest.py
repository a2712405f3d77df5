"""A checkpoint in two shards, and how a folder is opened as one of the Hub's repositories."""

import numpy as np
import pytest

from hf_lineage.hub.repo import RepoRef
from tests.models import open_checkpoint, shard, tiny_llama

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def repository(folder, **named):
    return RepoRef("org/model", folder, **named)


def opened(folder):
    return open_checkpoint(repository(folder))


def same(one, other):
    """Assert that two checkpoints hold the same tensors, the last ones read first."""
    assert one.shapes == other.shapes
    assert all(np.array_equal(one.read(name), other.read(name)) for name in reversed(other.tensors))


def words(numbers, bits):
    """Rows of integers as rows of words of 32 bits without gaps, the first in the lowest bits."""
    each = np.unpackbits(numbers.astype(np.uint8)[..., None], axis=2, bitorder="little")[..., :bits]
    return np.packbits(each.reshape(len(numbers), -1), axis=1, bitorder="little").view(np.uint32)


@pytest.fixture
def sharded(tmp_path):
    return shard(tiny_llama(tmp_path))


@pytest.fixture
def files(tmp_path):
    def touch(*names, **named):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return repository(tmp_path, **named)

    return touch
