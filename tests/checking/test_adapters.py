"""Adapters that were really trained by peft, judged against true and false bases; and hostile ones."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from hf_lineage import Options, check, extract, save_signature
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.hub.repo import ADAPTER_CONFIG
from hf_lineage.lora.adjacent_matrices import MOST_TOKENS
from tests.adapters import WEIGHTS as FACTORS
from tests.adapters import change, grafted, pair, trained, written
from tests.checking.conftest import BASE, OTHER, TUNED, compared
from tests.gguf_models import KINDS, write
from tests.models import EXAMPLES as HUB
from tests.models import edit_json, spoil, tiny_llama

WEIGHTS = HUB / BASE / "model.safetensors"
UP, PREFIX = "model.layers.0.mlp.up_proj", "base_model.model."


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    folder = trained(HUB / BASE, tmp_path_factory.mktemp("adapters") / "lora")
    edit_json(folder / ADAPTER_CONFIG, base_model_name_or_path=BASE)
    return folder


def judged(base, folder, **options):
    return compared(HUB / base, folder, seed=0, **options)


def all_of(modules, **settings):
    factors = {}
    for seed, module in enumerate(modules):
        factors |= pair(*module, **{"seed": seed} | settings)
    return factors


def test_an_adapter_is_related_to_its_base_and_near_relatives_and_to_no_other(adapter):
    report = check(str(adapter), options=Options(local_hub=HUB, seed=0))
    (row,) = report.rows
    assert (row.claim.base, row.claim.relation, row.claim.sources) == (BASE, "adapter", (ADAPTER_CONFIG,))
    assert (row.verdict.label, row.verdict.verified, report.exit_code) == ("VERIFIED adapter", True, ExitCode.VERIFIED)
    assert row.verdict.trace.p_value == 0.0005
    assert set(row.verdict.trace.by_role) == {"up", "gate", "value", "output", "down"}
    assert row.notes == (
        f"{adapter}: a LoRA adapter of rank 4 on 42 matrices (down_proj, gate_proj, up_proj and 4 more)",
        f"{adapter}: query and key matrices are not tested: rotary positions fix the order of dimensions in a head",
    )
    near, other = judged(TUNED, adapter).verdict, judged(OTHER, adapter).verdict
    assert (near.code, other.code) == ("adapter", "unrelated")
    assert near.reason.endswith("it was trained on it or a near relative, or extracted from a difference to it")
    assert other.trace.p_value > 0.01
    assert "one trained on it would show it with a predicted probability above 0.99" in other.reason


def drawn(folder, rank, scale=1.0):
    shapes = {name: tensor.shape for name, tensor in load_file(WEIGHTS).items() if name.endswith("_proj.weight")}
    factors = all_of(((name.removesuffix(".weight"), *shape) for name, shape in shapes.items()), rank=rank)
    return written(folder, {name: scale * tensor for name, tensor in factors.items()}, r=rank)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"target_modules": ["q_proj", "v_proj"], "r": 8}, "LoRA"),
        ({"target_modules": "all-linear", "use_dora": True}, "DoRA"),
        ({"use_rslora": True, "rank_pattern": {"up_proj": 8}}, "rsLoRA"),
        ({"init_lora_weights": "pissa"}, "LoRA from pissa"),
        ({"init_lora_weights": "olora"}, "LoRA from olora"),
        ({"init_lora_weights": "orthogonal"}, "LoRA from orthogonal"),
        ({"target_modules": r".*layers\.[1-4]\..*(v|o)_proj", "r": 8}, "LoRA"),
    ],
)
@pytest.mark.few(1)
def test_other_ways_to_train_a_lora_leave_the_trace_too(tmp_path, settings, kind):
    folder = trained(HUB / BASE, tmp_path / "lora", **settings)
    assert judged(BASE, folder).verdict.code == "adapter"
    row = judged(OTHER, folder)
    assert row.verdict.trace.p_value > 0.01
    assert f" a {kind} adapter " in row.notes[0]


@pytest.mark.parametrize(
    ("layers", "words"), [([2], "RELATED weak"), ([1, 3, 4], "RELATED weak"), ([1, 2, 3, 4], "VERIFIED adapter")]
)
@pytest.mark.few(1)
def test_a_trace_in_no_more_than_half_of_the_matrices_is_weak_however_clear_it_is(tmp_path, layers, words):
    folder = change(drawn(tmp_path / "lora", rank=4), grafted(WEIGHTS, layers))
    row = judged(BASE, folder)
    assert (row.verdict.label, row.verdict.trace.p_value) == (words, 0.0005)
    assert row.verdict.trace.z_of("up") > 20


def test_factors_copied_from_the_base_pass_for_its_trace_and_the_limits_say_so(tmp_path):
    """They are of the base's own matrices, those of its largest singular values."""
    factors = {}
    for name, tensor in load_file(WEIGHTS).items():
        if name.endswith(("v_proj.weight", "o_proj.weight", "up_proj.weight", "down_proj.weight")):
            left, sizes, right = torch.linalg.svd(tensor.float(), full_matrices=False)
            module = PREFIX + name.removesuffix(".weight")
            factors[f"{module}.lora_A.weight"] = right[:8].contiguous()
            factors[f"{module}.lora_B.weight"] = (left[:, :8] * sizes[:8]).contiguous()
    folder = written(tmp_path / "lora", factors, r=8)
    assert judged(BASE, folder).verdict.label == "VERIFIED adapter"
    assert judged(OTHER, folder).verdict.trace.p_value > 0.01
    limits = Path("docs/limits.md").read_text("utf-8")
    assert "the largest singular vectors of the base's own matrices" in limits


