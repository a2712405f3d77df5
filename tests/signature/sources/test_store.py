"""A stored signature comes back bit for bit, and the file of the first release is still read by today's code."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors
from safetensors.numpy import save_file

from hf_lineage.checking.api import extract
from hf_lineage.checking.options import Options
from hf_lineage.errors import SignatureError
from hf_lineage.signature.recipe import READER_SUMS, RECIPES, ROWS
from hf_lineage.signature.sources.store import load_signature, save_signature
from hf_lineage.signature.values import PARTS

HUB = Path(__file__).parents[3] / "examples" / "hub"
GOLDEN = Path(__file__).parents[2] / "data"
SMALL = replace(RECIPES["robust"], probes=4, coordinates=8)


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
    return extract(str(HUB / "acme" / "llama-base"), Options(recipe=replace(recipe, probes=4, coordinates=8)))


def test_the_golden_file_of_the_format_is_read_and_extracted_again():
    golden = load_signature(GOLDEN / "signature-v3-robust.safetensors")
    again = replace(extracted(RECIPES["robust"]), model=golden.model)
    assert_same(golden, again, exactly=False)
    # Of 6 layers with 256 units each, 36,864 signs.
    assert_same_units(golden, again, most=10)


def test_residuals_that_are_not_in_memory_are_not_written(signature, tmp_path):
    elsewhere = {
        path: replace(found, sketch=SimpleNamespace(shape=found.sketch.shape))
        for path, found in signature.paths.items()
    }
    with pytest.raises(SignatureError, match="do not fit in memory, so nothing can be written; raise --set"):
        save_signature(replace(signature, paths=elsewhere), tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def of_a_merge(tmp_path):
    """The file of a signature that holds the sums over its readers as well."""
    recipe = replace(RECIPES["robust"], probes=4, coordinates=8)
    options = Options(recipe=recipe, paths=("mlp", "query_key"), readers=True)
    made = extract(str(HUB / "acme" / "gpt2-base"), options)
    save_signature(made, tmp_path / "a.safetensors")
    return made, tmp_path / "a.safetensors"


def test_sums_over_the_readers_round_trip_where_they_were_asked_for(of_a_merge, signature):
    made, file = of_a_merge
    assert_same(load_signature(file), made, parts=(*PARTS, "readers"))
    assert {path.readers.shape for path in made.paths.values()} == {(6, READER_SUMS, 4)}
    assert [path.readers for path in signature.paths.values()] == [None, None]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda readers: readers[:, :1], "mlp.readers has shape"),
        (lambda readers: readers.astype(np.float64), "mlp.readers is stored as F64, not stored as F32"),
        (lambda readers: readers * np.float32(np.nan), "holds numbers that are not finite"),
    ],
)
def test_sums_over_the_readers_that_do_not_fit_are_refused(of_a_merge, change, reason):
    _, file = of_a_merge
    with safetensors.safe_open(file, "np") as opened:
        metadata, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    tensors["mlp.readers"] = np.ascontiguousarray(change(tensors["mlp.readers"]))
    save_file(tensors, file, metadata)
    with pytest.raises(SignatureError, match=reason):
        load_signature(file)
