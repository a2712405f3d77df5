"""What a part writes is what its own matrix adds to the stream, as the real module runs."""

import pytest
import torch

from hf_lineage.running.executed.recording import OFTEN, Running, sizes_by_writer
from tests.running.executed.models import ARCHITECTURES, inputs, loaded, saved


def recorded(model, which=-1):
    given = inputs(model)[which]
    run = Running(model, given.first)
    run.go(given.given)
    return given, run.record


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_part_of_every_writer_is_measured(tmp_path, name):
    model = loaded(saved(tmp_path, name), name)
    _, record = recorded(model)
    sizes = sizes_by_writer(model, record)
    assert {key: len(each) for key, each in sizes.items()} == {p.writer.key: p.writer.parts for p in model.places}
    assert all(bool(each.isfinite().all()) for each in sizes.values())
    assert sum(float(each.sum()) for each in sizes.values()) > 0
    assert record.streams.keys() == model.layers.keys()


def test_a_hidden_unit_writes_its_activity_times_the_length_of_its_column_but_on_few_tokens(tmp_path):
    model = loaded(saved(tmp_path, "LlamaForCausalLM"), "LlamaForCausalLM")
    seen, down = [], model.model.model.layers[1].mlp.down_proj
    hook = down.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    given, record = recorded(model)
    hook.remove()
    active = seen[-1][:, given.first :].flatten(0, 1).abs()
    usual = torch.minimum(active, active.quantile(OFTEN, dim=0)).mean(dim=0)
    torch.testing.assert_close(sizes_by_writer(model, record)["mlp 1 0"], usual * down.weight.norm(dim=0))


def test_a_head_writes_what_its_columns_make_of_its_values(tmp_path):
    model = loaded(saved(tmp_path, "GPT2LMHeadModel"), "GPT2LMHeadModel")
    seen, output = [], model.model.transformer.h[0].attn.c_proj
    hook = output.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    given, record = recorded(model)
    hook.remove()
    rows = seen[-1][:, given.first :].flatten(0, 1)
    heads = torch.stack([(a @ b).norm(dim=1) for a, b in zip(rows.split(8, 1), output.weight.split(8), strict=True)], 1)
    usual = torch.minimum(heads, heads.quantile(OFTEN, dim=0)).mean(dim=0)
    torch.testing.assert_close(sizes_by_writer(model, record)["value_output 0 0"], usual, rtol=1e-4, atol=1e-6)


def test_an_expert_counts_by_the_tokens_that_it_was_sent(tmp_path):
    def one_way(model):
        for layer in model.model.layers:
            layer.mlp.gate.weight.data.zero_()
            layer.mlp.gate.weight.data[2:] = 1e-3

    model = loaded(saved(tmp_path, "MixtralForCausalLM"), "MixtralForCausalLM")
    given, record = recorded(model)
    tokens = given.given["input_ids"][:, given.first :].numel()
    for layer in range(2):
        reached = [record.tokens.get((f"model.layers.{layer}.mlp.experts", expert), 0) for expert in range(4)]
        assert sum(reached) == 2 * tokens
        silent = [expert for expert in range(4) if reached[expert] == 0]
        sizes = [sizes_by_writer(model, record)[f"mlp {layer} {expert}"] for expert in range(4)]
        assert all(float(sizes[expert].sum()) == 0 for expert in silent)


def test_an_expert_counts_by_what_it_is_mixed_in_with(tmp_path):
    """Every token goes to the last two experts, and nearly all of what they say is that of the last."""

    def uneven(model):
        model.model.embed_tokens.weight.data[:, 0] = 1.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.data[0] = 0
            layer.post_attention_layernorm.weight.data[0] = 1.0
            layer.mlp.experts.down_proj.data[:, 0] = 0
            layer.mlp.gate.weight.data.zero_()
            layer.mlp.gate.weight.data[2:, 0] = torch.tensor([10.0, 1e4])
            layer.mlp.experts.down_proj.data[3] = layer.mlp.experts.down_proj.data[2]
            layer.mlp.experts.gate_up_proj.data[3] = layer.mlp.experts.gate_up_proj.data[2]

    model = loaded(saved(tmp_path, "MixtralForCausalLM", uneven), "MixtralForCausalLM")
    given, record = recorded(model)
    sizes = sizes_by_writer(model, record)
    assert record.tokens["model.layers.0.mlp.experts", 2] == given.given["input_ids"][:, given.first :].numel()
    assert float(sizes["mlp 0 2"].sum()) < 1e-6 * float(sizes["mlp 0 3"].sum())


def test_a_unit_that_is_loud_on_few_tokens_alone_is_silent(tmp_path):
    """Its gate is open for one token of the vocabulary, that of the byte b, which is hardly one in fifty."""
    rare_one = ord("b") % 64

    def rare(model):
        model.model.embed_tokens.weight.data[:, 0] = 0.0
        model.model.embed_tokens.weight.data[rare_one, 0] = 100.0
        mlp = model.model.layers[0].mlp
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.data.zero_()
        mlp.gate_proj.weight.data[5] = 0.0
        mlp.gate_proj.weight.data[5, 0] = 1e3
        mlp.gate_proj.bias.data[5] = -50.0

    model = loaded(saved(tmp_path, "LlamaForCausalLM", rare), "LlamaForCausalLM")
    given, record = recorded(model)
    assert bool((given.given["input_ids"] == rare_one).any())
    sizes = sizes_by_writer(model, record)["mlp 0 0"]
    assert float(sizes[5]) < 1e-6 * float(sizes.median())
    assert float(record.means["model.layers.0.mlp.down_proj", None][5].abs()) > 0
