"""A stored signature comes back bit for bit, and the file of the first release is still read by today's code."""

import json
import os
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

from hf_lineage import RECIPES, Options, extract, load_signature, save_signature
from hf_lineage.errors import SignatureError
from hf_lineage.signature.recipe import ROWS
from hf_lineage.signature.values import PARTS
from tests.invoking import lineage
from tests.models import spoil

HUB = Path(__file__).parents[2] / "examples/hub"
MISSING = "mlp: the layers without it must lie between 0 and {}, in order"


def extracted(model, name, *paths):
    return extract(str(HUB / model), Options(recipe=replace(RECIPES[name], probes=4, coordinates=8), paths=paths))


@pytest.fixture(scope="module", params=["robust", "paper"])
def signature(request):
    return extracted("acme/gpt2-base", request.param, "mlp", "query_key")


def assert_same(a, b, most=0):
    """Numbers are the same, or about the same if some signs may differ, which are those of numbers about zero."""
    assert replace(a, paths={}) == replace(b, paths={})
    assert list(a.paths) == list(b.paths)
    for path in a.paths:
        for part in PARTS:
            ours, theirs = getattr(a.paths[path], part), getattr(b.paths[path], part)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-4 if most else 0, atol=1e-5 if most else 0)
        for ours, theirs in zip(a.paths[path].units, b.paths[path].units, strict=True):
            np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-4 if most else 0)
            for one, other in ((getattr(ours, row), getattr(theirs, row)) for row in ROWS):
                assert one.shape == other.shape
                assert one.dtype == other.dtype == np.uint8
                assert np.bitwise_count(one ^ other).sum() <= most


def test_the_golden_file_of_the_format_is_read_and_extracted_again():
    """It has 36,864 signs: 6 layers with 256 units each."""
    golden = load_signature(Path(__file__).parents[1] / "data" / "signature-v4-robust.safetensors")
    assert_same(golden, replace(extracted("acme/llama-base", "robust", "mlp"), model=golden.model), most=10)


def test_a_signature_round_trips_and_residuals_out_of_memory_are_not_written(signature, tmp_path):
    path = signature.paths["mlp"]
    elsewhere = {"mlp": replace(path, sketch=SimpleNamespace(shape=path.sketch.shape))}
    with pytest.raises(SignatureError, match="do not fit in memory, so nothing can be written; use probes"):
        save_signature(replace(signature, paths=signature.paths | elsewhere), tmp_path / "a")
    assert not list(tmp_path.iterdir())
    save_signature(signature, tmp_path / "a.safetensors")
    again = load_signature(tmp_path / "a.safetensors")
    assert_same(again, signature)
    assert repr(again) == repr(signature)
    said = f"Signature(model={signature.model!r}, commit=None, architecture='GPT2LMHeadModel'"
    assert repr(signature).startswith(said)
    assert "array" not in repr((signature, signature.paths))
    save_signature(again, str(tmp_path / "b.safetensors"))
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


@pytest.fixture
def stored(hub):
    assert lineage("extract", hub / "acme/base", "-o", hub / "base.sig").out == f"{hub / 'base.sig'}\n"
    return hub / "base.sig"


def test_it_stands_for_its_model_and_is_the_same_bytes_every_time(hub, stored):
    def numbers(a):
        """What is said of its paths; weights may be compared in other ways as well, for which p is corrected."""
        found = json.loads(lineage("compare", a, hub / "fern/child", "--format", "json").out)["claims"][0]["paths"]
        same = ("path", "verdict", "score", "standard_error", "p_value", "inherited", "layers")
        return [[path[key] for key in same] for path in found]

    assert numbers(hub / "acme/base") == numbers(stored)
    lineage("extract", hub / "acme/base", "-o", hub / "again.sig")
    assert stored.read_bytes() == (hub / "again.sig").read_bytes()
    assert lineage("check", stored, "--base", hub / "fern/child").code == 0
    assert "Nothing is declared" in lineage("check", stored).out


