"""A stored signature comes back bit for bit, and the file of the first release is still read by today's code."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hf_lineage.checking.api import extract
from hf_lineage.checking.options import Options
from hf_lineage.errors import SignatureError
from hf_lineage.signature.recipe import RECIPES, ROWS
from hf_lineage.signature.sources.store import load_signature, save_signature
from hf_lineage.signature.values import PARTS

HUB = Path(__file__).parents[3] / "examples" / "hub"
GOLDEN = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module", params=["robust", "paper"])
def signature(request):
    recipe = replace(RECIPES[request.param], probes=4, coordinates=8)
    return extract(str(HUB / "acme" / "gpt2-base"), Options(recipe=recipe, paths=("mlp", "query_key")))


def assert_same(a, b, exactly=True, parts=PARTS):
    assert replace(a, paths={}) == replace(b, paths={})
    assert list(a.paths) == list(b.paths)
    for path in a.paths:
        for part in parts:
            ours, theirs = getattr(a.paths[path], part), getattr(b.paths[path], part)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=0 if exactly else 1e-4, atol=0 if exactly else 1e-5)


def assert_same_units(a, b, most=0):
    """Weights and signs are the same, but for signs of numbers that are about zero."""
    for path in a.paths:
        for ours, theirs in zip(a.paths[path].units, b.paths[path].units, strict=True):
            np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-4 if most else 0)
            for one, other in ((getattr(ours, row), getattr(theirs, row)) for row in ROWS):
                assert one.shape == other.shape
                assert one.dtype == other.dtype == np.uint8
                assert np.bitwise_count(one ^ other).sum() <= most


def test_a_signature_round_trips_bit_for_bit(signature, tmp_path):
    save_signature(signature, tmp_path / "a.safetensors")
    again = load_signature(tmp_path / "a.safetensors")
    assert_same(again, signature)
    assert_same_units(again, signature)
    save_signature(again, tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


def test_a_signature_holds_the_units_of_every_layer(signature):
    assert {path: {len(each.weight) for each in found.units} for path, found in signature.paths.items()} == {
        "mlp": {384},
        "query_key": {4},
    }


def test_the_same_signature_is_written_as_the_same_bytes(signature, tmp_path):
    for name in ("a", "b"):
        save_signature(signature, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def extracted(recipe):
    """Today's signature of the model that the golden files are of."""
    return extract(
        str(HUB / "acme" / "llama-base"), Options(recipe=replace(recipe, probes=4, coordinates=8), paths=("mlp",))
    )


def test_the_golden_file_of_the_format_is_read_and_extracted_again():
    golden = load_signature(GOLDEN / "signature-v4-robust.safetensors")
    again = replace(extracted(RECIPES["robust"]), model=golden.model)
    assert_same(golden, again, exactly=False)
    # Of 6 layers with 256 units each, 36,864 signs.
    assert_same_units(golden, again, most=10)


def test_residuals_that_are_not_in_memory_are_not_written(signature, tmp_path):
    elsewhere = {
        path: replace(found, sketch=SimpleNamespace(shape=found.sketch.shape))
        for path, found in signature.paths.items()
    }
    with pytest.raises(SignatureError, match="do not fit in memory, so nothing can be written; use probes"):
        save_signature(replace(signature, paths=elsewhere), tmp_path / "a")
    assert not list(tmp_path.iterdir())
