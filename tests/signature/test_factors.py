"""Branches: products unpacked, oriented and prepared as the recipe says, against small matrices written out by hand."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.schema import Factorization
from hf_lineage.hub.repo import resolve
from hf_lineage.signature.factors import Read, matrix_products, terms_by_expert
from hf_lineage.signature.matrix_product import MatrixProduct
from hf_lineage.signature.recipe import RECIPES, Array
from hf_lineage.source.headers import headers
from tests import experts

PAPER, ROBUST = RECIPES["paper"], RECIPES["robust"]
FOLDED = replace(PAPER, gains=True)
WIDTH, HEADS, SIZE = 6, 4, 3
MLP = {"up": "up", "down": "down"}
ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}
ALONE = [None, ATTENTION]


def model(mlp: Any = MLP, attention: Any = ATTENTION, **said: Any) -> Factorization:
    content = {"name": "tiny", "classes": [], "layers": "h.{layer}", "normalization": "rms_norm"} | said
    return msgspec.convert(content | {"branches": {"mlp": mlp, "attention": attention}}, Factorization)


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape) * 31 + len(shape)).standard_normal(shape, np.float32)


SHAPES = {
    "up": (5, WIDTH), "gate": (5, WIDTH), "down": (WIDTH, 5), "q": (HEADS * SIZE, WIDTH), "k": (2 * SIZE, WIDTH),
    "v": (2 * SIZE, WIDTH), "o": (WIDTH, HEADS * SIZE), "ln": (WIDTH,), "post": (WIDTH,),
}  # fmt: skip


def weights(**others: Array) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {name: generator.standard_normal(shape, np.float32) for name, shape in SHAPES.items()} | others


def branch(found: Factorization, stored: dict[str, Array], path: str, recipe: Any = PAPER) -> list[MatrixProduct]:
    named = {f"h.0.{name}" if "." in name else f"h.0.{name}.weight": tensor for name, tensor in stored.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    layout: Layout = bind(found, shapes, {"num_attention_heads": HEADS})
    return list(matrix_products(layout, path, 0, recipe, named.__getitem__))


def product(found: Factorization, stored: dict[str, Array], path: str, recipe: Any = PAPER) -> Array:
    """M of the only layer."""
    return sum((term.out @ term.inn for term in branch(found, stored, path, recipe)), np.zeros((), np.float32))


def equal(a: Array, b: Any) -> bool:
    return a.shape == b.shape and np.allclose(a, b, atol=1e-5)


PLAIN = weights()
GATED = model(MLP | {"gate": "gate"})


def test_mlp_products_are_down_times_up_and_attention_sums_over_heads():
    assert equal(product(GATED, PLAIN, "mlp"), PLAIN["down"] @ PLAIN["up"])
    assert equal(product(GATED, PLAIN, "mlp_gate"), PLAIN["down"] @ PLAIN["gate"])
    heads = [
        [PLAIN[name][start * SIZE : (start + 1) * SIZE] for name, start in (("q", head), ("k", key), ("v", key))]
        for head, key in enumerate([0, 0, 1, 1])  # two query heads next to each other have one key and one value head
    ]
    outputs = np.split(PLAIN["o"], HEADS, axis=1)
    by_hand = sum(output @ value for output, (_, _, value) in zip(outputs, heads, strict=True))
    assert equal(product(model(), PLAIN, "value_output"), by_hand)
    assert equal(product(model(), PLAIN, "query_key"), sum(query.T @ key for query, key, _ in heads))
    turned = {name: tensor.T if tensor.ndim == 2 else tensor for name, tensor in PLAIN.items()}
    for path in ("mlp", "value_output", "query_key"):
        assert equal(product(model(stored="in_out"), turned, path), product(model(), PLAIN, path))


def by_turns(*names, groups):
    """The rows of some matrices in groups, one group of each after the other."""
    return np.concatenate([PLAIN[name].reshape(groups, -1, WIDTH) for name in names], axis=1).reshape(-1, WIDTH)


@pytest.mark.parametrize(("how", "groups"), [("packed", (1, 1)), ("interleaved", (5, 2))])
def test_roles_packed_one_after_the_other_or_by_row_and_by_key_head_are_taken_apart(how, groups):
    stored = weights(gate_up=by_turns("gate", "up", groups=groups[0]), qkv=by_turns("q", "k", "v", groups=groups[1]))
    mlp = {how: {"gate_up": ["gate", "up"]}, "down": "down"}
    found = model(mlp, {how: {"qkv": ["query", "key", "value"]}, "output": "o"})
    for path in ("mlp", "mlp_gate", "value_output", "query_key"):
        assert equal(product(found, stored, path), product(GATED, PLAIN, path))


def test_experts_by_number_and_stacked_experts_give_the_sum_over_the_experts():
    up, down = random(3, 5, WIDTH), random(3, WIDTH, 5)
    by_hand = sum(down[expert] @ up[expert] for expert in range(3))
    numbered = {f"e.{n}.up": up[n] for n in range(3)} | {f"e.{n}.down": down[n] for n in range(3)}
    by_number = model({"up": "e.{expert}.up", "down": "e.{expert}.down"})
    assert equal(product(by_number, weights(**numbered), "mlp"), by_hand)
    stacked = weights(ups=up, downs=down)
    assert equal(product(model({"up": "ups", "down": "downs"}), stacked, "mlp"), by_hand)
    assert len(branch(model({"up": "ups", "down": "downs"}), stacked, "mlp")) == 1


def test_of_a_stack_one_expert_is_read_at_a_time(tmp_path):
    """Both readers lie in one tensor, which is stored the other way round."""
    experts.made(tmp_path / "model", "GptOss")
    found = headers(resolve(str(tmp_path / "model")))
    (whole,) = matrix_products(found.layout, "mlp", 0, ROBUST, found.checkpoint.read)
    opened, read = [], found.checkpoint.read

    def by_expert(names: tuple[str, ...]) -> Read:
        opened.append(names)
        return lambda name: found.checkpoint.experts(name) or read(name)

    several = list(terms_by_expert(found.layout, "mlp", 0, ROBUST, by_expert))
    assert (len(several), len(opened)) == (experts.EXPERTS, 1)
    assert all(isinstance(each.reader, np.ndarray) and len(each.reader) == experts.HIDDEN for each in several)
    np.testing.assert_array_equal(np.concatenate([each.inn for each in several]), whole.inn)
    np.testing.assert_array_equal(np.hstack([each.out for each in several]), whole.out)
    gates = np.concatenate([np.asarray(each.gate.stored) for each in several if each.gate])
    np.testing.assert_array_equal(gates, np.asarray(whole.gate.stored))


LN, POST = (np.diag(PLAIN[name]) for name in ("ln", "post"))
BARE = {path: product(model(), PLAIN, path) for path in ("mlp", "value_output", "query_key")}


def test_gains_are_folded_into_what_reads_or_of_an_output_norm_into_what_writes():
    found = model(MLP | {"norm": "ln"}, ATTENTION | {"norm": "ln"})
    assert equal(product(found, PLAIN, "mlp", FOLDED), BARE["mlp"] @ LN)
    assert equal(product(found, PLAIN, "value_output", FOLDED), BARE["value_output"] @ LN)
    assert equal(product(found, PLAIN, "query_key", FOLDED), LN @ BARE["query_key"] @ LN)
    assert equal(product(found, PLAIN, "mlp"), BARE["mlp"])
    less_one = model(MLP | {"norm": "ln"}, gain="one_plus")
    assert equal(product(less_one, PLAIN, "mlp", FOLDED), BARE["mlp"] @ (np.eye(WIDTH) + LN))
    found = model(MLP | {"output_norm": "post"}, ATTENTION | {"output_norm": "post"})
    for path in ("mlp", "value_output"):
        assert equal(product(found, PLAIN, path, FOLDED), POST @ BARE[path])
    assert equal(product(found, PLAIN, "query_key", FOLDED), BARE["query_key"])


OWN, SHARED, VALUE, RANK = 2, 1, 3, 5
LATENT = {
    "query": "q_b",
    "interleaved": {"kv_b": ["key", "value"]},
    "output": "o",
    "latent": {"q_b": ["q_a", "q_ln"], "kv_b": ["kv_a", "kv_ln"]},
}


@pytest.mark.parametrize("recipe", [PAPER, FOLDED], ids=["plain", "folded"])
def test_what_reads_a_latent_is_multiplied_with_what_makes_it(recipe):
    """Four heads whose queries and keys have two rows of their own and one that all keys share; values have three."""
    shapes = {
        "q_a": (RANK + 1, WIDTH), "q_ln": (RANK + 1,), "q_b": (HEADS * (OWN + SHARED), RANK + 1), "kv_ln": (RANK,),
        "kv_a": (RANK + SHARED, WIDTH), "kv_b": (HEADS * (OWN + VALUE), RANK), "o": (WIDTH, HEADS * VALUE),
    }  # fmt: skip
    stored = weights(**{name: random(*shape) for name, shape in shapes.items()})
    q_gain, kv_gain = (stored[name] if recipe.gains else np.ones(len(stored[name])) for name in ("q_ln", "kv_ln"))
    into_query, into_latent = np.diag(q_gain) @ stored["q_a"], np.diag(kv_gain) @ stored["kv_a"][:RANK]
    scores, written = np.zeros((WIDTH, WIDTH)), np.zeros((WIDTH, WIDTH))
    for head in range(HEADS):
        query = stored["q_b"][head * (OWN + SHARED) : (head + 1) * (OWN + SHARED)] @ into_query
        rows = stored["kv_b"][head * (OWN + VALUE) : (head + 1) * (OWN + VALUE)] @ into_latent
        scores += query[:OWN].T @ rows[:OWN] + query[OWN:].T @ stored["kv_a"][RANK:]
        written += stored["o"][:, head * VALUE : (head + 1) * VALUE] @ rows[OWN:]
    assert equal(product(model(attention=LATENT), stored, "query_key", recipe), scores)
    assert equal(product(model(attention=LATENT), stored, "value_output", recipe), written)


def test_gains_of_a_norm_inside_scale_units_and_taps_are_summed():
    stored = weights(inner=random(5), mid=random(HEADS * SIZE))
    found = model(MLP | {"inner_norm": "inner"}, ATTENTION | {"inner_norm": "mid"})
    assert equal(product(found, stored, "mlp", FOLDED), stored["down"] @ np.diag(stored["inner"]) @ stored["up"])
    assert equal(product(found, stored, "mlp"), BARE["mlp"])
    scaled = stored | {"o": stored["o"] @ np.diag(stored["mid"])}
    assert equal(product(found, stored, "value_output", FOLDED), product(model(), scaled, "value_output"))
    assert equal(product(found, stored, "query_key", FOLDED), BARE["query_key"])
    kernel, down = random(5, WIDTH, 3, 3), random(WIDTH, 5, 1, 1)
    found = product(model(attention=ALONE), {"up": kernel, "down": down}, "mlp")
    assert equal(found, down[:, :, 0, 0] @ kernel.sum(axis=(2, 3)))
    stored = {"up": random(5, WIDTH), "down": random(WIDTH, 5)}
    norm = {"ln": np.full(WIDTH, 3.0, np.float32), "ln.running_var": np.full(WIDTH, 4.0, np.float32)}
    found = model(mlp=MLP | {"norm": "ln"}, attention=ALONE, normalization="batch_norm")
    assert equal(product(found, stored | norm, "mlp", FOLDED), 1.5 * stored["down"] @ stored["up"])


@pytest.mark.parametrize("path", BARE)
def test_means_are_removed_on_both_sides_where_the_norm_subtracts_them(path):
    recipe, centre = replace(PAPER, means=True), np.eye(WIDTH) - np.ones((WIDTH, WIDTH)) / WIDTH
    assert equal(product(model(normalization="layer_norm"), PLAIN, path, recipe), centre @ BARE[path] @ centre)
    assert equal(product(model(), PLAIN, path, recipe), BARE[path])
