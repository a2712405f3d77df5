import numpy as np

from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.units.token_rows import drawn_tokens, read_token_rows
from tests.models import tiny_llama


def test_tokens_are_drawn_in_runs_and_are_the_same_for_everybody():
    chosen = drawn_tokens(100_000, (512, 768))
    assert np.array_equal(chosen, drawn_tokens(100_000, (512, 768)))
    assert 4 * 768 <= len(chosen) < 4 * 768 + 64
    assert (np.diff(chosen) > 1).sum() < 60
    assert np.array_equal(drawn_tokens(300, (64, 64)), np.arange(300))


def test_wide_streams_have_at_least_two_tokens_for_each_coordinate():
    assert 8192 <= len(drawn_tokens(10**6, (4096, 64))) < 8300
    assert 32768 <= len(drawn_tokens(10**6, (16384, 64))) < 32900


def test_only_the_rows_that_are_asked_for_are_read(tmp_path):
    checkpoint = headers(resolve(str(tiny_llama(tmp_path / "model")))).checkpoint
    rows = read_token_rows(checkpoint, "model.embed_tokens.weight", np.array([7, 2, 3, 7]))
    whole = np.asarray(checkpoint.read("model.embed_tokens.weight"))
    assert np.array_equal(rows, whole[[7, 2, 3, 7]])
