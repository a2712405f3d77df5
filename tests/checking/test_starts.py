"""Adapters that peft really starts from the base: its activations, their covariance, its gradients."""

from pathlib import Path

import pytest
import torch
from peft import EvaConfig, LoraConfig, LoraGAConfig, get_peft_model, initialize_lora_eva_weights, preprocess_loraga
from peft.tuners.lora.config import CordaConfig
from peft.tuners.lora.corda import preprocess_corda
from transformers import AutoModelForCausalLM

from hf_lineage import Options, compare
from tests.adapters import BATCH, LINEAR, teach, windows

HUB = Path("examples/hub")
BASE, OTHER = "acme/llama-base", "otter/llama-independent"
SAID = {"r": 4, "lora_alpha": 8, "target_modules": LINEAR, "task_type": "CAUSAL_LM"}


def batches(count):
    return [{"input_ids": windows()[torch.randint(len(windows()), (BATCH,))]} for _ in range(count)]


def from_activations(model):
    adapted = get_peft_model(model, LoraConfig(init_lora_weights="eva", eva_config=EvaConfig(rho=1.0), **SAID))
    initialize_lora_eva_weights(adapted, dataloader=batches(4), show_progress_bar=False)
    return adapted


def from_covariance(model):
    config = LoraConfig(init_lora_weights="corda", corda_config=CordaConfig(corda_method="kpm"), **SAID)

    @torch.no_grad()
    def run():
        for batch in batches(2):
            for row in batch["input_ids"]:
                model(input_ids=row[None])

    preprocess_corda(model, config, run_model=run)
    return get_peft_model(model, config)


def from_gradients(model):
    config = LoraConfig(init_lora_weights="lora_ga", lora_ga_config=LoraGAConfig(), **SAID)

    def step():
        for batch in batches(2):
            model(**batch, labels=batch["input_ids"]).loss.backward()

    preprocess_loraga(model, config, step)
    return get_peft_model(model, config)


def judged(folder, adapted):
    teach(adapted, 8, 1e-3).save_pretrained(folder)
    return [compare(str(HUB / base), str(folder), Options(order_seed=0)).rows[0].verdict for base in (BASE, OTHER)]


def started(make):
    torch.manual_seed(0)
    adapted = make(AutoModelForCausalLM.from_pretrained(HUB / BASE, dtype=torch.float32))
    return adapted, any(bool(p.any()) for name, p in adapted.named_parameters() if "lora_B" in name)


@pytest.mark.parametrize(
    ("make", "begins", "outcome"),
    [(from_activations, False, "UNRELATED"), (from_gradients, True, "INCONCLUSIVE")],
    ids=["EVA", "LoRA-GA"],
)
def test_a_start_from_the_base_leaves_the_trace_and_no_other_base_shows_one(tmp_path, make, begins, outcome):
    adapted, begun = started(make)
    assert begun is begins
    own, other = judged(tmp_path, adapted)
    assert (own.words, own.trace.p_value) == ("RELATED by trace", 0.001)
    assert other.name == outcome
    assert other.trace.p_value > 0.01


def test_a_start_from_the_smallest_directions_hides_the_trace_and_is_contradicted_by_no_base(tmp_path):
    adapted, begun = started(from_covariance)
    assert begun
    for outcome in judged(tmp_path, adapted):
        assert outcome.name == "INCONCLUSIVE"
        assert outcome.reason.endswith("how much of one adapters like this show was not measured")