@pytest.mark.parametrize(("rank", "scale"), [(1, 1e3), (8, 1e3), (96, 1e3), (96, 1e-3)])
@pytest.mark.few(1)
def test_neither_size_nor_rank_makes_a_trace(tmp_path, rank, scale):
    assert judged(BASE, drawn(tmp_path / "lora", rank, scale)).verdict.trace.p_value > 0.01


def turned(first, second):
    turn = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)) + 4 * torch.eye(4)
    return torch.linalg.inv(turn) @ first, second @ turn


def with_dead_rank(first, second):
    dead = torch.zeros(3, first.shape[1]), 100 * torch.randn(len(second), 3)
    return torch.cat([first, dead[0]]), torch.cat([second, dead[1]], dim=1)


def test_dead_rank_and_another_basis_between_the_factors_change_no_number(tmp_path, adapter):
    plain = judged(BASE, adapter).verdict.trace
    for number, (edit, said) in enumerate([(turned, {}), (with_dead_rank, {"r": 7, "lora_alpha": 14})]):
        copy = shutil.copytree(adapter, tmp_path / str(number))
        edit_json(copy / ADAPTER_CONFIG, **said)

        def everywhere(factors, edit=edit):
            for name in [name for name in factors if "lora_A" in name]:
                other = name.replace("lora_A", "lora_B")
                factors[name], factors[other] = edit(factors[name], factors[other])

        other = judged(BASE, change(copy, everywhere)).verdict.trace
        assert other.p_value == plain.p_value
        for role in plain.by_role:
            assert other.z_of(role) == pytest.approx(plain.z_of(role), abs=0.02)
        assert other.power(0.01) == pytest.approx(plain.power(0.01), abs=1e-3)


@pytest.fixture
def llama(tmp_path):
    return tiny_llama(tmp_path / "base")


QUERY, EMBEDDING = "model.layers.0.self_attn.q_proj", "model.embed_tokens"
MISPLACED = [
    ([(UP, 64, 32)], "unrelated", "by shape: model.layers.0.mlp.up_proj is 64 x 32, not 48 x 32, so that"),
    ([(UP, 32, 48)], "unrelated", "by shape: model.layers.0.mlp.up_proj is 32 x 48, not 48 x 32"),
    ([("h.0.mlp.c_fc", 64, 32)], "unsupported", "peft passes over the factors of h.0.mlp.c_fc, because"),
    ([(UP, 48, 32), (UP.replace("0", "7"), 48, 32)], "incompatible", "is for model.layers.7.mlp.up_proj, a"),
    ([(QUERY, 32, 32)], "unsupported", "changes no matrix whose trace can be tested"),
    ([(EMBEDDING, 50, 32)], "unsupported", "only matrices outside the layers (model.embed_tokens)"),
]


