"""What is recorded of a part is the median of what its matrix is given, as the real module runs on a text of ours."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, processors

from hf_lineage.running import hooks
from hf_lineage.running.hooks import Running, divergences, draw, held_inputs, in_float32
from hf_lineage.running.load import CannotRunError
from tests.conformance.models import tiny_model
from tests.running.models import ARCHITECTURES, inputs, loaded, lost, saved
from tests.unseen import tokens_of_bytes


def recorded(model):
    each = inputs(model)[-1]
    run = Running(model, each.counted_tokens)
    run.go(each.arguments)
    return run.medians


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_writer_has_its_median_and_holding_none_or_all_loses_nothing_or_something(tmp_path, name):
    model = loaded(saved(tmp_path, name), name)
    medians = recorded(model)
    assert {owner for owner, _ in medians} == {place.owner for place in model.places}
    assert all(bool(each.isfinite().all()) for each in medians.values())
    units = {each.writer.key: range(each.writer.parts) for each in model.places if each.writer.key.startswith("mlp")}
    _, (unit, nothing, says) = lost(model, {})
    assert (unit, float(nothing.abs().max()), says > 0) == ("nats", pytest.approx(0, abs=1e-9), True)
    assert float(lost(model, units)[1][1].mean()) > 1e-3 * says


def test_the_median_is_that_of_what_the_matrix_was_given_of_the_tokens_that_count(tmp_path):
    model = loaded(saved(tmp_path, "LlamaForCausalLM"), "LlamaForCausalLM")
    seen, down = [], model.model.model.layers[1].mlp.down_proj
    hook = down.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    medians = recorded(model)
    hook.remove()
    late = seen[-1][:, -inputs(model)[-1].counted_tokens :].flatten(0, 1)
    assert len(late) < seen[-1].shape[1] // 2
    torch.testing.assert_close(medians["model.layers.1.mlp.down_proj", None], late.median(dim=0).values)


def test_an_expert_has_the_median_of_the_tokens_it_was_sent_and_is_held_by_itself(tmp_path):
    def one_way(model):
        model.model.embed_tokens.weight.data[:, 0] = 1.0
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.data[0] = 0
        layer.post_attention_layernorm.weight.data[0] = 1.0
        layer.mlp.gate.weight.data.zero_()
        layer.mlp.gate.weight.data[2:, 0] = 10.0

    model = loaded(saved(tmp_path, "MixtralForCausalLM", one_way), "MixtralForCausalLM")
    reached = {expert for owner, expert in recorded(model) if owner == "model.layers.0.mlp.experts"}
    assert reached == {2, 3}
    held = held_inputs(model, {"mlp 0 2": [3, 5]})
    assert {at: inputs.tolist() for at, inputs in held.items()} == {("model.layers.0.mlp.experts", 2): [3, 5]}


def test_a_unit_that_is_loud_on_few_tokens_alone_is_held_at_nothing(tmp_path):
    """Its gate is open for one token, that of the byte b, hardly one in fifty; what writes the same is no loss."""

    def rare(model):
        model.model.embed_tokens.weight.data[:, 0] = 0.0
        model.model.embed_tokens.weight.data[ord("b") % 64, 0] = 100.0
        mlp = model.model.layers[0].mlp
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.data.zero_()
        mlp.gate_proj.weight.data[5] = 0.0
        mlp.gate_proj.weight.data[5, 0] = 1e3
        mlp.gate_proj.bias.data[5] = -50.0

    def constant(model):
        mlp = model.model.layers[0].mlp
        for linear in (mlp.up_proj, mlp.gate_proj):
            linear.weight.data.zero_()
            linear.bias.data.fill_(3.0)

    model = loaded(saved(tmp_path / "rare", "LlamaForCausalLM", rare), "LlamaForCausalLM")
    assert abs(float(recorded(model)["model.layers.0.mlp.down_proj", None][5])) < 1e-12
    model = loaded(saved(tmp_path / "constant", "LlamaForCausalLM", constant), "LlamaForCausalLM")
    idle, at_work = (float(lost(model, {key: range(40)})[1][1].mean()) for key in ("mlp 0 0", "mlp 1 0"))
    assert 0 <= idle < 1e-4 * at_work


def test_a_processor_that_multiplies_no_16_bits_multiplies_them_in_float32_and_rounds(tmp_path, monkeypatch):
    products = {"linear": [(3, 7), (9000, 7), (9000,)], "bmm": [(3, 4, 5), (3, 5, 6)], "addmm": [(6,), (4, 5), (5, 6)]}
    for name, shapes in products.items():
        function = getattr(torch, name, torch.nn.functional.linear)
        args = tuple(torch.randn(shape, generator=torch.Generator().manual_seed(1)).half() for shape in shapes)
        assert torch.equal(in_float32(function, name, args), function(*(each.float() for each in args)).half())
    model = loaded(saved(tmp_path, "LlamaForCausalLM"), "LlamaForCausalLM")
    model.model.bfloat16()
    monkeypatch.setattr(hooks, "is_slow", lambda dtype: False)
    medians = recorded(model)
    monkeypatch.setattr(hooks, "is_slow", lambda dtype: dtype is torch.bfloat16)
    for at, median in recorded(model).items():
        torch.testing.assert_close(median, medians[at], atol=0.01, rtol=0.05)


def test_a_loss_is_the_divergence_of_what_is_predicted_or_a_share_of_the_last_state():
    before, after = (torch.randn(64, 10, 64, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    outputs = [type("Output", (), {"logits": logits})() for logits in (before, after)]
    unit, moved, _ = divergences(*outputs, 9)
    by_hand = torch.distributions.kl_divergence(*(torch.distributions.Categorical(logits=x) for x in (before, after)))
    assert unit == "nats"
    torch.testing.assert_close(moved.float(), by_hand[:, 1:].mean(dim=1))
    states = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
    unit, moved, says = divergences((states,), (0.9 * states,), 2)
    assert (unit, says > 0.1) == ("change", True)
    torch.testing.assert_close(moved.float(), torch.full((4,), 0.1))


def model(name="LlamaForCausalLM", **settings):
    made = tiny_model(name, {})
    for key, value in settings.items():
        setattr(made.config, key, value)
    return made


@pytest.mark.parametrize("name", [*ARCHITECTURES[:-1], "LlavaModel"])
def test_every_class_reads_windows_of_a_text_and_the_same_behind_other_text(name):
    short, long = draw(model(name), Path("/nowhere"), 3)
    read = 480 if name in ("GPT2LMHeadModel", "BertForMaskedLM") else 1024
    assert [tuple(each.arguments["input_ids"].shape) for each in (short, long)] == [(32, 16), (1, read)]
    ids = long.arguments["input_ids"][0]
    behind = ids[len(ids) // 2 :].view(-1, 16)
    assert torch.equal(behind, short.arguments["input_ids"][: len(behind)])
    assert (short.kind, short.counted_tokens, long.kind) == ("short", 15, "long")
    assert (long.counted_tokens, long.arguments.get("logits_to_keep")) in ((32, 32), (len(behind) * 16, None))


def test_neither_settings_nor_weights_choose_what_is_read_but_where_places_end_it_ends():
    plain = draw(model(), Path("/nowhere"), 3)
    settings = {"bos_token_id": 7, "temperature": 9.0, "max_position_embeddings": 12, "mask_token_id": 5}
    for one, other in zip(plain, draw(model(**settings), Path("/nowhere"), 3), strict=True):
        assert torch.equal(one.arguments["input_ids"], other.arguments["input_ids"])
    assert not torch.equal(
        plain[0].arguments["input_ids"], draw(model(), Path("/nowhere"), 4)[0].arguments["input_ids"]
    )
    (only,) = draw(model("GPT2LMHeadModel", n_positions=12), Path("/nowhere"), 3)
    assert (only.kind, only.arguments["input_ids"].shape) == ("short", (32, 10))
    with pytest.raises(CannotRunError, match="it reads too few tokens at once"):
        draw(model("GPT2LMHeadModel", n_positions=3), Path("/nowhere"), 3)


def test_the_models_own_tokenizer_makes_its_tokens_and_another_ones_is_a_reason(tmp_path):
    """It is one of bytes that writes some tokens around every text."""
    file, made = tmp_path / "tokenizer.json", tokens_of_bytes()
    made.enable_truncation(8)

    def save(before):
        template = " ".join(["<1022>"] * before + ["$0", "<1023>"])
        made.post_processor = processors.TemplateProcessing(template, None, [("<1022>", 1022), ("<1023>", 1023)])
        made.save(str(file))

    save(1)
    short, long = draw(model(vocab_size=1024), file, 3)
    for each, counted in ((short, 17), (long, 32)):
        ids = each.arguments["input_ids"]
        assert (ids[:, [0, -1]] == torch.tensor([1022, 1023])).all()
        assert (int(ids[:, 1:-1].max()) < 256, each.counted_tokens) == (True, counted)
    assert short.arguments["input_ids"].shape == (32, 18)
    for size, before in ((1023, 1), (1024, 20)):
        save(before)
        with pytest.raises(CannotRunError, match=f"its tokenizer is not one for its {size} tokens"):
            draw(model(vocab_size=size), file, 3)
    Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]")).save(str(file))
    with pytest.raises(CannotRunError, match="its tokenizer makes only 1 tokens of the text that is read"):
        draw(model(), file, 3)