def test_cut_off_it_is_an_error_and_the_weights_of_a_model_are_none(hub, stored):
    for size in (20_000, 100, 5, 0):
        os.truncate(stored, size)
        error = lineage("compare", stored, hub / "fern/child").error
        assert error.startswith(f"{stored} cannot be read as a signature: ")
        assert error.endswith("; extract it again")
    weights = hub / "acme/base/model.safetensors"
    assert lineage("compare", weights, hub / "fern/child").error == (
        f"{weights} cannot be read as a signature; to name the model with these weights, give its folder, "
        f"{weights.parent}, where its config.json is"
    )


def edited(stored, change=lambda arrays: None, **provenance):
    """Rewrite arrays and provenance of a stored signature."""
    raw = stored.read_bytes()
    metadata = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    said = json.loads(metadata["signature"]) | provenance
    arrays = load_file(stored)
    change(arrays)
    save_file(arrays, stored, metadata={"signature": json.dumps(said)})


def test_what_a_later_version_adds_to_it_is_left_alone(hub, stored, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    asked = ("--format", "json", "--seed", "0")
    before = json.loads(lineage("compare", stored, hub / "fern/child", *asked).out)
    edited(stored, paths=["mlp", "value_output", "nose"], sections={"tokens": {"frame": "token", "paths": ["mlp"]}})
    arrays = load_file(stored) | {"nose.sketch": np.zeros(3, np.float32), "tokens/mlp.sketch": np.ones(2, np.float32)}
    with stored.open("rb") as file:
        metadata = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    save_file(arrays, stored, metadata=metadata)
    assert json.loads(lineage("compare", stored, hub / "fern/child", *asked).out) == before


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("mlp.sketch", np.full((2, 32, 32), np.nan, np.float32), "holds numbers that are not finite; extract"),
        ("mlp.corner", np.full((2, 32, 32), np.inf, np.float32), "holds numbers that are not finite; extract"),
        ("mlp.sketch", np.zeros((2, 32, 31), np.float32), "mlp.sketch has shape (2, 32, 31), but its recipe needs"),
        ("mlp.trace", np.zeros(()), "mlp.trace has shape (), but its recipe needs (2,)"),
        *((part, np.array([value, 1.0]), "holds numbers that are not finite; extract it again")
          for part in ("mlp.norm", "mlp.trace") for value in (np.inf, -np.inf, np.nan)),
        ("mlp.norm", np.zeros((2, 2)), "mlp.norm has shape (2, 2), but its recipe needs (2,)"),
        ("mlp.norm", np.zeros(2, np.float32), "mlp.norm is stored as F32, not stored as F64; extract it again"),
        ("mlp.units", np.array([48, 49]), "mlp.units does not match the number of stored rows; extract"),
        ("mlp.units", np.array([97, -1]), "mlp.units does not match the number of stored rows; extract"),
        ("mlp.units", np.array([[48], [48]]), "mlp.units has shape (2, 1), but its recipe needs (2,)"),
        ("mlp.units", np.array(96), "mlp.units has shape (), but its recipe needs (2,)"),
        ("mlp.units", np.array([96]), "mlp.units has shape (1,), but its recipe needs (2,)"),
        ("mlp.units", np.array([2**62, 2**62]), "mlp.units does not match the number of stored rows; extract"),
        ("mlp.weight", np.ones((), np.float32), "mlp.units does not match the number of stored rows; extract it"),
        ("mlp.weight", np.full(96, np.nan, np.float32), "holds numbers that are not finite; extract it again"),
        ("mlp.inner", np.zeros((95, 4), np.uint8), "mlp.units does not match the number of stored rows;"),
        ("mlp.outer", np.zeros(96, np.uint8), "mlp.units does not match the number of stored rows;"),
    ],
)  # fmt: skip
def test_its_numbers_have_to_be_usable(hub, stored, part, value, message):
    edited(stored, lambda arrays: arrays.update({part: value}))
    assert message in lineage("compare", stored, hub / "fern/child").error


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ({"version": 99}, "has format version 99, not 4; extract it again"),
        ({"layers": 3}, "mlp.sketch has shape (2, 32, 32), but its recipe needs (3, 32, 32)"),
        ({"width": 64}, "mlp.sketch has shape (2, 32, 32), but its recipe needs (2, 64, 64)"),
        ({"layers": 0}, "cannot be read as a signature: Expected `int` >= 1"),
        ({"width": -1}, "cannot be read as a signature: Expected `int` >= 2"),
        ({"width": "wide"}, "cannot be read as a signature: Expected `int`, got `str`"),
        ({"paths": ["nose"]}, "cannot be read as a signature: its paths are 'nose', not some of mlp, mlp_gate, "),
        ({"sections": 7}, "cannot be read as a signature: Expected `object`, got `int`"),
        ({"surplus": 1}, "cannot be read as a signature: Object contains unknown field `surplus`"),
        ({"recipe": {}}, "cannot be read as a signature: Object missing required field `name`"),
        ({"layers": 30_000_000}, "cannot be read as a signature: Expected `int` <= 1024"),
        ({"layers": 2**40}, "cannot be read as a signature: Expected `int` <= 1024"),
        ({"layers": 1024}, "mlp.sketch has shape (2, 32, 32), but its recipe needs (1024, 32, 32)"),
        ({"width": 2**40}, "cannot be read as a signature: Expected `int` <= 1048576"),
        ({"width": 2**20}, "mlp.sketch has shape (2, 32, 32), but its recipe needs (2, 1048576, 64)"),
        ({"width": 10**5000}, "cannot be read as a signature: "),
        *(({"layers": 4, "without": {"mlp": one}}, MISSING.format(3)) for one in ([2, 1], [1, 1], [2, 4], [-1, 2])),
        ({"without": {"mlp": [0, 1]}}, MISSING.format(1)),
        ({"without": {"mlp": list(range(10**6))}}, "the header claims"),
        ({"widths": {"mlp": [32, 33]}}, "mlp has 2 widths for 2 layers, or widths outside 2 to 32"),
        ({"widths": {"mlp": [32, 0]}}, "mlp has 2 widths for 2 layers, or widths outside 2 to 32"),
        ({"widths": {"mlp": [32]}}, "mlp has 1 widths for 2 layers, or widths outside 2 to 32"),
        ({"paths": []}, "its paths are , not some of mlp, mlp_gate, value_output, query_key"),
        ({"paths": ["mlp", "mlp"]}, "its paths are 'mlp', 'mlp', not some of mlp, mlp_gate"),
        ({"paths": ["mlp"] * 1000}, "its paths are 'mlp', 'mlp'"),
        ({"paths": ["query_key"]}, "query_key.sketch is missing, not stored as F32"),
    ],
)  # fmt: skip
def test_what_it_says_is_bounded_before_anything_of_that_size_is_made(hub, stored, provenance, message):
    if provenance.get("width") == 10**5000:
        sys.set_int_max_str_digits(6000)
    edited(stored, **provenance)
    sys.set_int_max_str_digits(4300)
    tracemalloc.start()
    try:
        assert message in lineage("compare", stored, hub / "fern/child").error
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_a_layer_that_was_not_finite_is_one_that_is_stored(hub, tmp_path):
    spoil(hub / "acme/base", lambda tensors: tensors["model.layers.0.mlp.up_proj.weight"].fill_(float("nan")))
    lineage("extract", hub / "acme/base", "-o", tmp_path / "nan.sig")
    found = lineage("compare", tmp_path / "nan.sig", hub / "fern/child")
    assert (found.code, "Along mlp, weights in layer 0 of the base are not finite" in found.sentences) == (3, True)


@pytest.mark.parametrize("key", ["recipe", "without", "surplus"])
def test_what_it_says_may_not_be_nested_without_end(hub, stored, key):
    nested = '{"a":' * 3000 + "1" + "}" * 3000
    said = f'{{"{key}": {nested}, "format": "", "version": 1}}'
    stored.write_bytes(save(load_file(stored), metadata={"signature": said}))
    error = lineage("compare", stored, hub / "fern/child").error
    assert "cannot be read as a signature: maximum recursion depth exceeded" in error
