"""What mergekit writes is read as parents and weights, in each of its forms; what is no weight is left out."""

import pytest

from hf_lineage.claims.merges import MOST, parents_in, recipe_in, recipe_in_card
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


def recipe(text):
    return recipe_in(safe_yaml.load(text))


def weights(text, tensor=UP, models=("org/a", "org/b")):
    found = recipe(text)
    return tuple(found.weight(model, tensor) for model in models)


def test_a_method_that_takes_differences_has_a_base_and_its_weights_are_as_declared():
    """In modules as well."""
    found, parents = recipe(TODAY), parents_in(safe_yaml.load(TODAY))
    assert list(dict.fromkeys(name.base for name in parents)) == ["org/base", "org/a", "org/b"]
    assert (found.method, found.base) == ("ties", "org/base")
    assert weights(TODAY, models=("org/a", "org/b", "org/base", "org/nobody")) == (0.6, 0.4, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models: [{model: Org/A, parameters: {weight: 3}}, {model: org/b, parameters: {weight: 1}}]", (0.75, 0.25)),
        ("parameters: {weight: 1}\nmodels: [{model: org/a}, {model: org/b}]", (0.5, 0.5)),
        ("models: [{model: org/a, parameters: {weight: 1}}, {model: org/b}]", (1, None)),
        ("models: [{model: org/a, parameters: {weight: 1}}, {model: org/b, parameters: {weight: x}}]", (None, None)),
        ("models: [{model: org/a, parameters: {weight: 1}}, {model: org/b, parameters: {weight: -1}}]", (None, None)),
        ("models: []", (None, None)),
    ],
)
def test_the_weights_of_a_linear_merge_are_shares(text, expected):
    assert weights(f"merge_method: linear\n{text}") == expected


@pytest.mark.parametrize(
    ("t", "mlp", "attention"),
    [
        ("0.4", 0.4, 0.4),
        ("[0, 1]", 0.5, 0.5),
        ("[0, 0.5, 0.3, 0.7, 1]", 0.5, 0.5),
        ("[{filter: mlp, value: [0, 0, 1]}, {filter: self_attn, value: 0.1}, {value: 0.9}]", 0.25, 0.1),
        ("[{filter: lm_head, value: 0}, {value: 0.9}]", 0.9, 0.9),
        ("{filter: mlp, value: 0.2}", 0.2, None),
        ("[]", None, None),
        ("[[0.1], 0.2]", None, None),
        (".nan", None, None),
        ("1e400", None, None),
        ("true", None, None),
    ],
)
def test_t_of_slerp_is_the_share_of_the_other_model(t, mlp, attention):
    text = f"merge_method: slerp\nbase_model: org/a\nmodels: [model: org/a, model: org/b]\nparameters: {{t: {t}}}"
    for tensor, share in ((UP, mlp), (VALUE, attention)):
        expected = (None, None) if share is None else (1 - share, share)
        assert weights(text, tensor) == pytest.approx(expected)
    assert recipe(text).base == ""


def test_what_holds_for_other_tensors_is_not_known_without_their_names():
    text = "merge_method: slerp\nmodels: [model: org/b]\nparameters: {t: [{filter: mlp, value: 1}]}"
    assert [recipe(text).weight("org/b", name) for name in (UP, "")] == [1, None]


def test_a_pass_through_gives_shares_by_layers():
    sources = [("org/a", "[0, 4]"), ("org/b", "[2, 6]"), ("org/a", "[4, 8]"), ("org/c", "[8, 2]"), ("org/c", "x")]
    slices = ", ".join(f"{{sources: [{{model: {name}, layer_range: {layers}}}]}}" for name, layers in sources)
    text = f"merge_method: passthrough\nslices: [{slices}]"
    assert weights(text, UP, ("org/a", "org/b", "org/c")) == (8 / 12, 4 / 12, None)


def test_the_parameters_of_a_slice_come_before_those_of_the_whole():
    text = (
        "merge_method: linear\nparameters: {weight: 1}\nslices:\n"
        "- parameters: {weight: 3}\n  sources: [{model: org/a}, {model: org/b, parameters: {weight: 1}}]"
    )
    assert weights(text) == (0.75, 0.25)


def test_a_card_holds_the_recipe_in_a_block_that_names_a_method_and_can_be_read():
    card = f"# Merge\n\n```python\nmerge_method\n```\n\n```yaml\nother: 1\n```\n\n~~~YAML\n{TODAY}~~~\n"
    assert recipe_in_card(card) == recipe(TODAY) == recipe_in_card(card.replace("\n", "\r\n"))

    for block in ("merge_method: ties\n", "merge_method: [\n```\n", "- merge_method\n```\n"):
        assert recipe_in_card(f"```yaml\n{block}") is None
    assert recipe_in_card("") is recipe("models: [{model: org/a}]") is recipe("merge_method: [linear]") is None


def test_a_recipe_that_repeats_itself_without_end_is_not_worked_out():
    many = ", ".join(["{model: org/a, parameters: *p}"] * (MOST + 1))
    text = f"merge_method: ties\nx: &p {{weight: [{', '.join('1' * 100)}]}}\nmodels: [{many}]"
    assert recipe(text).weight("org/a", UP) is None
    long = f"merge_method: ties\nmodels: [{{model: org/a, parameters: {{weight: [{', '.join('1' * (MOST + 1))}]}}}}]"
    assert recipe(long).weight("org/a", UP) is None
