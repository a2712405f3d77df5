"""What an adapter adds to each matrix, beside the matrix of the base that its gradient passed through."""

import numpy as np
import pytest
import torch
import transformers

from hf_lineage import compare
from hf_lineage.errors import CheckpointError
from hf_lineage.lora import adjacent_matrices as partners
from hf_lineage.lora import placement
from hf_lineage.lora.adjacent_matrices import compress, product_rows
from tests.adapters import ATTENTION, MLP, everything, lora_of, opened_base, taught, teach
from tests.lora.test_gradient_alignment import factors
from tests.models import HIDDEN, WIDTH, spoil, tiny_gpt2, tiny_llama


@pytest.fixture
def llama(tmp_path):
    return opened_base(tiny_llama(tmp_path / "base"))


def blocks_of(base, lora):
    places = placement.testable(placement.find_places(base, lora), base)
    found = partners.blocks(base, partners.products(lora, places), places)
    return {(block.role, block.layer): block for block in found}


def gram(block):
    return block.through.mT @ block.through


def centred(matrix):
    return matrix - matrix.mean(axis=-1, keepdims=True)


def test_every_role_that_has_a_trace_is_tested_and_query_and_key_are_not(tmp_path, llama):
    blocks = blocks_of(llama, lora_of(tmp_path / "lora", *everything()))
    assert set(blocks) == {(role, layer) for role in ("gate", "up", "value", "output", "down") for layer in (0, 1)}
    assert blocks["up", 0].permuted == blocks["gate", 0].permuted == "hidden units"
    assert blocks["value", 0].permuted == "dimensions of value heads"
    assert blocks["output", 0].permuted == blocks["down", 0].permuted == "residual coordinates"
    assert blocks["up", 1].rows.shape == (1, HIDDEN, 2)
    assert blocks["up", 1].through.shape == (1, HIDDEN, HIDDEN)
    assert blocks["value", 1].rows.shape == (4, WIDTH // 4, 2)
    assert blocks["value", 1].through.shape == (4, WIDTH // 4, WIDTH // 4)
    assert {blocks[role, layer].through.shape for role in ("output", "down") for layer in (0, 1)} == {(1, WIDTH, WIDTH)}


def test_what_is_written_is_read_by_the_next_matrices_and_at_last_by_the_unembedding(tmp_path, llama):
    lora, read = lora_of(tmp_path / "lora", *everything()), llama.checkpoint.read
    blocks = blocks_of(llama, lora)

    def expected(*names):
        parts = [read(f"model.{name}.weight") for name in names]
        return sum(centred(part / np.linalg.norm(part)).T @ centred(part / np.linalg.norm(part)) for part in parts)

    mlp = [f"layers.1.mlp.{role}_proj" for role in ("up", "gate")]
    attention = [f"layers.1.self_attn.{role}_proj" for role in "qkv"]
    assert np.allclose(gram(blocks["output", 1])[0], expected(*mlp), atol=1e-5)
    assert np.allclose(gram(blocks["down", 0])[0], expected(*attention), atol=1e-5)
    assert np.allclose(gram(blocks["down", 1])[0], expected("embed_tokens"), atol=1e-5)
    del llama.checkpoint.tensors["model.embed_tokens.weight"]
    assert ("down", 1) not in blocks_of(llama, lora), "without an unembedding the last layer writes for nobody"


def test_a_value_head_is_tested_against_the_output_of_all_query_heads_that_share_it(tmp_path):
    said = {"num_key_value_heads": 2}
    folder = spoil(tiny_llama(tmp_path / "base", **said), lambda t: t.update(
        {name: tensor[: WIDTH // 2] for name, tensor in t.items() if ".k_proj." in name or ".v_proj." in name}
    ))  # fmt: skip
    base = opened_base(folder)
    block = blocks_of(base, lora_of(tmp_path / "lora", (ATTENTION.format(0, "v"), WIDTH // 2, WIDTH)))["value", 0]
    assert block.rows.shape == (2, 8, 2)
    output = base.checkpoint.read("model.layers.0.self_attn.o_proj.weight")
    output = output / np.linalg.norm(output)
    second_head = centred(np.concatenate([output[:, 16:24], output[:, 24:32]]))
    assert np.allclose(gram(block)[1], second_head.T @ second_head, atol=1e-5)


def test_of_a_fused_and_transposed_matrix_the_rows_of_each_role_are_taken(tmp_path):
    base = opened_base(tiny_gpt2(tmp_path / "base"))
    fused, up = ("transformer.h.1.attn.c_attn", 3 * WIDTH, WIDTH), ("transformer.h.1.mlp.c_fc", 128, WIDTH)
    lora = lora_of(tmp_path / "lora", fused, up)
    places = placement.find_places(base, lora)
    assert (places.absent, places.unfit) == ((), ())
    blocks = blocks_of(base, lora)
    assert set(blocks) == {("query", 1), ("key", 1), ("value", 1), ("up", 1)}
    rows = product_rows(*lora.read("transformer.h.1.attn.c_attn")).reshape(3, 4, 8, 2)
    for number, role in enumerate(("query", "key", "value")):
        assert np.allclose(blocks[role, 1].rows, rows[number], atol=1e-6)
    assert blocks["query", 1].permuted == blocks["key", 1].permuted == "dimensions of query and key heads"
    stored = base.checkpoint.read("h.1.attn.c_attn.weight").T.reshape(3, 4, 8, WIDTH)
    key = centred((stored[1, 2] / np.linalg.norm(stored[1])).T)
    assert np.allclose(gram(blocks["query", 1])[2], key.T @ key, atol=1e-5)


TINY = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = TINY | {"vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": False}
PICTURE = TINY | {"image_size": 16, "patch_size": 4}
LATENT = {"q_lora_rank": 12, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
DEEPSEEK = TEXT | LATENT | {"num_key_value_heads": 4, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1}
EXPERTS = TEXT | {"num_local_experts": 4, "num_key_value_heads": 2}
BOTH = {"text_config": TEXT | {"model_type": "llama"}, "vision_config": PICTURE | {"model_type": "clip_vision_model"}}
ENCODER = {"query", "key", "value", "output", "up", "down"}
STACKED = {"target_modules": ["v_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}
ADAPTED = {
    "ViTForImageClassification": (
        PICTURE | {"num_labels": 10}, ["q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"], ENCODER,
    ),
    "GPT2LMHeadModel": (TEXT, ["c_attn", "c_fc", "c_proj"], ENCODER),
    "BertForSequenceClassification": (
        TINY | {"vocab_size": 256, "num_labels": 10}, ["query", "key", "value", "dense"], ENCODER,
    ),
    "DeepseekV3ForCausalLM": (
        DEEPSEEK, ["q_a_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"], {"latent", "value", "output"},
    ),
    "GptOssForCausalLM": (EXPERTS | {"head_dim": 8}, STACKED, {"value", "gate", "up", "down"}),
    "MixtralForCausalLM": (EXPERTS, STACKED, {"value", "gate", "up", "down"}),
    "LlavaForConditionalGeneration": (BOTH, r".*language_model.*\.(v|o|up)_proj", {"value", "output", "up"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ADAPTED)
@pytest.mark.few(1)
def test_adapters_of_peft_are_found_whatever_the_class_names_its_matrices(tmp_path, name):
    settings, targets, roles = ADAPTED[name]
    kind = getattr(transformers, name)
    for seed in range(2):
        torch.manual_seed(seed)
        teach(kind(kind.config_class(**settings)), 60, 1e-2).save_pretrained(tmp_path / str(seed))
    targets = targets if isinstance(targets, dict) else {"target_modules": targets}
    targets["fan_in_fan_out"] = name == "GPT2LMHeadModel"
    adapter = taught(kind.from_pretrained(tmp_path / "0"), tmp_path / "adapter", **targets)
    (own,), (other,) = (compare(str(tmp_path / str(seed)), str(adapter)).rows for seed in range(2))
    assert set(own.verdict.trace.by_role) == roles
    assert (own.verdict.is_related, own.verdict.trace.p_value) == (True, 0.0005)
    assert other.verdict.trace.p_value > 0.01


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_an_error_of_the_adapter_or_of_the_base(tmp_path, llama, monkeypatch, number):
    lora = lora_of(tmp_path / "lora", (MLP.format(0, "up"), HIDDEN, WIDTH))
    broken = spoil(tiny_llama(tmp_path / "b"), lambda own: own["model.layers.0.mlp.down_proj.weight"].fill_(number))
    error = r"weights in layer 0 of org/base are not finite"
    with pytest.raises(CheckpointError, match=error), np.errstate(all="ignore"):
        blocks_of(opened_base(broken), lora)
    places = placement.testable(placement.find_places(llama, lora), llama)
    monkeypatch.setattr(type(lora), "read", lambda *_: (np.full((HIDDEN, 2), number), np.ones((2, WIDTH))))
    with pytest.raises(CheckpointError, match=r"the factors of model.layers.0.mlp.up_proj are not finite"):
        partners.products(lora, places)


def test_rows_of_a_product_have_its_singular_values_and_are_as_few_as_its_rank():
    second, first = factors(rank=3)
    rows = product_rows(second, first)
    _, singular, _ = np.linalg.svd(second @ first)
    assert rows.shape == (40, 3)
    assert partners.root_mean_square(second, first) == pytest.approx(float(np.sqrt(np.mean((second @ first) ** 2))))
    assert np.allclose(np.square(rows).sum(axis=0), singular[:3] / singular[0], rtol=1e-4)
    assert product_rows(0 * second, first).shape == product_rows(second, 0 * first).shape == (40, 0)
    for scale in (1e-18, 1e18):  # factors at the ends of float32
        scaled = product_rows(second * np.float32(scale), first * np.float32(scale))
        assert np.allclose(np.abs(scaled), np.abs(rows), atol=1e-4)
    # Of a large rank the strongest directions are taken, fewer of many rows.
    assert product_rows(*factors(rows=90, columns=80, rank=70)).shape == (90, partners.DIRECTIONS)
    assert product_rows(*factors(rows=20_000, columns=80, rank=70)).shape == (20_000, partners.FEWEST_DIRECTIONS)


def test_matrices_of_few_columns_are_seen_whole_and_of_wide_ones_random_sums_of_rows():
    random = np.random.default_rng(0)
    parts = [random.normal(size=(2, rows, 5)).astype(np.float32) for rows in (40, 3)]
    seen = compress([(part, 1.0) for part in parts], "up")
    assert seen.shape == (2, 5, 5)
    assert np.allclose(seen.mT @ seen, sum(part.mT @ part for part in parts), rtol=1e-4)
    random = np.random.default_rng(0)
    columns = partners.EXACT + 1
    large = random.normal(size=(1, 4000, columns)).astype(np.float32)
    seen = compress([(large, 1.0)], "up")
    assert seen.shape == (1, partners.PROBES, columns)
    assert np.linalg.norm(seen[0]) == pytest.approx(np.linalg.norm(large[0]), rel=0.05)
    assert np.array_equal(seen, compress([(large, 1.0)], "up"))
    assert not np.array_equal(seen, compress([(large, 1.0)], "down"))
    assert np.allclose(compress([(large, 0.5)], "up"), 0.5 * seen, atol=1e-3)
    assert not np.allclose(compress([(large, 1.0), (large, 1.0)], "up"), 2 * seen, atol=1e-3)
    wider = compress([(large[:, :3].repeat(160, axis=2), 1.0)], "up")
    assert wider.shape == (1, partners.FEWEST_PROBES, 160 * columns)
