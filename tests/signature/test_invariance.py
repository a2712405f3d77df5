"""Function-preserving edits leave the score where it was; the table shows what the paper's recipe gives beside it."""

from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from hf_lineage.checking.check import compare
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.options import Options
from tests import laundering

HUB = Path(__file__).parents[2] / "examples" / "hub"
EXACT = {name: Options(recipe=replace(recipe, probes=None), permutations=99) for name, recipe in RECIPES.items()}
STILL = 1e-6
"""How far an edit that the recipe undoes may move the score, in exact mode."""


LLAMA, GPT2 = "acme/llama-base", "acme/gpt2-base"


def score(recipe, pair):
    (row,) = compare(*map(str, pair), EXACT[recipe]).rows
    return row.verdict.evidence["mlp"].comparison.score


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
def test_edits_that_keep_the_function_move_robust_as_far_as_they_may_and_paper_further(
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
    base = str(HUB / (LLAMA if "llama" in candidate else GPT2))
    sketched = Options(recipe=replace(RECIPES[recipe], probes=probes), permutations=99)
    (row,) = compare(base, str(HUB / candidate), sketched).rows
    found = row.verdict.evidence["mlp"].comparison
    assert 0 < found.standard_error < 0.2
    assert abs(found.score - score(recipe, (base, str(HUB / candidate)))) < 4 * found.standard_error
