"""Layout: a factorization bound to a checkpoint's header, and what is said where the two do not fit."""

from typing import Any

import msgspec
import pytest
import yaml

from hf_lineage.architecture.layers import Heads
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.schema import Factorization
from hf_lineage.errors import CheckpointError

WIDTH, HIDDEN, HEADS, SIZE = 8, 12, 4, 3
CONFIG = {"num_attention_heads": HEADS}
LINEAR = dict.fromkeys(("q", "k", "v", "o", "ln_1"))  # the tensors that a layer without attention lacks

PLAIN = """
layers: h.{layer}
normalization: rms_norm
branches:
  mlp: {norm: ln_2, up: up, gate: gate, down: down}
  attention: {norm: ln_1, query: q, key: k, value: v, output: o}
"""
UNGATED = PLAIN.replace("gate: gate, ", "")
EXPERTS = PLAIN.replace(
    "mlp: {norm: ln_2, up: up, gate: gate, down: down}",
    "mlp: [{up: 'e.{expert}.up', down: 'e.{expert}.down'}, {up: up, down: down}, {up: stack.up, down: stack.down}]",
)


def factorization(text: str) -> Factorization:
    return msgspec.convert({"name": "tiny", "classes": ["Tiny"], **yaml.safe_load(text)}, Factorization)


