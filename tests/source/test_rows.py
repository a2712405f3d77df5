"""Rows of matrices, whichever way round they are stored, by themselves and beside those of another model."""

import numpy as np
import pytest

from hf_lineage import Options
from hf_lineage.checkpoint.rounding import DIGITS
from hf_lineage.signature.sample import Sample
from hf_lineage.source import rows as rows_module
from hf_lineage.source.locate import locate_model
from hf_lineage.source.model import open_model
from hf_lineage.source.rows import bits_of, digits_of, matrix, rows_beside, rows_of
from tests.models import EXAMPLES

OPTIONS = Options(seed=0)
BASE, CHILD = "acme/llama-base", "heron/llama-pruned-50"


def opened(name):
    return open_model(locate_model(str(name), OPTIONS), OPTIONS)


def rows(*args):
    return [*rows_beside(opened(EXAMPLES / BASE), opened(EXAMPLES / CHILD), 0, *args)]


def test_every_tensor_is_there_once_or_with_coordinates_those_of_the_stream(monkeypatch):
    width = opened(EXAMPLES / CHILD).width
    coordinates = Sample(0, all_units=True).coordinates_of(width)
    found = rows({1, 3}, coordinates)
    count = sum(run.stop - run.start for run in coordinates)
    assert {one.layer for one in found} == {1, 3}
    assert {one.candidate.shape[0] for one in found if one.writes} == {count}
    assert {one.candidate.shape[1] for one in found if not one.writes} == {width}
    found = rows()
    checkpoint = opened(EXAMPLES / CHILD).headers.checkpoint
    assert sum(one.numbers for one in found) == sum(tensor.numbers for tensor in checkpoint.tensors.values())
    assert {one.kind for one in found} == {"MLPs", "attention", "norms", "embedding", "head"}
    assert all(one.base.shape == one.candidate.shape and one.digits == (8, 8) for one in found)
    assert {one.writes for one in found if one.layer < 0} == {None}
    monkeypatch.setattr(rows_module, "MOST", 2**10)
    assert max(one.base.size for one in rows()) < 2**11


@pytest.mark.parametrize("fetch", [True, False])
def test_nothing_is_downloaded_where_that_is_not_asked_for(online, fetch):
    for name in (BASE, CHILD):
        online.publish(name, EXAMPLES / name)
    assert bool([*rows_beside(opened(BASE), opened(CHILD), 0, fetch=fetch)]) is fetch


def test_a_matrix_is_out_by_in_with_its_digits_and_some_rows_are_those_of_the_whole():
    for name, units in (("acme/gpt2-base", 384), (BASE, 256)):
        model = opened(EXAMPLES / name)
        one = model.headers.layout.branches["mlp"][0][0]
        whole = matrix(model, one.slots["up"], ())
        assert whole.shape == (units, 96)
        np.testing.assert_array_equal(matrix(model, one.slots["up"], (slice(3, 5), slice(9, 10))), whole[[3, 4, 9]])
    assert rows_of(model, "up", one, 0, Sample(0), sampled=False) == ()
    assert all(run.stop <= 256 for run in rows_of(model, "up", one, 0, Sample(0), sampled=True))
    tensor, checkpoint = one.slots["up"].tensor, model.headers.checkpoint
    assert (digits_of(checkpoint, tensor), bits_of(checkpoint, tensor)) == (DIGITS["BF16"], 0)
