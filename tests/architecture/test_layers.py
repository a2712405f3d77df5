"""Layers: found by the names in a checkpoint, counted without a gap, each with its own tensors."""

import msgspec
import pytest

from hf_lineage.architecture.layers import Layer, Stack, find_layers, find_sets
from hf_lineage.architecture.schema import MatrixSet
from hf_lineage.errors import CheckpointError
from tests.architecture.test_layout import factorization

PLAIN = """
layers: {layers}
normalization: rms_norm
branches:
  mlp: {{norm: {norm}, up: up, down: down}}
"""
STACKS = "{encoder: 'e.{layer}', decoder: 'd.{stage}.{layer}'}"


def shapes(*names):
    return dict.fromkeys(names, (4, 4))


def found(names, layers="h.{layer}", norm="ln"):
    return find_layers(factorization(PLAIN.format(layers=layers, norm=norm)), shapes(*names))


def layer(*names, outside="", **others):
    own = {f"h.3.{name}": shape for name, shape in others.items()}
    return Layer(Stack("", 0), 3, "h.3", outside, shapes(*names) | own)


def test_every_layer_has_its_own_tensors_in_the_order_of_its_number():
    layers = found(["h.10.up.weight", *(f"h.{n}.up.weight" for n in range(10)), "h.2.ln", "wte", "xh.0.up", "h.x.up"])
    assert [each.prefix for each in layers] == [f"h.{number}" for number in range(11)]
    assert list(layers[2].shapes) == ["h.2.up.weight", "h.2.ln"]


@pytest.mark.parametrize(
    ("names", "layers", "message"),
    [
        (["h.0.up", "h.2.up"], "h.{layer}", "the weights have no layer 1 but layer 2; have the weights saved again"),
        (["h.1.up"], "h.{layer}", "the weights have no layer 0 but layer 1"),
        (["h.999999.up", "h.0.up"], "h.{layer}", "the weights have no layer 1 but layer 999999"),
        (["d.1.0.up", "e.0.up"], STACKS, "the weights have no stage 0 but stage 1"),
        (["h.0000000.up", "h.1234567.up"], "h.{layer}", r"no tensor is named like h\.{layer}, as factorization tiny "),
    ],
)
def test_a_gap_is_named_and_a_number_too_long_to_count_is_none(names, layers, message):
    with pytest.raises(CheckpointError, match=message):
        found(names, layers)


def test_stacks_and_stages_follow_one_another_with_what_stands_beside_a_layer():
    layers = found(["d.1.0.up", "d.0.0.up", "d.0.1.up", "e.0.up"], STACKS)
    places = [(each.stack.name, each.stack.stage, each.number) for each in layers]
    assert places == [("encoder", 0, 0), ("decoder", 0, 0), ("decoder", 0, 1), ("decoder", 1, 0)]
    names = [f"m.{place}.{number}.weight" for number in (0, 1) for place in ("h", "norms")]
    (first, second) = found(names, "m.h.{layer}", "'norms.{layer}'")
    assert set(second.shapes) == {"m.h.1.weight", "m.norms.1.weight"}
    assert (first.outer_prefix, first.find("norms.{layer}")) == ("m.", "m.norms.0.weight")


def test_a_name_is_relative_unless_it_has_the_layers_number_and_experts_are_counted():
    full = [layer(outside="m.").full(name) for name in ("up", "a.b", "n.{layer}.w", "e.{expert}")]
    assert full == ["h.3.up", "h.3.a.b", "m.n.3.w", "h.3.e.{expert}"]
    here = layer("h.3.e.0.up", "h.3.e.1.up.weight", "h.3.e.1.down", "h.3.e.x.up", "h.4.e.7.up")
    assert here.experts(["e.{expert}.up", "e.{expert}.down"]) == range(2)
    assert here.experts(["up"]) == range(1)
    assert layer("h.3.up").experts(["e.{expert}.up"]) == range(0)
    with pytest.raises(CheckpointError, match=r"h\.3 has no expert 0 but expert 2; have the weights saved again"):
        layer("h.3.e.2.up").experts(["e.{expert}.up"])