def layer(number: int = 0, /, **others: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of one layer; `others` are put in their place, or taken out."""
    shapes: dict[str, Any] = {
        **dict.fromkeys(("ln_1", "ln_2"), (WIDTH,)),
        **dict.fromkeys(("up", "gate"), (HIDDEN, WIDTH)),
        **dict.fromkeys(("k", "v"), (2 * SIZE, WIDTH)),
        **{"down": (WIDTH, HIDDEN), "q": (HEADS * SIZE, WIDTH), "o": (WIDTH, HEADS * SIZE)},
    } | others
    ends = {name: "" if name.endswith(".bias") else ".weight" for name in shapes}
    return {f"h.{number}.{name}{ends[name]}": shape for name, shape in shapes.items() if shape is not None}


def bound(text: str = PLAIN, shapes: dict[str, tuple[int, ...]] | None = None, config: Any = None) -> Layout:
    return bind(factorization(text), layer() if shapes is None else shapes, CONFIG if config is None else config)


def refusal(shapes: dict[str, tuple[int, ...]], text: str = PLAIN, config: Any = None) -> str:
    with pytest.raises(CheckpointError) as refused:
        bound(text, shapes, config)
    return str(refused.value)


def test_layers_width_heads_and_paths_are_read_from_the_header():
    layout = bound(shapes=layer(0) | layer(1) | {"embed.weight": (100, WIDTH)})
    assert (layout.layers, layout.width, layout.heads, layout.unclaimed) == (2, WIDTH, HEADS, ())
    mlp, attention = layout.sets("mlp")[1][0], layout.sets("value_output")[0][0]
    assert (mlp.norm, mlp.heads["up"]) == ("h.1.ln_2.weight", Heads(HIDDEN, 1))
    assert (attention.heads["query"], attention.heads["key"]) == (Heads(HEADS, SIZE), Heads(2, SIZE))
    assert layout.paths == ("mlp", "mlp_gate", "value_output", "query_key")
    assert bound(UNGATED).paths == ("mlp", "value_output", "query_key")
    text = PLAIN[: PLAIN.index("  attention")]  # without attention heads need not be counted
    assert bound(text, layer(0, **LINEAR), {}).paths == ("mlp", "mlp_gate")


INSIDE = "text_config.heads"
WITHOUT: list[Any] = [{}, {"text_config": None}, {"text_config": {}}, {INSIDE: HEADS}]


@pytest.mark.parametrize(
    ("key", "config", "named", "value"),
    [
        *(("n_head", {"n_head": heads}, "n_head", heads) for heads in (None, 0, -4, "4", True, 4.0, [4])),
        ("[n_head, num_attention_heads]", {}, "n_head", None),
        *((INSIDE, said, INSIDE, None) for said in WITHOUT),
    ],
)
def test_heads_are_counted_by_the_first_key_that_is_there_and_are_a_positive_integer(key, config, named, value):
    for counted in ({"num_attention_heads": HEADS}, {"n_head": HEADS, "num_attention_heads": 1}):
        assert bound(f"heads: [n_head, num_attention_heads]\n{PLAIN}", config=counted).heads == HEADS
    assert bound(f"heads: {INSIDE}\n{PLAIN}", config={"text_config": {"heads": HEADS}}).heads == HEADS
    said = f"config.json: `{named}` must be a positive integer, not {value!r}"
    assert refusal(layer(), f"heads: {key}\n{PLAIN}", config) == said


MIXED = PLAIN.replace("attention: {", "attention: [{").replace("output: o}", "output: o}, null]")


def test_a_set_counts_only_where_the_layer_has_the_tensor_that_it_asks_for():
    text = PLAIN.replace(
        "mlp: {norm: ln_2, up: up, gate: gate, down: down}",
        "mlp: [{where: conv, norm: ln_2, up: up, down: down}, {where: q, output_norm: ln_2, up: up, down: down}]",
    ).replace("attention: {", "attention: [null, {where: q, ")
    text = text.replace("output: o}", "output: o}]")
    (linear,), (full,) = bound(text, layer(0, **LINEAR, conv=(1, 3)) | layer(1)).sets("mlp")
    assert (linear.norm, linear.output_norm) == ("h.0.ln_2.weight", None)
    assert (full.norm, full.output_norm) == (None, "h.1.ln_2.weight")
    assert refusal(layer(q=None), text) == "h.0 has no tensor conv or q"
    assert refusal(layer(gate=None)) == "h.0 has no tensor gate, although others of its branch are there"


def test_where_null_is_in_a_list_a_layer_may_lack_the_branch_but_not_all_of_them():
    layout = bound(MIXED, layer(0, **LINEAR) | layer(1) | layer(2, **LINEAR) | layer(3))
    assert (layout.layers, layout.numbers("mlp"), layout.numbers("query_key")) == (4, (0, 1, 2, 3), (1, 3))
    assert (layout.without("mlp"), layout.without("value_output")) == ((), (0, 2))
    assert layout.paths == ("mlp", "mlp_gate", "value_output", "query_key")
    assert bound(MIXED, layer(0, **LINEAR)).paths == ("mlp", "mlp_gate")
    text = MIXED.replace("mlp: {", "mlp: [{").replace("down: down}", "down: down}, null]")
    dense = dict.fromkeys(("up", "gate", "down", "ln_2"))
    assert bound(text, layer(0, **dense)).paths == ("value_output", "query_key")
    said = refusal(layer(0, **LINEAR, **dense, other=(3, WIDTH)), text)
    assert said == "no layer has a branch that factorization tiny knows"


BESIDE = """
layers: ["model.att.{layer}", "att.{layer}"]
normalization: rms_norm
branches:
  mlp: {up: "ffn.{layer}.up", down: "ffn.{layer}.down", norm: "norm.{layer}"}
  attention: {query: q, key: k, value: v, output: o}
"""


@pytest.mark.parametrize("model", ["", "model."])
def test_a_name_with_the_number_of_the_layer_stands_beside_the_layers(model):
    shapes = {f"{model}norm.{number}.weight": (WIDTH,) for number in range(2)}
    for part, names in (("att", ("q", "k", "v", "o")), ("ffn", ("up", "down", "gate"))):
        sizes = {name: layer()[f"h.0.{name}.weight"] for name in names}
        shapes |= {f"{model}{part}.{number}.{name}": size for number in range(2) for name, size in sizes.items()}
    layout = bound(BESIDE, shapes)
    mlp = layout.sets("mlp")[1][0]
    assert (mlp.slots["up"].tensor, mlp.norm) == (f"{model}ffn.1.up", f"{model}norm.1.weight")
    assert layout.sets("value_output")[1][0].slots["query"].tensor == f"{model}att.1.q"
    assert layout.unclaimed == (f"{model}ffn.0.gate", f"{model}ffn.1.gate")


LATENT = """
layers: h.{layer}
normalization: rms_norm
branches:
  mlp: {up: up, down: down}
  attention:
    query: q_b
    interleaved: {kv_b: [key, value]}
    output: o
    latent: {q_b: [q_a, q_ln], kv_b: [kv_a, kv_ln]}
"""


def latent(**others: Any) -> dict[str, tuple[int, ...]]:
    """Heads of two rows of their own and one that all share, with values of three, from latents of six and five."""
    shapes = {"q_a": (6, WIDTH), "q_ln": (6,), "q_b": (HEADS * 3, 6), "kv_a": (5 + 1, WIDTH), "kv_ln": (5,)}
    return layer(gate=None, q=None, k=None, v=None, **(shapes | {"kv_b": (HEADS * (2 + 3), 5)} | others))


def test_heads_that_read_a_latent_have_the_sizes_that_the_shapes_say():
    found = bound(LATENT, latent()).sets("value_output")[0][0]
    assert found.heads == {"query": Heads(HEADS, 3), "key": Heads(HEADS, 2), "value": Heads(HEADS, 3)}
    assert {"h.0.q_a.weight", "h.0.kv_a.weight", "h.0.q_ln.weight", "h.0.kv_ln.weight"} <= set(found.tensors)
    assert "h.0.q_a.weight" not in found.read_by("value", "output")
    for name, shape, fitting in (("q_a", (7, WIDTH), (6, 8)), ("kv_a", (4, WIDTH), (5, 8)), ("kv_b", (21, 5), (20, 5))):
        said = f"h.0.{name}.weight has shape {shape}, but the rest of the model needs {fitting} (out, in)"
        assert refusal(latent(**{name: shape}), LATENT) == said
    said = "h.0.kv_a.weight has shape (6,), which is not the shape of a matrix"
    assert refusal(latent(kv_a=(6,)), LATENT) == said


BIASES: list[tuple[str, tuple[int, ...]]] = [("up", (HIDDEN + 1,)), ("gate", (HIDDEN, 1)), ("gate", ())]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"up": (HIDDEN + 1, WIDTH)}, "up.weight has shape (13, 8), but the rest of the model needs (12, 8) (out, in)"),
        ({"down": (WIDTH,)}, "down.weight has shape (8,), which is not the shape of a matrix"),
        ({"down": (0, HIDDEN)}, "down.weight has shape (0, 12), which is not the shape of a matrix"),
        ({"ln_1": (WIDTH + 1,)}, "ln_1.weight has shape (9,), but the rest of the model needs (8,) (out, in)"),
        ({"v": (2, 2 * SIZE, WIDTH)}, "v.weight has shape (2, 6, 8), but the rest of the model needs (6, 8) (out, in)"),
        ({"k": (3 * SIZE, WIDTH), "v": (3 * SIZE, WIDTH)}, "o.weight: 4 query, 3 key, 3 value heads do not fit the 4"),
        ({"k": (SIZE, WIDTH)}, "o.weight: 4 query, 1 key, 2 value heads do not fit the 4 heads of config.json"),
        ({"k": (2 * SIZE + 1, WIDTH)}, "k.weight has shape (7, 8), but the rest of the model needs (6, 8)"),
        ({"o": (WIDTH, HEADS * SIZE + 1)}, "o.weight has shape (8, 13) (out, in), which does not divide into 4 heads"),
        ({"q": (HEADS * SIZE + 2, WIDTH)}, "q.weight has shape (14, 8) (out, in), which does not divide into 4 heads"),
        *(
            ({f"{name}.bias": shape}, f"{name}.bias has shape {shape}, but the rest of the model needs")
            for name, shape in BIASES
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changes, said):
    assert refusal(layer(**changes)).startswith(f"h.0.{said}")


def test_queries_may_have_another_size_than_values_and_roles_may_share_a_matrix():
    found = bound(shapes=layer(q=(HEADS * 5, WIDTH), k=(2 * 5, WIDTH))).sets("value_output")[0][0]
    assert found.heads == {"query": Heads(HEADS, 5), "key": Heads(2, 5), "value": Heads(2, SIZE)}
    packed = PLAIN.replace("query: q, key: k, value: v", "packed: {qkv: [query, key, value]}")
    others = {"q": None, "k": None, "v": None}
    found = bound(packed, layer(qkv=((HEADS + 2 + 2) * SIZE, WIDTH), **others)).sets("value_output")[0][0]
    assert found.heads == {"query": Heads(HEADS, SIZE), "key": Heads(2, SIZE), "value": Heads(2, SIZE)}
    for rows, said in ((3, "h.0.qkv.weight has shape (21, 8), but"), (0, "h.0.o.weight: 4 query, 0 key")):
        assert refusal(layer(qkv=((HEADS + rows) * SIZE, WIDTH), **others), packed).startswith(said)


def test_no_part_of_an_expert_may_be_missing_and_stacks_of_them_are_equally_deep():
    sizes = {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    experts = {f"e.{number}.{role}": size for number in (0, 1) for role, size in sizes.items()}
    assert len(bound(EXPERTS, layer(gate=None, **experts)).sets("mlp")[0]) == 3
    for lost in ("e.1.up", "e.1.down"):
        said = f"h.0 has no tensor {lost}, although others of its branch are there"
        assert refusal(layer(gate=None, **experts | {lost: None}), EXPERTS) == said
    stacked = {"stack.up": (5, HIDDEN, WIDTH), "stack.down": (5, WIDTH, HIDDEN)}
    shapes = layer(gate=None, up=None, down=None, **stacked)
    assert bound(EXPERTS, shapes).width == WIDTH
    said = "h.0.stack.up.weight has shape (4, 12, 8), but the rest of the model needs (5, 12, 8) (out, in)"
    assert refusal(shapes | {"h.0.stack.up.weight": (4, HIDDEN, WIDTH)}, EXPERTS) == said


def test_a_matrix_of_the_residual_width_that_nothing_reads_is_unclaimed():
    others = {"router": (5, WIDTH), "bias": (WIDTH,), "q_norm": (SIZE,), "mask": (1, 1, WIDTH, WIDTH)}
    assert bound(shapes=layer(**others)).unclaimed == ("h.0.router.weight",)
    assert bound(f"ignores: [router]\n{PLAIN}", layer(**others)).unclaimed == ()


def test_biases_of_the_right_shapes_are_bound():
    stacked = {"up": (3, 4, WIDTH), "gate": None, "down": (3, WIDTH, 4)}
    (stack,) = bound(UNGATED, layer(**stacked, **{"up.bias": (3, 4)})).sets("mlp")[0]
    assert dict(stack.biases) == {"h.0.up.weight": "h.0.up.bias"}
    (plain,) = bound(PLAIN, layer(**{"up.bias": (HIDDEN,), "gate.bias": (HIDDEN,)})).sets("mlp")[0]
    assert set(plain.biases.values()) == {"h.0.up.bias", "h.0.gate.bias"}
    for shape in ((4,), (3, 5)):
        said = refusal(layer(**stacked, **{"up.bias": shape}), UNGATED)
        assert said.startswith(f"h.0.up.bias has shape {shape}, but the rest of the model needs")
