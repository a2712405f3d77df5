"""Rows of matrices as numbers, whichever way round they are stored, and the digits with which they are."""

import numpy as np

from hf_lineage.checkpoint.rounding import DIGITS
from hf_lineage.signature.sample import Sample
from hf_lineage.source.locate import located
from hf_lineage.source.model import open_model
from hf_lineage.source.options import Options
from hf_lineage.source.rows import bits_of, digits_of, matrix, rows_of
from tests.models import EXAMPLES

OPTIONS = Options(local_hub=EXAMPLES, seed=0)


def opened(name):
    model = open_model(located(name, OPTIONS), OPTIONS)
    return model, model.opened.layout.branches["mlp"][0][0]


def test_a_matrix_is_out_by_in_and_some_rows_are_those_of_the_whole():
    for name, units in (("acme/llama-base", 256), ("acme/gpt2-base", 384)):
        model, one = opened(name)
        whole = matrix(model, one.slots["up"], ())
        assert whole.shape == (units, 96)
        np.testing.assert_array_equal(matrix(model, one.slots["up"], (slice(3, 5), slice(9, 10))), whole[[3, 4, 9]])


def test_small_matrices_are_read_whole_and_of_a_sample_the_rows_that_it_holds():
    model, one = opened("acme/llama-base")
    assert rows_of(model, "up", one, 0, Sample(0), sampled=False) == ()
    assert all(run.stop <= 256 for run in rows_of(model, "up", one, 0, Sample(0), sampled=True))


def test_digits_are_those_of_the_file():
    model, one = opened("acme/llama-base")
    assert digits_of(model.opened.checkpoint, one.slots["up"].tensor) == DIGITS["BF16"]
    assert bits_of(model.opened.checkpoint, one.slots["up"].tensor) == 0
