"""A file of torch.save is read by the form of its name, whatever the path where the cache keeps it."""

import torch

from hf_lineage.checkpoint.foreign.forms import read_header


def test_a_pickle_is_known_by_its_name_and_not_by_its_path(tmp_path):
    torch.save({"a": torch.ones(2, 3)}, tmp_path / "blob")
    ((name, tensor),) = read_header("pytorch_model.bin", tmp_path / "blob", "org/model")
    assert (name, tensor.shape, tensor.dtype) == ("a", (2, 3), "F32")
