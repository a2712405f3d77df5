"""Shares beside the recipes of merges that mergekit made of the example models, and beside recipes that lie."""

import functools
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checking.check import check
from hf_lineage.checking.merge import read_matrices, with_shares
from hf_lineage.evidence.merge import BlendPlace, blend_of
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.sample import Sample
from hf_lineage.source import rows as reading
from hf_lineage.source.locate import locate_model
from hf_lineage.source.model import open_model
from hf_lineage.source.options import Options
from tests import gguf_models
from tests.blends import BASE, FAR, A, B, blended
from tests.checkpoint.formats import test_grouped as gptq
from tests.merges import HUB, SIBLING, merged, part
from tests.models import WEIGHTS, card, fine_tuned, spoil, tiny_llama
from tests.quantizing import repacked
from tests.streams import shuffled

OPTIONS = Options(local_hub=HUB, seed=0)


@pytest.fixture(scope="module")
def merge(tmp_path_factory):
    """Each of mergekit's merges by its name, made once."""
    folder = tmp_path_factory.mktemp("merges")
    return functools.cache(lambda name: merged(name, folder / name))


def parents(model, options=OPTIONS):
    """By its name every declared parent of a model."""
    return {row.claim.base: row.parent for row in check(str(model), options=options).rows}


def shares(found, path="mlp"):
    return {name: parent.shares[path].value for name, parent in found.items()}


def detected(found, path="mlp"):
    return [name for name, parent in found.items() if not parent.is_base and parent.shares[path].detected]


@pytest.mark.parametrize("name", ["linear", "three", "slerp"])
@pytest.mark.few(1)
def test_the_shares_of_linear_merges_and_slerp_are_those_of_the_recipe(merge, name):
    found = parents(merge(name))
    assert {parent.method for parent in found.values()} == {"slerp" if name == "slerp" else "linear"}
    for parent in found.values():
        assert parent.shares["mlp"].value == pytest.approx(parent.declared["mlp"], abs=0.01)
        assert (parent.shares["mlp"].detected, parent.remainders["mlp"] < 0.02) == (True, True)
    assert sum(shares(found).values()) == pytest.approx(1)


def test_task_arithmetic_and_pass_through_show_each_weight_and_layer(merge):
    assert [row.parent for row in check(A, options=OPTIONS).rows] == [None]
    found = parents(merge("through"))
    by_layer = {number: round(value, 3) + 0.0 for number, (value, _) in found[A].shares["mlp"].layers.items()}
    assert by_layer == dict.fromkeys(range(4), 1.0) | dict.fromkeys(range(4, 8), 0.0)
    assert found[A].declared == {"mlp": 0.5, "value_output": 0.5}
    found = parents(merge("task"))
    assert shares(found) == pytest.approx({BASE: -0.3, A: 0.8, B: 0.5}, abs=0.01)
    assert [name for name, parent in found.items() if parent.is_base] == [BASE]


@pytest.mark.parametrize("name", ["ties", "dare", "dare_linear"])
@pytest.mark.long
def test_of_sparse_differences_every_true_parent_is_detected_and_no_sibling(merge, name, tmp_path):
    folder = shutil.copytree(merge(name), tmp_path / name)
    found = parents(card(folder, [BASE, A, B, SIBLING], "merge"))
    assert detected(found) == [A, B]
    assert found[A].shares["mlp"].value > found[B].shares["mlp"].value > 0.3
    sibling = found[SIBLING].shares["mlp"]
    assert (sibling.low <= 0.01, abs(sibling.value) < 0.02, found[SIBLING].declared) == (True, True, {})


def test_a_weight_of_the_recipe_that_was_not_used_is_beside_no_detectable_share(merge, tmp_path):
    folder = merged("linear", tmp_path / "x", models=[part(A, weight=0.9999), part(B, weight=0.0001)])
    recipe = folder / "mergekit_config.yml"
    recipe.write_text(recipe.read_text().replace("0.9999", "0.5").replace("0.0001", "0.5"))
    found = parents(folder)
    assert found[B].declared == {"mlp": 0.5, "value_output": 0.5}
    assert detected(found) == [A]


