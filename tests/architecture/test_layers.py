"""Layers: found by the names in a checkpoint, counted without a gap, each with its own tensors."""

import pytest

from hf_lineage.architecture.layers import Layer, Stack, find_layers
from hf_lineage.errors import CheckpointError
from tests.architecture.test_layout import factorization

PLAIN = """
layers: {layers}
normalization: rms_norm
branches:
  mlp: {{norm: {norm}, up: up, down: down}}
"""


def shapes(*names):
    return dict.fromkeys(names, (4, 4))


def found(names, layers="h.{layer}", norm="ln"):
    return find_layers(factorization(PLAIN.format(layers=layers, norm=norm)), shapes(*names))


def layer(*names, prefix="h.3", outside=""):
    return Layer(Stack("", 0), 3, prefix, outside, shapes(*names))


def test_every_layer_has_its_own_tensors_in_the_order_of_its_number():
    layers = found(["h.10.up.weight", *(f"h.{n}.up.weight" for n in range(10)), "h.2.ln", "wte", "xh.0.up", "h.x.up"])
    assert [each.number for each in layers] == list(range(11))
    assert list(layers[2].shapes) == ["h.2.up.weight", "h.2.ln"]
    assert layers[10].prefix == "h.10"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["h.0.up", "h.2.up"], "the weights have no layer 1 but layer 2; have the weights saved again"),
        (["h.1.up"], "the weights have no layer 0 but layer 1"),
        (["h.999999.up", "h.0.up"], "the weights have no layer 1 but layer 999999"),
    ],
)
def test_a_gap_is_named(names, message):
    with pytest.raises(CheckpointError, match=message):
        found(names)


def test_a_number_too_long_to_count_is_none():
    with pytest.raises(CheckpointError, match=r"no tensor is named like h\.{layer}, as factorization tiny expects"):
        found(["h.0000000.up", "h.1234567.up"])


def test_of_several_prefixes_the_first_that_is_there_counts():
    both = "['m.h.{layer}', 'h.{layer}']"
    assert [each.prefix for each in found(["h.0.up", "m.h.0.up"], both)] == ["m.h.0"]
    assert [each.prefix for each in found(["h.0.up"], both)] == ["h.0"]


def test_stacks_follow_one_another_and_stages_within_them():
    stacks = "{encoder: 'e.{layer}', decoder: 'd.{stage}.{layer}'}"
    layers = found(["d.1.0.up", "d.0.0.up", "d.0.1.up", "e.0.up"], stacks)
    assert [(each.stack.name, each.stack.stage, each.number) for each in layers] == [
        ("encoder", 0, 0), ("decoder", 0, 0), ("decoder", 0, 1), ("decoder", 1, 0),
    ]  # fmt: skip
    with pytest.raises(CheckpointError, match="the weights have no stage 0 but stage 1"):
        found(["d.1.0.up", "e.0.up"], stacks)


def test_what_stands_beside_the_layers_under_their_number_belongs_to_them():
    (first, second) = found(
        ["m.h.0.up", "m.norms.0.weight", "m.h.1.up", "m.norms.1.weight"], "m.h.{layer}", "'norms.{layer}'"
    )
    assert set(second.shapes) == {"m.h.1.up", "m.norms.1.weight"}
    assert (first.outside, first.find("norms.{layer}")) == ("m.", "m.norms.0.weight")


@pytest.mark.parametrize(
    ("name", "full"),
    [("up", "h.3.up"), ("a.b", "h.3.a.b"), ("n.{layer}.w", "m.n.3.w"), ("e.{expert}", "h.3.e.{expert}")],
)
def test_a_name_is_relative_to_the_layer_unless_it_has_its_number(name, full):
    assert layer(outside="m.").full(name) == full


def test_experts_are_counted_over_all_names_without_a_gap():
    here = layer("h.3.e.0.up", "h.3.e.1.up.weight", "h.3.e.1.down", "h.3.e.x.up", "h.4.e.7.up")
    assert here.experts(["e.{expert}.up", "e.{expert}.down"]) == range(2)
    assert here.experts(["up"]) == range(1)
    assert layer("h.3.up").experts(["e.{expert}.up"]) == range(0)
    with pytest.raises(CheckpointError, match=r"h\.3 has no expert 0 but expert 2; have the weights saved again"):
        layer("h.3.e.2.up").experts(["e.{expert}.up"])


def test_only_matrices_of_the_width_of_the_stream_can_be_unclaimed():
    here = Layer(
        Stack("", 0),
        3,
        "h.3",
        "",
        {
            "h.3.up": (8, 4),
            "h.3.other": (8, 4),
            "h.3.vector": (4,),
            "h.3.narrow": (8, 5),
            "h.3.stack": (2, 8, 4),
            "h.3.kernel": (8, 5, 4, 4),
            "h.3.conv": (8, 4, 3, 3),
            "h.3.router.0.weight": (8, 4),
            "h.3.skip.this": (4, 4),
        },
    )
    ignores = ("router.{expert}", "skip.*")
    assert list(here.unclaimed(4, {"h.3.up"}, ignores)) == ["h.3.other", "h.3.stack", "h.3.conv"]
    assert list(here.unclaimed(4, set(here.shapes), ())) == []


BLOCKS = "{down: 'down.{block}.attentions.{block}.blocks.{layer}', mid: 'mid.{block}.blocks.{layer}'}"
UNET = (
    "down.1.attentions.0.blocks.0",
    "down.1.attentions.0.blocks.1",
    "down.1.attentions.1.blocks.0",
    "down.10.attentions.0.blocks.0",
    "mid.0.blocks.0",
)


def test_of_blocks_within_each_other_only_some_have_layers():
    layers = found([*(f"{prefix}.up.weight" for prefix in UNET), "down.0.resnets.0.conv.weight"], BLOCKS)
    assert [each.prefix for each in layers] == list(UNET)
    assert len({each.stack for each in layers}) == 4
