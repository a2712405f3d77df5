"""A stored signature comes back bit for bit, and the file of the first release is still read by today's code."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.options import Options
from hf_lineage.pipeline import extract
from hf_lineage.recipe import RECIPES
from hf_lineage.store import load_signature, save_signature, write_atomically

HUB = Path(__file__).parents[1] / "examples" / "hub"
GOLDEN = Path(__file__).parent / "data"
SMALL = replace(RECIPES["robust"], probes=4, coordinates=8)


@pytest.fixture(scope="module", params=["robust", "paper"])
def signature(request):
    recipe = replace(RECIPES[request.param], probes=4, coordinates=8)
    return extract(str(HUB / "acme" / "gpt2-base"), Options(recipe=recipe, paths=("mlp", "query_key")))


def assert_same(a, b, exactly=True):
    assert replace(a, paths={}) == replace(b, paths={})
    assert list(a.paths) == list(b.paths)
    for path in a.paths:
        for part in ("sketch", "corner", "trace", "norm"):
            ours, theirs = getattr(a.paths[path], part), getattr(b.paths[path], part)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=0 if exactly else 1e-4, atol=0 if exactly else 1e-5)


def test_a_signature_round_trips_bit_for_bit(signature, tmp_path):
    save_signature(signature, tmp_path / "a.safetensors")
    assert_same(load_signature(tmp_path / "a.safetensors"), signature)


def test_the_same_signature_is_written_as_the_same_bytes(signature, tmp_path):
    for name in ("a", "b"):
        save_signature(signature, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("recipe", ["robust", "paper"])
def test_the_golden_file_of_each_recipe_is_read_and_extracted_again(recipe, tmp_path):
    golden = load_signature(GOLDEN / f"signature-v1-{recipe}.safetensors")
    options = Options(recipe=replace(RECIPES[recipe], probes=4, coordinates=8))
    again = replace(extract(str(HUB / "acme" / "llama-base"), options), model=golden.model)
    assert_same(golden, again, exactly=False)


def test_residuals_that_are_not_in_memory_are_not_written(signature, tmp_path):
    elsewhere = {
        path: replace(found, sketch=SimpleNamespace(shape=found.sketch.shape))
        for path, found in signature.paths.items()
    }
    with pytest.raises(SignatureError, match="do not fit in memory, so there is nothing to write; raise --max-memory"):
        save_signature(replace(signature, paths=elsewhere), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_behind_when_a_file_cannot_be_written(tmp_path):
    with pytest.raises(SignatureError, match="cannot be written"):
        write_atomically(tmp_path / "missing" / "a", b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SignatureError, match="cannot be written"):
        write_atomically(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_an_existing_file_is_replaced_as_a_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"a long old content")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1