@pytest.mark.long
def test_without_a_base_another_descendant_of_it_gives_no_figure_to_its_siblings(tmp_path):
    """What two fine-tunes have in common any other descendant of their base has as well."""
    for parent in parents(card(shutil.copytree(HUB / FAR, tmp_path / "x"), [A, B], "merge")).values():
        assert parent.shares == {}
        assert "declares no base from which differences could be taken" in parent.reason


@pytest.fixture
def hub(tmp_path):
    """Two fine-tunes of a tiny base in a local Hub, and their mean, whose card names both."""
    base = tiny_llama(tmp_path / "hub" / "acme" / "base")
    a, b = (fine_tuned(base, tmp_path / "hub" / "acme" / name, seed=seed) for name, seed in (("a", 1), ("b", 2)))
    mean, other = shutil.copytree(a, tmp_path / "mean"), load_file(b / WEIGHTS)
    spoil(mean, lambda tensors: tensors.update({name: (tensors[name] + other[name]) / 2 for name in other}))
    return tmp_path / "hub", card(mean, ["acme/a", "acme/b"], "merge")


def of(hub, model):
    return parents(model, Options(local_hub=hub, seed=0))


def test_a_merge_without_a_recipe_has_its_shares_unless_weights_are_not_finite(hub):
    place, mean = hub
    found = of(place, mean)
    assert shares(found) == pytest.approx({"acme/a": 0.5, "acme/b": 0.5}, abs=1e-3)
    assert {(parent.method, parent.declared == {}) for parent in found.values()} == {("", True)}
    names = [f"model.layers.0.{name}.weight" for name in ("mlp.up_proj", "self_attn.v_proj")]
    spoil(place / "acme" / "b", lambda tensors: [tensors[name].fill_(torch.nan) for name in names])
    assert of(place, mean)["acme/b"].reason.startswith("it is UNDECIDED inconclusive")


@pytest.mark.long
def test_a_parent_whose_units_were_permuted_since_is_said_to_be_another(hub):
    place, mean = hub

    spoil(place / "acme" / "b", lambda own: own.update(shuffled(own)))
    assert shares(of(place, mean), "value_output") == pytest.approx({"acme/a": 0.5, "acme/b": 0.5}, abs=1e-3)
    found = parents(mean, Options(local_hub=place, seed=0, paths=("mlp",)))
    assert found["acme/b"].shares == {}
    assert found["acme/b"].reason.startswith("hidden units of the model do not stand in the order")
    assert check(str(mean), options=Options(local_hub=place)).rows[1].verdict.verified


def test_a_parent_that_is_not_related_or_not_there_has_no_share_and_the_others_do(hub):
    place, mean = hub
    tiny_llama(place / "acme" / "other", seed=5)
    tiny_llama(place / "acme" / "wide", seed=5, width=64)
    (tiny_llama(place / "acme" / "gone") / WEIGHTS).unlink()
    card(mean, ["acme/a", "acme/b", "acme/other", "acme/wide", "acme/gone"], "merge")
    found = of(place, mean)
    reasons = [found[f"acme/{name}"].reason for name in ("other", "wide", "gone")]
    assert reasons == ["it is UNRELATED", "it is UNRELATED", "it is UNDECIDED no-weights"]
    assert found["acme/a"].shares["mlp"].value == pytest.approx(0.5, abs=1e-3)
    card(mean, ["acme/a", "acme/gone"], "merge")
    assert of(place, mean)["acme/a"].reason == "no other parent can be compared"


def test_a_signature_in_place_of_weights_holds_no_shares(hub):
    place, mean = hub
    rows = check(str(mean), options=Options(local_hub=place, seed=0)).rows
    rows = [replace(rows[0], base_model=None), rows[1]]
    model = open_model(RepoRef(str(mean), mean), OPTIONS)
    found, blended = with_shares(RepoRef(str(mean), mean), rows, model, (), OPTIONS)
    assert blended is None
    told = "merge contributions are measured on weights, but a signature was used in their place; --no-cache reads the"
    assert [row.parent.reason for row in found] == [f"{told} weights", "no other parent can be compared"]