def test_only_matrices_of_the_width_of_the_stream_can_be_unclaimed():
    here = layer(
        **{"up": (8, 4), "other": (8, 4), "vector": (4,), "narrow": (8, 5), "stack": (2, 8, 4), "kernel": (8, 5, 4, 4)},
        **{"conv": (8, 4, 3, 3), "router.0.weight": (8, 4), "skip.this": (4, 4)},
    )
    ignores = ("router.{expert}", "skip.*")
    assert list(here.find_unclaimed(4, {"h.3.up"}, ignores)) == ["h.3.other", "h.3.stack", "h.3.conv"]
    assert list(here.find_unclaimed(4, set(here.shapes), ())) == []


BLOCKS = "{down: 'down.{block}.attentions.{block}.blocks.{layer}', mid: 'mid.{block}.blocks.{layer}'}"
UNET = [f"down.{block}.blocks.{layer}" for block, layer in (("1.attentions.0", 0), ("1.attentions.0", 1))]
UNET += ["down.1.attentions.1.blocks.0", "down.10.attentions.0.blocks.0", "mid.0.blocks.0"]
TWO = "['m.h.{layer}', 'h.{layer}']"


@pytest.mark.parametrize(
    ("names", "layers", "prefixes", "stacks"),
    [
        (["h.0.up", "m.h.0.up"], TWO, ["m.h.0"], 1),
        (["h.0.up"], TWO, ["h.0"], 1),
        ([*(f"{prefix}.up.weight" for prefix in UNET), "down.0.resnets.0.conv.weight"], BLOCKS, UNET, 4),
    ],
    ids=["the first of two", "the one that is there", "of blocks within each other only some have layers"],
)
def test_layers_stand_under_the_first_prefix_that_is_there(names, layers, prefixes, stacks):
    layers = found(names, layers)
    assert ([each.prefix for each in layers], len({each.stack for each in layers})) == (prefixes, stacks)


MLP, BOTH = {"up": "up", "down": "down"}, ("up", "down")


def sets(*said, names=BOTH):
    """The sets that a layer of these tensors has, of sets as a registry file says them; None for one it may lack."""
    declared = tuple(None if each is None else msgspec.convert(each, MatrixSet) for each in said)
    here = Layer(Stack("", 0), 0, "h.0", "", shapes(*(f"h.0.{name}" for name in names)))
    return find_sets(declared[0] if len(declared) == 1 and declared[0] else declared, here)


@pytest.mark.parametrize("kind", ["norm", "output_norm", "inner_norm"])
def test_of_several_names_the_first_on_disk_counts_and_null_lets_it_be_absent(kind):
    special = MLP | {"where": "marker", "unless": ["shortcut", "other"]}
    found = [len(sets(special, None, names=[*BOTH, *more])) for more in ([], ["marker"], ["marker", "other"])]
    assert found == [0, 1, 0], "a set is of layers that have what it asks for and lack what it excludes"
    both = MLP | {kind: ["a", "b", None]}
    for more, first in ((["b", "a"], "h.0.a"), (["b"], "h.0.b"), ([], None)):
        assert getattr(sets(both, names=[*BOTH, *more])[0], kind) == first
    with pytest.raises(CheckpointError, match=r"h\.0 has no norm a or b"):
        sets(MLP | {kind: ["a", "b"]})


@pytest.mark.parametrize("pair", ["up.weight up.bias", "up up_bias", "up up.bias", "up.weight up.beta"])
def test_a_bias_stands_beside_its_matrix_under_one_of_the_usual_names(pair):
    matrix, bias = pair.split()
    (found,) = sets(MLP, names=[matrix, "down", bias, "other.bias"])
    assert found.biases == {f"h.0.{matrix}": f"h.0.{bias}"}


def test_a_set_names_where_roles_norms_latents_and_variances_are_stored():
    latent = {"query": "q", "key": "k", "value": "v", "output": "o", "latent": {"k": ["down", "ln"]}}
    (found,) = sets(latent, names=["q", "k", "v", "o", "down", "ln.weight", "ln.running_var"])
    assert found.variances == {"h.0.ln.weight": "h.0.ln.running_var"}
    assert found.slots["key"].tensors == ("h.0.k", "h.0.down", "h.0.ln.weight")
    packed = {"down": "down", "packed": {"both": ["gate", "up"]}, "norm": "ln", "inner_norm": "ln"}
    (found,) = sets(packed, names=["both", "down", "ln.weight", "ln.running_var"])
    norm = ("h.0.ln.weight", "h.0.ln.running_var")
    assert found.read_by("gate", "up") == ("h.0.both", *norm)
    assert found.read_by("down") == ("h.0.down", *norm)
    assert sorted(found.tensors) == sorted({"h.0.both", "h.0.down", *norm})
