"""A checkpoint in two shards, and how a folder is opened as one of the Hub's repositories."""

import pytest

from hf_lineage.hub.repo import RepoRef
from tests.models import open_checkpoint, shard, tiny_llama

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def repository(folder):
    return RepoRef("org/model", folder)


def opened(folder):
    return open_checkpoint(repository(folder))


@pytest.fixture
def sharded(tmp_path):
    return shard(tiny_llama(tmp_path))