@pytest.mark.parametrize(("modules", "code", "reason"), MISPLACED)
def test_an_adapter_that_does_not_belong_on_a_base_gets_a_verdict_with_its_reason(
    tmp_path, llama, modules, code, reason
):
    verdict = compared(llama, written(tmp_path / "lora", all_of(modules)), seed=0).verdict
    assert (verdict.code, verdict.trace, reason in verdict.reason) == (code, None, True)


def codes(folder, *bases):
    return [row.verdict.code for row in check(folder, bases).rows]


def test_errors_of_a_base_its_signature_and_factors_that_add_nothing_are_reasons(tmp_path, llama):
    nothing = {name: 0 * one if "lora_B" in name else one for name, one in pair(UP, 48, 32).items()}
    verdict = compared(llama, written(tmp_path / "nothing", nothing), seed=0).verdict
    assert (verdict.code, "adds zero to every matrix" in verdict.reason) == ("inconclusive", True)
    folder = written(tmp_path / "lora", pair(UP, 48, 32), base_model_name_or_path="no such name!")
    save_signature(extract(str(llama)), signature := tmp_path / "base.lineage.safetensors")
    assert codes(folder, tmp_path / "nowhere", signature, llama) == ["no-base", "unsupported", "inconclusive"]
    assert "tested against the weights of its base" in compared(signature, folder).verdict.reason
    (row,) = check(folder).rows
    assert (row.verdict.code, "it is not a model name" in row.verdict.reason) == ("no-base", True)
    (llama / "model.safetensors").write_bytes(b"no weights")
    assert codes(folder, llama) == ["damaged"]


@pytest.mark.parametrize("name", ["model.gguf", "pytorch_model.bin", "model.safetensors", "other.onnx"])
def test_weights_for_other_loaders_are_not_vouched_for_by_an_adapter_beside_them(tmp_path, llama, name):
    folder = written(tmp_path / "lora", pair(UP, 48, 32))
    (folder / "training_args.bin").touch()
    assert codes(folder, llama) == ["inconclusive"]
    (folder / name).write_bytes(b"another model")
    (row,) = check(folder, llama).rows
    assert (row.verdict.code, f"holds {name} beside an adapter" in row.verdict.reason) == ("unsupported", True)


def test_the_name_of_a_file_of_the_model_says_nothing_of_the_adapters_beside_it(tmp_path):
    file = write(HUB / BASE, tmp_path / "model-Q8_0.gguf", kind=KINDS.Q8_0)
    shutil.copytree(HUB / "fern/llama-lora", tmp_path / "adapter")
    for model, options in ((tmp_path, {}), (file, {}), (tmp_path, {"file": file.name})):
        rows = check(str(model), BASE, Options(local_hub=HUB, seed=0, **options)).rows
        assert [(row.part, row.verdict.code) for row in rows] == [("adapter", "adapter"), ("", "unsupported")]
        assert rows[1].verdict.reason.endswith("may come from elsewhere: model-Q8_0.gguf")


def test_of_a_deep_base_a_few_layers_are_read_first(tmp_path):
    base = tiny_llama(tmp_path / "base", layers=12)
    modules = ((f"model.layers.{layer}.self_attn.v_proj", 32, 32) for layer in range(12))
    folder = written(tmp_path / "lora", all_of(modules, rank=16), r=16, lora_alpha=0.01)
    few, full = (compared(base, folder, seed=0, budget=budget).verdict for budget in (None, "full"))
    assert (len(set(few.trace.layers)), few.trace.analyses, few.trace.permutations) == (4, 2, 3999)
    assert (len(set(full.trace.layers)), full.trace.analyses, full.trace.permutations) == (12, 1, 1999)
    assert {few.code, full.code} == {"unrelated"}


