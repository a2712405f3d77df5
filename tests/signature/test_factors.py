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
WIDTH, HEADS, SIZE = 6, 4, 3

MLP = {"up": "up", "down": "down"}
ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}


def model(mlp: Any = MLP, attention: Any = ATTENTION, **said: Any) -> Factorization:
    content = {"name": "tiny", "classes": [], "layers": "h.{layer}", "normalization": "rms_norm"} | said
    return msgspec.convert(content | {"branches": {"mlp": mlp, "attention": attention}}, Factorization)


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape) * 31 + len(shape)).standard_normal(shape, np.float32)


def weights(**others: Array) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    shapes = {
        "up": (5, WIDTH),
        "gate": (5, WIDTH),
        "down": (WIDTH, 5),
        "q": (HEADS * SIZE, WIDTH),
        "k": (2 * SIZE, WIDTH),
        "v": (2 * SIZE, WIDTH),
        "o": (WIDTH, HEADS * SIZE),
        "ln": (WIDTH,),
        "post": (WIDTH,),
    }
    return {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()} | others


def product(found: Factorization, stored: dict[str, Array], path: str, recipe: Any = PAPER) -> Array:
    """M of the only layer."""
    return sum((term.out @ term.inn for term in branch(found, stored, path, recipe)), np.zeros((), np.float32))


