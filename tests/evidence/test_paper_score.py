"""The twenty lines of docs/reference.py and the package agree about the paper's score."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from hf_lineage import RECIPES, Options, compare
from tests.models import WEIGHTS, fine_tuned, spoil, tiny_gpt2, tiny_llama

LAYERS = 6
reference = runpy.run_path(str(Path(__file__).parents[2] / "docs/reference.py"))
PAPER = Options(recipe=replace(RECIPES["paper"], probes=None), permutations=99, seed=0)


def llama(folder):
    """Its layers as the reference takes them."""
    weights = load_file(folder / WEIGHTS)
    names = [f"model.layers.{layer}.mlp" for layer in range(LAYERS)]
    return [(weights[f"{name}.down_proj.weight"], weights[f"{name}.up_proj.weight"]) for name in names]


def gpt2(folder):
    """The same of a GPT-2, which stores its matrices the other way round."""
    weights = load_file(folder / WEIGHTS)
    names = [f"h.{layer}.mlp" for layer in range(LAYERS)]
    return [(weights[f"{name}.c_proj.weight"].T, weights[f"{name}.c_fc.weight"].T) for name in names]


def reordered(folder):
    """The layers of a Llama from the last to the first, so that they have to be paired."""

    def change(tensors):
        for name, tensor in dict(tensors).items():
            tensors[re.sub(r"(?<=layers\.)\d+", lambda number: str(LAYERS - 1 - int(number[0])), name)] = tensor

    return spoil(folder, change)


def with_traces(folder):
    """A Llama whose every product holds more of the identity than random weights do, so that its gate closes."""

    def change(tensors):
        for name in [name for name in tensors if name.endswith("up_proj.weight")]:
            tensors[name] += 0.5 * tensors[name.replace("up_proj", "down_proj")].T

    return spoil(folder, change)


def score(a, b):
    """The score that the package gives."""
    (row,) = compare(str(a), str(b), PAPER).rows
    return row.verdict.evidence["mlp"].comparison.score


ARCHITECTURES = pytest.mark.parametrize(
    ("make", "layers"), [(tiny_llama, llama), (tiny_gpt2, gpt2)], ids=["llama", "gpt2"]
)


@ARCHITECTURES
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_a_descendant_has_the_score_of_the_reference(make, layers, noise, tmp_path):
    base = make(tmp_path / "base", layers=LAYERS)
    child = fine_tuned(base, tmp_path / "child", noise=noise)
    expected = reference["score"](layers(base), layers(child))
    assert expected > 0.1
    assert score(base, child) == pytest.approx(expected, abs=1e-5)


@ARCHITECTURES
def test_an_independent_model_has_the_score_of_the_reference(make, layers, tmp_path):
    base, other = make(tmp_path / "base", layers=LAYERS), make(tmp_path / "other", layers=LAYERS, seed=1)
    assert score(base, other) == pytest.approx(reference["score"](layers(base), layers(other)), abs=1e-5)


def test_layers_in_another_order_have_the_score_of_the_reference(tmp_path):
    base = tiny_llama(tmp_path / "base", layers=LAYERS)
    child = reordered(fine_tuned(base, tmp_path / "child"))
    expected = reference["score"](llama(base), llama(child)[::-1])
    assert expected > 0.5
    assert score(base, child) == pytest.approx(expected, abs=1e-5)


def test_layers_that_the_gate_pairs_have_the_score_of_the_reference(tmp_path):
    """The reference's gate is measured from its weakest layer, so the score depends on which model is the reference."""
    base, other = with_traces(tiny_llama(tmp_path / "base", layers=LAYERS)), tiny_llama(tmp_path / "other", 1, LAYERS)
    forward, backward = (reference["score"](llama(a), llama(b)) for a, b in ((base, other), (other, base)))
    assert forward != pytest.approx(backward, abs=1e-3)
    assert score(base, other) == pytest.approx(forward, abs=1e-5)
    assert score(other, base) == pytest.approx(backward, abs=1e-5)
