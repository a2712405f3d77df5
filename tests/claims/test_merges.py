"""What mergekit writes is read as parents and weights, in each of its forms; what is no weight is left out."""

from typing import Any

import pytest

from hf_lineage.claims.names import MOST, parents_in, recipe_in, recipe_in_card
from hf_lineage.files import safe_yaml

UP, VALUE = "model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.v_proj.weight"
TODAY = """
base_model: org/base
dtype: float32
merge_method: ties
modules:
  default:
    slices:
    - sources:
      - {layer_range: [0, 6], model: org/a, parameters: {density: 0.5, weight: 0.6}}
      - {layer_range: [0, 6], model: org/b, parameters: {density: 0.5, weight: 0.4}}
      - {layer_range: [0, 6], model: org/base}
"""
"""As mergekit 0.1.5 writes it."""
PAIR = "models: [{{model: Org/A, parameters: {{weight: {}}}}}, {{model: org/b, parameters: {{weight: {}}}}}]"
LINEAR: list[Any] = [(PAIR.format(3, 1), (0.75, 0.25))]
LINEAR += [("parameters: {weight: 1}\nmodels: [model: org/a, model: org/b]", (0.5, 0.5))]
LINEAR += [("models: [{model: org/a, parameters: {weight: 1}}, {model: org/b}]", (1, None))]
LINEAR += [(text, (None, None)) for text in (PAIR.format(1, "x"), PAIR.format(1, -1), "models: []")]
BY_PART = "[{filter: mlp, value: [0, 0, 1]}, {filter: self_attn, value: 0.1}, {value: 0.9}]"
SHARES: list[Any] = [("0.4", 0.4, 0.4), ("[0, 1]", 0.5, 0.5), ("[0, 0.5, 0.3, 0.7, 1]", 0.5, 0.5), (BY_PART, 0.25, 0.1)]
SHARES += [("[{filter: lm_head, value: 0}, {value: 0.9}]", 0.9, 0.9), ("{filter: mlp, value: 0.2}", 0.2, None)]
NO_SHARES = [(odd, None, None) for odd in ("[]", "[[0.1], 0.2]", ".nan", "1e400", "true")]


def recipe(text):
    return recipe_in(safe_yaml.load(text))


def weights(text, tensor=UP, models=("org/a", "org/b")):
    found = recipe(text)
    return tuple(found.weight(model, tensor) for model in models)


def test_a_method_that_takes_differences_has_a_base_and_its_weights_are_as_declared():
    """In modules as well, and in the block of a card that names a method and can be read."""
    found, parents = recipe(TODAY), parents_in(safe_yaml.load(TODAY))
    assert list(dict.fromkeys(name.base for name in parents)) == ["org/base", "org/a", "org/b"]
    assert (found.method, found.base) == ("ties", "org/base")
    assert weights(TODAY, models=("org/a", "org/b", "org/base", "org/nobody")) == (0.6, 0.4, None, None)
    card = f"# Merge\n\n```python\nmerge_method\n```\n\n```yaml\nother: 1\n```\n\n~~~YAML\n{TODAY}~~~\n"
    assert recipe_in_card(card) == found == recipe_in_card(card.replace("\n", "\r\n"))
    for block in ("merge_method: ties\n", "merge_method: [\n```\n", "- merge_method\n```\n"):
        assert recipe_in_card(f"```yaml\n{block}") is None
    assert recipe_in_card("") is recipe("models: [{model: org/a}]") is recipe("merge_method: [linear]") is None


@pytest.mark.parametrize(("text", "expected"), LINEAR)
def test_the_weights_of_a_linear_merge_are_shares(text, expected):
    assert weights(f"merge_method: linear\n{text}") == expected


@pytest.mark.parametrize(("t", "mlp", "attention"), SHARES + NO_SHARES)
def test_t_of_slerp_is_the_share_of_the_other_model(t, mlp, attention):
    text = f"merge_method: slerp\nbase_model: org/a\nmodels: [model: org/a, model: org/b]\nparameters: {{t: {t}}}"
    for tensor, share in ((UP, mlp), (VALUE, attention)):
        expected = (None, None) if share is None else (1 - share, share)
        assert weights(text, tensor) == pytest.approx(expected)
    assert recipe(text).base == ""


def test_slices_come_before_the_whole_and_what_repeats_itself_is_not_worked_out():
    sources = [("org/a", "[0, 4]"), ("org/b", "[2, 6]"), ("org/a", "[4, 8]"), ("org/c", "[8, 2]"), ("org/c", "x")]
    slices = ", ".join(f"{{sources: [{{model: {name}, layer_range: {layers}}}]}}" for name, layers in sources)
    text = f"merge_method: passthrough\nslices: [{slices}]"
    assert weights(text, UP, ("org/a", "org/b", "org/c")) == (8 / 12, 4 / 12, None)
    text = "merge_method: linear\nparameters: {weight: 1}\nslices:\n- parameters: {weight: 3}\n"
    text += "  sources: [{model: org/a}, {model: org/b, parameters: {weight: 1}}]"
    assert weights(text) == (0.75, 0.25)
    text = "merge_method: slerp\nmodels: [model: org/b]\nparameters: {t: [{filter: mlp, value: 1}]}"
    assert [recipe(text).weight("org/b", name) for name in (UP, "")] == [1, None]
    many = ", ".join(["{model: org/a, parameters: *p}"] * (MOST + 1))
    text = f"merge_method: ties\nx: &p {{weight: [{', '.join('1' * 100)}]}}\nmodels: [{many}]"
    assert recipe(text).weight("org/a", UP) is None
    long = f"merge_method: ties\nmodels: [{{model: org/a, parameters: {{weight: [{', '.join('1' * (MOST + 1))}]}}}}]"
    assert recipe(long).weight("org/a", UP) is None