def test_on_the_hub_only_factors_and_what_is_needed_of_tensors_is_downloaded(online, tmp_path):
    online.publish("fern/llama-lora", HUB / "fern/llama-lora")
    report = check("fern/llama-lora", options=Options(seed=0))
    (row,) = report.rows
    assert (row.claim.base, row.verdict.label) == (BASE, "VERIFIED adapter")
    assert None not in (report.commit, row.base_commit)
    downloaded = row.traffic[BASE]
    output_projections = 6 * 96 * 96 * 2
    assert output_projections < downloaded.moved < output_projections + 40_000
    assert downloaded.stored > 1_000_000
    base = tiny_llama(tmp_path / "base", vocab_size=40_000)
    spoil(base, lambda tensors: tensors.update({"model.embed_tokens.weight": torch.randn(40_000, 32)}))
    online.publish("acme/wide", base)
    folder = written(tmp_path / "lora", pair("model.layers.1.mlp.down_proj", 32, 48))
    here, there = (compared(name, folder, seed=0) for name in (base, "acme/wide"))
    assert there.verdict.trace.z_of("down") == here.verdict.trace.z_of("down") != 0
    rows = 4 * 32 * MOST_TOKENS
    assert rows < there.traffic["acme/wide"].moved < rows + 2**17
    assert there.traffic["acme/wide"].stored > 4 * 32 * 40_000


@pytest.mark.long
def test_a_base_of_an_unlisted_class_is_read_as_the_user_says(tmp_path, adapter):
    base = shutil.copytree(HUB / BASE, tmp_path / "base")
    edit_json(base / "config.json", architectures=["UnheardOfForCausalLM"])
    assert compared(base, adapter, seed=0).verdict.label == "RELATED unlisted-class"
    row = compared(base, adapter, seed=0, as_class="LlamaForCausalLM")
    assert row.verdict.label == "VERIFIED adapter"
    assert any("read as LlamaForCausalLM (--as)" in note for note in row.notes)


def by_peft(base, folder):
    """How far peft moves the logits of a base with this adapter."""
    from peft import PeftModel

    tokens, model = torch.arange(8)[None], AutoModelForCausalLM.from_pretrained(base)
    before = model(tokens).logits.detach().clone()
    return float((PeftModel.from_pretrained(model, str(folder))(tokens).logits - before).abs().max())


@pytest.mark.few(1)
@pytest.mark.parametrize("names", ["foo.model.", "model.model.", "", "model.language_model."])
@pytest.mark.filterwarnings("ignore:Found missing adapter keys")
def test_factors_under_names_that_no_module_or_target_has_change_and_verify_nothing(adapter, tmp_path, names):
    """The trace of the base would stand beside an adapter of another model, and peft would pass over it."""
    folder = shutil.copytree(adapter, tmp_path / "lora")
    edit_json(folder / ADAPTER_CONFIG, task_type="CAUSAL_LM")
    assert by_peft(HUB / BASE, folder) > 0
    assert judged(BASE, folder).verdict.verified
    for parameters in (None, ["nothing.there"]):
        edit_json(folder / ADAPTER_CONFIG, target_modules=["k_proj"], target_parameters=parameters)
        row = judged(BASE, folder)
        assert row.verdict.code == "unsupported"
        assert "peft passes over the factors of 36 of 42 modules" in " ".join(row.notes)
    shutil.copy(adapter / ADAPTER_CONFIG, folder)
    edit_json(folder / ADAPTER_CONFIG, task_type="CAUSAL_LM")
    factors = load_file(folder / FACTORS).items()
    save_file({name.replace(f"{PREFIX}model.", PREFIX + names): one for name, one in factors}, folder / FACTORS)
    assert by_peft(HUB / BASE, folder) == 0
    verdict = judged(BASE, folder).verdict
    assert (verdict.code, verdict.exit_code) == ("unsupported", 3)
    assert verdict.reason.startswith(f"this adapter changes 0 of the modules of {HUB / BASE}: ")
