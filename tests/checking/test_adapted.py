"""Where a base holds the matrices of an adapter, by the registry's layout, and what is tested of each."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

from hf_lineage.checking import adapted
from hf_lineage.checking.opened import headers
from hf_lineage.checkpoint.lora import open_lora
from hf_lineage.errors import CheckpointError
from hf_lineage.hub.reference import RepoRef
from tests.adapters import pair, written
from tests.models import HIDDEN, WIDTH, spoil, tiny_gpt2, tiny_llama

ATTENTION, MLP = "model.layers.{}.self_attn.{}_proj", "model.layers.{}.mlp.{}_proj"


def opened_base(folder):
    return headers(RepoRef("org/base", folder))


def lora_of(folder, *modules, **settings):
    """An adapter on modules, given as (name, rows, columns)."""
    factors = {}
    for seed, (name, rows, columns) in enumerate(modules):
        factors |= pair(name, rows, columns, seed=seed)
    return open_lora(RepoRef("org/adapter", written(folder, factors, **settings)))


def everything(layers=2):
    for layer in range(layers):
        yield from ((ATTENTION.format(layer, role), WIDTH, WIDTH) for role in "qkvo")
        yield from ((MLP.format(layer, role), HIDDEN, WIDTH) for role in ("gate", "up"))
        yield MLP.format(layer, "down"), WIDTH, HIDDEN


@pytest.fixture
def llama(tmp_path):
    return opened_base(tiny_llama(tmp_path / "base"))


def blocks_of(base, lora):
    places = adapted.testable(adapted.find_places(base, lora), base.layout)
    return {(block.role, block.layer): block for block in adapted.blocks(base, adapted.products(lora, places), places)}


def test_every_role_that_has_a_trace_is_tested_and_query_and_key_are_not(tmp_path, llama):
    blocks = blocks_of(llama, lora_of(tmp_path / "lora", *everything()))
    expected = {(role, layer) for role in ("gate", "up", "value", "output", "down") for layer in (0, 1)}
    # Nothing reads what the last layer writes but the unembedding, which the registry does not name.
    assert set(blocks) == expected - {("down", 1)}
    assert blocks["up", 0].permuted == blocks["gate", 0].permuted == "hidden units"
    assert blocks["value", 0].permuted == "dimensions of value heads"
    assert blocks["output", 0].permuted == blocks["down", 0].permuted == "residual coordinates"


def test_blocks_have_the_shapes_of_their_groups(tmp_path, llama):
    blocks = blocks_of(llama, lora_of(tmp_path / "lora", *everything()))
    assert blocks["up", 1].written.shape == (1, HIDDEN, 2)
    assert blocks["up", 1].through.shape == (1, WIDTH, HIDDEN)
    assert blocks["value", 1].written.shape == (4, WIDTH // 4, 2)
    assert blocks["value", 1].through.shape == (4, WIDTH, WIDTH // 4)
    assert blocks["output", 0].through.shape == (1, 2 * HIDDEN + 3 * WIDTH, WIDTH)
    assert blocks["output", 1].through.shape == (1, 2 * HIDDEN, WIDTH)
    assert blocks["down", 0].through.shape == (1, 3 * WIDTH, WIDTH)


def test_a_value_head_is_tested_against_the_output_of_all_query_heads_that_share_it(tmp_path):
    said = {"num_key_value_heads": 2}
    folder = spoil(tiny_llama(tmp_path / "base", **said), lambda t: t.update(
        {name: tensor[: WIDTH // 2] for name, tensor in t.items() if ".k_proj." in name or ".v_proj." in name}
    ))  # fmt: skip
    base = opened_base(folder)
    block = blocks_of(base, lora_of(tmp_path / "lora", (ATTENTION.format(0, "v"), WIDTH // 2, WIDTH)))["value", 0]
    assert block.written.shape == (2, 8, 2)
    assert block.through.shape == (2, 2 * WIDTH, 8)
    output = base.checkpoint.read("model.layers.0.self_attn.o_proj.weight")
    output = output / np.linalg.norm(output)
    second_head = np.concatenate([output[:, 16:24], output[:, 24:32]])
    centred = second_head - second_head.mean(axis=1, keepdims=True)
    assert np.allclose(block.through[1], centred, atol=1e-6)


def test_of_a_fused_and_transposed_matrix_the_rows_of_each_role_are_taken(tmp_path):
    base = opened_base(tiny_gpt2(tmp_path / "base"))
    lora = lora_of(
        tmp_path / "lora", ("transformer.h.1.attn.c_attn", 3 * WIDTH, WIDTH), ("transformer.h.1.mlp.c_fc", 128, WIDTH)
    )
    places = adapted.find_places(base, lora)
    assert (places.absent, places.unfit) == ((), ())
    blocks = blocks_of(base, lora)
    assert set(blocks) == {("value", 1), ("up", 1)}
    rows = adapted.product_rows(*lora.read("transformer.h.1.attn.c_attn"))[2 * WIDTH :].reshape(4, 8, 2)
    assert np.allclose(blocks["value", 1].written, rows - rows.mean(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("prefix", ["model.", "", "language_model.model."])
def test_a_prefix_more_or_less_is_the_same_module(tmp_path, llama, prefix):
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", (f"{prefix}layers.0.mlp.up_proj", HIDDEN, WIDTH)))
    assert [place.slot.role for place in places.everything] == ["up"]
    assert places.absent == ()


def test_a_name_that_the_base_does_not_have_is_absent(tmp_path, llama):
    name = "model.layers.7.mlp.up_proj"
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", (name, HIDDEN, WIDTH)))
    assert places == adapted.Places((), (name,), ())


def test_what_does_not_fit_is_named_with_both_shapes(tmp_path, llama):
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", (MLP.format(0, "up"), 64, WIDTH)))
    assert places.unfit == ("model.layers.0.mlp.up_proj is 64 x 32 and not 48 x 32",)


def test_an_adapted_embedding_is_no_place_in_a_layer(tmp_path, llama):
    places = adapted.find_places(llama, lora_of(tmp_path / "lora", ("model.embed_tokens", 50, WIDTH)))
    assert places == adapted.Places((), (), ())


def test_coordinates_that_are_not_exchangeable_are_not_permuted(tmp_path, llama):
    lora = lora_of(tmp_path / "lora", *everything())
    fixed = replace(llama.layout, factorization=msgspec.structs.replace(llama.layout.factorization, exchangeable=False))
    roles = {place.slot.role for place in adapted.testable(adapted.find_places(llama, lora), fixed)}
    assert roles == {"up", "gate", "value"}


def test_factors_that_are_not_finite_are_an_error_of_the_adapter(tmp_path, llama):
    lora = lora_of(tmp_path / "lora", (MLP.format(0, "up"), HIDDEN, WIDTH))
    places = adapted.testable(adapted.find_places(llama, lora), llama.layout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lora), "read", lambda *_: (np.full((HIDDEN, 2), np.nan), np.ones((2, WIDTH))))
        with pytest.raises(CheckpointError, match=r"the factors of model.layers.0.mlp.up_proj are not finite"):
            adapted.products(lora, places)


def test_weights_of_the_base_that_are_not_finite_are_an_error_of_the_base(tmp_path):
    base = opened_base(spoil(
        tiny_llama(tmp_path / "base"), lambda t: t["model.layers.0.mlp.down_proj.weight"].fill_(torch.inf)
    ))  # fmt: skip
    lora = lora_of(tmp_path / "lora", (MLP.format(0, "up"), HIDDEN, WIDTH))
    with (
        pytest.raises(CheckpointError, match=r"weights in layer 0 of org/base are not finite"),
        np.errstate(all="ignore"),
    ):
        blocks_of(base, lora)


def test_only_the_tensors_that_are_needed_are_read(tmp_path, llama, monkeypatch):
    read = []
    plain = type(llama.checkpoint).read
    monkeypatch.setattr(
        type(llama.checkpoint), "read", lambda self, name, *rest: read.append(name) or plain(self, name, *rest)
    )
    blocks_of(llama, lora_of(tmp_path / "lora", (ATTENTION.format(1, "v"), WIDTH, WIDTH)))
    assert [name for name in read if "lora" not in name] == ["model.layers.1.self_attn.o_proj.weight"]


def test_the_typical_number_of_a_product_is_told_without_making_it():
    random = np.random.default_rng(0)
    second, first = (random.normal(size=shape).astype(np.float32) for shape in ((30, 4), (4, 20)))
    assert adapted.typical(second, first) == pytest.approx(float(np.sqrt(np.mean((second @ first) ** 2))))
