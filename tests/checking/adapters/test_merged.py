"""Whether a model is a base plus an adapter: repositories with both, and `compare --merge-base`."""

import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from hf_lineage import Options, check, compare
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.hub.reference import ADAPTER_CONFIG
from tests.adapters import LINEAR, pair, trained, written
from tests.invoking import lineage
from tests.models import card, edit_json, spoil, tiny_llama

HUB = Path("examples/hub")
BASE, OTHER = "acme/llama-base", "otter/llama-independent"
OPTIONS = Options(local_hub=HUB, order_seed=0)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    folder = trained(HUB / BASE, tmp_path_factory.mktemp("merged") / "lora", 20, target_modules=LINEAR, lora_alpha=32)
    edit_json(folder / ADAPTER_CONFIG, base_model_name_or_path=BASE, target_modules=LINEAR)
    return folder


def merged(adapter, folder, base=BASE, dtype=torch.bfloat16):
    """A repository with a model that peft has merged and the adapter beside it."""
    model = AutoModelForCausalLM.from_pretrained(HUB / base, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    model.to(dtype).save_pretrained(folder)
    for file in adapter.iterdir():
        shutil.copy(file, folder)
    return card(folder, BASE, "adapter")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.few(1)
def test_a_merge_beside_its_adapter_is_judged_with_it_and_is_said_to_be_the_sum(tmp_path, adapter, dtype):
    report = check(str(merged(adapter, tmp_path / "both", dtype=dtype)), options=OPTIONS)
    model, alone = report.rows
    assert (model.verdict.words, model.part) == ("RELATED", "")
    assert (alone.verdict.words, alone.part) == ("RELATED by trace", "adapter_model.safetensors")
    (said,) = (note for note in model.notes if "plus the adapter" in note)
    assert said.endswith(f"both is {BASE} plus the adapter, within rounding, in all 8 of 42 matrices compared")
    assert report.exit_code == ExitCode.RELATED


@pytest.mark.parametrize(
    "settings",
    [{"use_dora": True}, {"init_lora_weights": "pissa"}, {"init_lora_weights": "olora", "use_rslora": True}],
    ids=["DoRA", "PiSSA", "OLoRA"],
)
@pytest.mark.few(1)
def test_what_peft_merges_in_another_way_is_computed_as_peft_does(tmp_path, settings):
    adapter = trained(HUB / BASE, tmp_path / "lora", 20, target_modules=LINEAR, lora_alpha=32, **settings)
    edit_json(adapter / ADAPTER_CONFIG, base_model_name_or_path=BASE, target_modules=LINEAR)
    both = merged(adapter, tmp_path / "both", dtype=torch.float32)
    said = [note for note in check(str(both), options=OPTIONS).rows[0].notes if "plus the adapter" in note]
    count = 8 if "use_dora" in settings else 2
    assert any(f"plus the adapter, within rounding, in all {count} of 42 matrices" in note for note in said), said
    shutil.copy(HUB / BASE / "model.safetensors", both)
    said = [note for note in check(str(both), options=OPTIONS).rows[0].notes if "plus the adapter" in note]
    assert any("is not" in note for note in said), said


@pytest.mark.parametrize("start", ["corda", "lora_ga", "loftq", "pissa_niter_4"])
def test_a_start_that_cannot_be_computed_again_leaves_open_whether_it_is_the_sum(tmp_path, start):
    base = tiny_llama(tmp_path / "base")
    adapter = written(tmp_path / "lora", pair("model.layers.0.mlp.up_proj", 48, 32), init_lora_weights=start)
    (row,) = compare(str(base), str(adapter), Options(order_seed=0), merge_base=str(base)).rows
    assert "sets `init_lora_weights`" in row.verdict.reason


def test_a_base_without_the_adapter_merged_is_not_the_sum(tmp_path, adapter):
    folder = merged(adapter, tmp_path / "both")
    shutil.copy(HUB / BASE / "model.safetensors", folder)
    model, alone = check(str(folder), options=OPTIONS).rows
    assert {model.verdict.name, alone.verdict.name} == {"RELATED"}
    assert any(f"both is not {BASE} plus the adapter: model.layers." in note for note in model.notes)


def test_an_honest_merge_beside_the_adapter_of_another_base_is_not_passed(tmp_path, adapter):
    folder = merged(adapter, tmp_path / "both")
    other = trained(HUB / OTHER, tmp_path / "other", 20, target_modules=LINEAR)
    edit_json(other / ADAPTER_CONFIG, target_modules=LINEAR)
    shutil.copy(other / "adapter_model.safetensors", folder)
    shutil.copy(other / ADAPTER_CONFIG, folder)
    report = check(str(folder), options=OPTIONS)
    assert [row.verdict.name for row in report.rows][1:] == ["UNRELATED"]
    assert report.exit_code == ExitCode.UNRELATED
    assert any(f"is not {BASE} plus the adapter" in note for note in report.rows[0].notes)


def test_another_model_is_compared_with_a_base_plus_an_adapter(tmp_path, adapter):
    both = merged(adapter, tmp_path / "both")
    for name in (ADAPTER_CONFIG, "adapter_model.safetensors"):
        (both / name).unlink()
    options = Options(order_seed=0)
    (row,) = compare(str(both), str(adapter), options, merge_base=str(HUB / BASE)).rows
    assert row.verdict.name == "RELATED"
    assert any("plus the adapter, within rounding" in note for note in row.notes)
    (row,) = compare(str(HUB / BASE), str(adapter), options, merge_base=str(HUB / BASE)).rows
    assert any("is not" in note and "plus the adapter" in note for note in row.notes)
    (row,) = compare(str(HUB / OTHER), str(adapter), options, merge_base=str(HUB / BASE)).rows
    assert row.verdict.name == "UNRELATED"


def test_what_is_lost_in_rounding_is_told_neither_way(tmp_path):
    base = spoil(tiny_llama(tmp_path / "base"), lambda t: t.update({k: v.bfloat16() for k, v in t.items()}))
    factors = {name: 1e-4 * tensor for name, tensor in pair("model.layers.0.mlp.up_proj", 48, 32).items()}
    adapter = written(tmp_path / "lora", factors, lora_alpha=1)
    (row,) = compare(str(base), str(adapter), Options(order_seed=0), merge_base=str(base)).rows
    assert row.notes[-1].endswith("cannot be decided: what it adds is less than rounding")


def test_an_adapter_that_cannot_be_added_is_unverifiable(tmp_path, adapter):
    (row,) = compare(str(HUB / BASE), str(adapter), merge_base=str(tiny_llama(tmp_path / "base"))).rows
    assert row.verdict.name == "UNVERIFIABLE"


def test_weights_that_are_not_finite_are_not_the_sum(tmp_path):
    base = tiny_llama(tmp_path / "base")
    adapter = written(tmp_path / "lora", pair("model.layers.0.mlp.up_proj", 48, 32))
    broken = spoil(tiny_llama(tmp_path / "other"), lambda t: t["model.layers.0.mlp.up_proj.weight"].fill_(torch.nan))
    (row,) = compare(str(broken), str(adapter), Options(order_seed=0), merge_base=str(base)).rows
    assert "is not" in row.notes[-1]


def test_on_the_command_line_a_model_that_is_no_adapter_is_refused(tmp_path):
    base = str(tiny_llama(tmp_path / "base"))
    ended = lineage("compare", base, base, "--merge-base", base)
    assert "--merge-base needs the weights of A and an adapter of peft as B" in ended.error
