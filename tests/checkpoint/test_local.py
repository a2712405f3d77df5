"""The checkpoint of a folder: its tensors by name, and what it says of one that it cannot give."""

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint import open_checkpoint
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.models import spoil, tiny_llama


def opened(folder):
    return open_checkpoint(RepoRef("org/model", folder))


def test_shapes_and_values_are_those_on_disk(tmp_path):
    tiny_llama(tmp_path)
    found = opened(tmp_path)
    assert found.shapes["model.layers.1.mlp.down_proj.weight"] == (32, 48)
    assert found.stored["model.norm.weight"].size == 32 * 4
    np.testing.assert_array_equal(found.read("model.norm.weight"), np.ones(32, np.float32), strict=True)


def test_a_number_format_that_is_not_decoded_is_nothing_to_compare(tmp_path):
    def round_all(tensors):
        tensors.update({name: tensor.to(torch.float8_e4m3fn) for name, tensor in tensors.items()})

    found = opened(spoil(tiny_llama(tmp_path), round_all))
    with pytest.raises(NothingToCompare, match=r"model\.norm\.weight is stored as F8_E4M3; quantized formats are not"):
        found.read("model.norm.weight")


def test_a_checkpoint_of_a_folder_moves_nothing_over_a_network(tmp_path):
    found = opened(tiny_llama(tmp_path))
    found.read("model.norm.weight")
    found.release()
    assert (found.requests, found.bytes_read) == (0, 0)


def test_parts_that_several_tensors_share_are_named_once(tmp_path):
    found = opened(tiny_llama(tmp_path))
    assert list(found.parts(["model.norm.weight", "model.norm.weight"])) == ["model.norm.weight"]