def opened(name):
    return open_model(locate_model(str(name), OPTIONS), OPTIONS)


def blend(model, *parents):
    one = opened(model)
    found = read_matrices([opened(parent) for parent in parents], one, range(one.layers), Sample(0), False)
    return blend_of(found, len(parents), one.layers)


def values(found):
    return [share.value for share in found.shares.parents]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.few(1)
def test_57_and_43_percent_come_back_within_a_hundredth(tmp_path, dtype):
    found = blend(blended(tmp_path / "x", {BASE: 0.43, B: 0.57}, dtype), BASE, B)
    assert values(found) == pytest.approx([0.43, 0.57], abs=0.001)
    assert (found.pure, {*found.places}) == (True, {BlendPlace.BLEND})


def test_three_parents_two_from_four_bits_and_a_blend_by_attention_alone_come_back(tmp_path):
    found = blend(blended(tmp_path / "x", {BASE: 0.4, A: 0.35, B: 0.25}), BASE, A, B)
    assert values(found) == pytest.approx([0.4, 0.35, 0.25], abs=0.001)
    assert found.places == (BlendPlace.BLEND,) * 3
    found = blend(blended(tmp_path / "y", {BASE: 0.43, B: 0.57}, bits=4), BASE, B)
    assert values(found) == pytest.approx([0.43, 0.57], abs=0.05)
    assert found.places[1] is BlendPlace.HIDDEN
    found = blend(blended(tmp_path / "a", {BASE: 0.43, B: 0.57}, part="self_attn"), BASE, B)
    by_branch = {branch: shares.parents[1].value for branch, shares in found.by_branch.items()}
    assert by_branch == {"attention": pytest.approx(0.57, abs=0.001), "mlp": pytest.approx(0, abs=0.001)}
    assert found.places[1] is BlendPlace.BLEND
    pieces = blended(tmp_path / "b", {BASE: 0.0, B: 1.0}, part="self_attn")
    assert blend(pieces, BASE, B).places[1] is BlendPlace.PIECES


FILES = {
    "GGUF": lambda model, folder: gguf_models.write(model, folder / "model.gguf", kind=gguf_models.KINDS.Q4_0),
    "GPTQ": lambda model, folder: repacked(model, folder, gptq.gptq(), **gptq.settings()),
    "AWQ": lambda model, folder: repacked(model, folder, gptq.awq(), **gptq.AWQ),
}
PARTS = {"": (0.57, 0.57), "self_attn": (0.57, 0), "layers.1.": (0.57 / 6, 0.57 / 6)}
"""Which tensors are blended, and what of attention and of MLP comes from the second parent."""


@pytest.mark.parametrize("stored", FILES.values(), ids=FILES)
@pytest.mark.parametrize("part", PARTS, ids=["all", "attention", "a layer"])
@pytest.mark.few(1)
def test_from_files_of_four_bits_shares_come_back_within_a_twentieth(tmp_path, stored, part):
    model = blended(tmp_path / "x", {BASE: 0.43, B: 0.57}, part=part)
    found = blend(stored(model, tmp_path / "q"), BASE, B)
    by_branch = [found.by_branch[branch].parents[1].value for branch in ("attention", "mlp")]
    assert by_branch == pytest.approx(PARTS[part], abs=0.05)
    layers = found.shares.parents[1].layers
    assert (layers[1][0] > layers[0][0] + 0.4) is (part == "layers.1.")
    assert {*found.places} <= {BlendPlace.HIDDEN, BlendPlace.ASIDE}  # four bits hide which of them


def test_of_large_matrices_some_rows_are_read_and_other_shapes_have_no_share(tmp_path, monkeypatch):
    model = blended(tmp_path / "x", {BASE: 0.43, B: 0.57})
    found = blend(model, BASE, B, "otter/llama-independent", "acme/gpt2-base")
    assert [isinstance(share, str) for share in found.shares.parents] == [False, False, True, True]
    monkeypatch.setattr(reading, "LARGE", 1000)
    assert values(blend(model, BASE, B)) == pytest.approx([0.43, 0.57], abs=0.005)
