"""A tensor as a model loads it: its shape is the model's, whatever it is decoded from."""

import numpy as np
import pytest

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import header
from hf_lineage.checkpoint.tensor import TensorInfo, as_stored
from hf_lineage.errors import NothingToCompare
from tests.models import WEIGHTS, tiny_llama

NORM, HEAD = "model.norm.weight", "model.embed_tokens.weight"


@pytest.fixture
def stored(tmp_path):
    return dict(header(tiny_llama(tmp_path) / WEIGHTS, "model"))


def test_of_one_part_the_tensor_is_that_part():
    part = np.ones(3)
    assert as_stored([part]) is part


@pytest.mark.parametrize("parts", [[], [np.ones(1), np.ones(1)]])
def test_several_parts_need_somebody_who_knows_how_to_put_them_together(parts):
    with pytest.raises(ValueError, match="unpack"):
        as_stored(parts)


@pytest.mark.parametrize(("shape", "numbers"), [((), 1), ((0,), 0), ((3, 4), 12), ((2**40, 2**40), 2**80)])
def test_it_holds_the_product_of_its_shape_however_large(shape, numbers):
    assert TensorInfo(shape, ("a",)).numbers == numbers


def test_its_parts_are_decoded_in_the_order_in_which_they_are_named(stored):
    def scaled(parts):
        norm, head = parts
        return norm * 0 + head[0, 0]

    tensors = {"both": TensorInfo((32,), (NORM, HEAD), scaled), "turned": TensorInfo((32,), (HEAD, NORM), scaled)}
    checkpoint = Checkpoint(stored, tensors)
    assert checkpoint.read("both").shape == (32,)
    with pytest.raises(IndexError):
        checkpoint.read("turned")


def test_one_that_cannot_be_decoded_is_listed_and_refused_by_its_name(stored):
    checkpoint = Checkpoint(stored, {"packed": TensorInfo((4,), (NORM,), refusal="is stored as F4")})
    assert checkpoint.shapes == {"packed": (4,)}
    with pytest.raises(NothingToCompare, match=r"^packed is stored as F4$"):
        checkpoint.read("packed")