def branch(found: Factorization, stored: dict[str, Array], path: str, recipe: Any = PAPER) -> list[MatrixProduct]:
    named = {f"h.0.{name}" if "." in name else f"h.0.{name}.weight": tensor for name, tensor in stored.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    layout: Layout = bind(found, shapes, {"num_attention_heads": HEADS})
    return list(matrix_products(layout, path, 0, recipe, named.__getitem__))


def equal(a: Array, b: Any) -> bool:
    return a.shape == b.shape and np.allclose(a, b, atol=1e-5)


def test_the_mlp_product_is_down_times_up_and_the_gate_product_down_times_gate():
    stored = weights()
    found = model(mlp=MLP | {"gate": "gate"})
    assert equal(product(found, stored, "mlp"), stored["down"] @ stored["up"])
    assert equal(product(found, stored, "mlp_gate"), stored["down"] @ stored["gate"])


def test_a_value_head_serves_the_query_heads_next_to_each_other():
    stored = weights()
    served = [0, 0, 1, 1]  # 4 query heads, 2 value heads
    by_hand = sum(
        stored["o"][:, head * SIZE : (head + 1) * SIZE] @ stored["v"][value * SIZE : (value + 1) * SIZE]
        for head, value in enumerate(served)
    )
    assert equal(product(model(), stored, "value_output"), by_hand)


def test_the_query_key_product_is_summed_over_the_heads():
    stored = weights()
    by_hand = sum(
        stored["q"][head * SIZE : (head + 1) * SIZE].T @ stored["k"][key * SIZE : (key + 1) * SIZE]
        for head, key in enumerate([0, 0, 1, 1])
    )
    assert equal(product(model(), stored, "query_key"), by_hand)


def test_roles_packed_one_after_the_other_are_taken_apart_in_order():
    stored = weights()
    stored["gate_up"] = np.concatenate([stored["gate"], stored["up"]])
    stored["qkv"] = np.concatenate([stored["q"], stored["k"], stored["v"]])
    found = model(
        {"packed": {"gate_up": ["gate", "up"]}, "down": "down"},
        {"packed": {"qkv": ["query", "key", "value"]}, "output": "o"},
    )
    for path in ("mlp", "mlp_gate", "value_output", "query_key"):
        assert equal(product(found, stored, path), product(model(MLP | {"gate": "gate"}), stored, path))


def test_roles_packed_by_turns_are_taken_apart_by_row_and_by_key_head():
    stored = weights()
    stored["gate_up"] = np.stack([stored["gate"], stored["up"]], axis=1).reshape(-1, WIDTH)
    query, key, value = (stored[name].reshape(2, -1, WIDTH) for name in ("q", "k", "v"))
    stored["qkv"] = np.concatenate([query, key, value], axis=1).reshape(
        -1, WIDTH
    )  # two query heads, their key, their value; again
    found = model(
        {"interleaved": {"gate_up": ["gate", "up"]}, "down": "down"},
        {"interleaved": {"qkv": ["query", "key", "value"]}, "output": "o"},
    )
    for path in ("mlp", "mlp_gate", "value_output", "query_key"):
        assert equal(product(found, stored, path), product(model(MLP | {"gate": "gate"}), stored, path))


def test_matrices_stored_in_out_give_the_same_products():
    stored = weights()
    turned = {name: tensor.T if tensor.ndim == 2 else tensor for name, tensor in stored.items()}
    for path in ("mlp", "value_output", "query_key"):
        assert equal(product(model(stored="in_out"), turned, path), product(model(), stored, path))


def test_experts_by_number_and_stacked_experts_give_the_sum_over_the_experts():
    up, down = random(3, 5, WIDTH), random(3, WIDTH, 5)
    by_hand = sum(down[expert] @ up[expert] for expert in range(3))
    numbered = {f"e.{n}.up": up[n] for n in range(3)} | {f"e.{n}.down": down[n] for n in range(3)}
    assert equal(
        product(model({"up": "e.{expert}.up", "down": "e.{expert}.down"}), weights(**numbered), "mlp"), by_hand
    )
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


def test_gains_are_folded_into_what_reads_the_norm():
    stored, recipe = weights(), replace(PAPER, gains=True)
    gain = np.diag(stored["ln"])
    found = model(MLP | {"norm": "ln"}, ATTENTION | {"norm": "ln"})
    bare = {path: product(model(), stored, path) for path in ("mlp", "value_output", "query_key")}
    assert equal(product(found, stored, "mlp", recipe), bare["mlp"] @ gain)
    assert equal(product(found, stored, "value_output", recipe), bare["value_output"] @ gain)
    assert equal(product(found, stored, "query_key", recipe), gain @ bare["query_key"] @ gain)
    assert equal(product(found, stored, "mlp"), bare["mlp"])


def test_a_gain_stored_less_one_is_one_more():
    stored, recipe = weights(), replace(PAPER, gains=True)
    found = model(MLP | {"norm": "ln"}, gain="one_plus")
    assert equal(product(found, stored, "mlp", recipe), stored["down"] @ stored["up"] @ np.diag(1 + stored["ln"]))


def test_gains_of_an_output_norm_are_folded_into_what_writes():
    stored, recipe = weights(), replace(PAPER, gains=True)
    gain = np.diag(stored["post"])
    found = model(MLP | {"output_norm": "post"}, ATTENTION | {"output_norm": "post"})
    for path in ("mlp", "value_output"):
        assert equal(product(found, stored, path, recipe), gain @ product(model(), stored, path))
    assert equal(product(found, stored, "query_key", recipe), product(model(), stored, "query_key"))


OWN, SHARED, VALUE, RANK = 2, 1, 3, 5
LATENT = {
    "query": "q_b",
    "interleaved": {"kv_b": ["key", "value"]},
    "output": "o",
    "latent": {"q_b": ["q_a", "q_ln"], "kv_b": ["kv_a", "kv_ln"]},
}


def latents() -> dict[str, Array]:
    """Four heads whose queries and keys have two rows of their own and one that all keys share; values have three."""
    return weights(
        q_a=random(RANK + 1, WIDTH),
        q_ln=random(RANK + 1),
        q_b=random(HEADS * (OWN + SHARED), RANK + 1),
        kv_a=random(RANK + SHARED, WIDTH),
        kv_ln=random(RANK),
        kv_b=random(HEADS * (OWN + VALUE), RANK),
        o=random(WIDTH, HEADS * VALUE),
    )


@pytest.mark.parametrize("recipe", [PAPER, replace(PAPER, gains=True)], ids=["plain", "folded"])
def test_what_reads_a_latent_is_multiplied_with_what_makes_it(recipe):
    stored = latents()
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


def test_gains_of_a_norm_inside_scale_the_hidden_units():
    stored, recipe = weights(inner=random(5), mid=random(HEADS * SIZE)), replace(PAPER, gains=True)
    found = model(MLP | {"inner_norm": "inner"}, ATTENTION | {"inner_norm": "mid"})
    assert equal(product(found, stored, "mlp", recipe), stored["down"] @ np.diag(stored["inner"]) @ stored["up"])
    assert equal(product(found, stored, "mlp"), stored["down"] @ stored["up"])
    scaled = stored | {"o": stored["o"] @ np.diag(stored["mid"])}
    assert equal(product(found, stored, "value_output", recipe), product(model(), scaled, "value_output"))
    assert equal(product(found, stored, "query_key", recipe), product(model(), stored, "query_key"))


@pytest.mark.parametrize("path", ["mlp", "value_output", "query_key"])
def test_means_are_removed_on_both_sides_where_the_norm_subtracts_them(path):
    stored, recipe = weights(), replace(PAPER, means=True)
    centre = np.eye(WIDTH) - np.ones((WIDTH, WIDTH)) / WIDTH
    bare = product(model(), stored, path)
    assert equal(product(model(normalization="layer_norm"), stored, path, recipe), centre @ bare @ centre)
    assert equal(product(model(), stored, path, recipe), bare)


ALONE = [None, ATTENTION]


def test_the_taps_of_a_convolution_are_summed():
    kernel, down = random(5, WIDTH, 3, 3), random(WIDTH, 5, 1, 1)
    found = product(model(attention=ALONE), {"up": kernel, "down": down}, "mlp")
    assert equal(found, down[:, :, 0, 0] @ kernel.sum(axis=(2, 3)))


def test_the_gain_of_a_batch_norm_is_over_the_root_of_its_variance():
    stored = {"up": random(5, WIDTH), "down": random(WIDTH, 5)}
    norm = {"ln": np.full(WIDTH, 3.0, np.float32), "ln.running_var": np.full(WIDTH, 4.0, np.float32)}
    found = model(mlp=MLP | {"norm": "ln"}, attention=ALONE, normalization="batch_norm")
    assert equal(product(found, stored | norm, "mlp", replace(PAPER, gains=True)), 1.5 * stored["down"] @ stored["up"])
