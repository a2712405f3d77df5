"""Layers of two kinds: every path is measured and compared on the layers that have it."""

import numpy as np

from hf_lineage import Options, compare, extract
from hf_lineage.hub.repo import resolve
from hf_lineage.signature.devices import budgets
from hf_lineage.signature.extract import Extraction, Residuals
from hf_lineage.source.headers import headers
from tests.conformance.models import tiny_model

KINDS = ["full_attention", "conv", "full_attention", "conv", "conv"]
OPTIONS = Options(paths=("mlp", "value_output", "query_key"), permutations=299)


def saved(folder, kinds=KINDS):
    model = tiny_model("Lfm2ForCausalLM", {"layer_types": kinds, "num_hidden_layers": len(kinds)})
    model.save_pretrained(folder)
    return str(folder)


def test_a_path_has_a_row_for_every_layer_that_has_it(tmp_path):
    found = extract(saved(tmp_path), OPTIONS)
    assert {path: found.paths[path].sketch.shape[0] for path in OPTIONS.paths} == {
        "mlp": 5,
        "value_output": 2,
        "query_key": 2,
    }
    assert found.without == {"value_output": (1, 3, 4), "query_key": (1, 3, 4)}
    assert all(parts.usable.all() for parts in found.paths.values())


def test_columns_made_one_piece_after_another_are_those_of_the_same_layers(tmp_path):
    opened = headers(resolve(saved(tmp_path)))
    checkpoint, layout = opened.checkpoint, opened.layout
    extraction = Extraction(checkpoint, layout, OPTIONS.recipe, ("query_key",), budgets(None))
    residuals = Residuals(extraction, 8)
    assert residuals.shape == (2, 32, 32)
    whole = extraction.signatures()["query_key"].sketch
    assert np.allclose(residuals.columns(slice(8, 16)), whole[:, :, 8:16], atol=1e-5)


def test_models_with_unlike_numbers_of_layers_are_compared_along_every_path(tmp_path):
    few, many = saved(tmp_path / "few"), saved(tmp_path / "many", ["full_attention"] * 4 + ["conv"])
    (row,) = compare(few, many, Options(paths=("mlp", "value_output"))).rows
    shapes = {path: found.comparison.similarity.shape for path, found in row.verdict.evidence.items()}
    assert shapes == {"mlp": (5, 5), "value_output": (2, 4)}
