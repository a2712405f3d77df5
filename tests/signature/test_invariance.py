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


@pytest.fixture(scope="module")
def laundry(tmp_path_factory):
    """A function from (base, edit) to the folders of the base in float32 and its edited copy, each made once."""
    made = {}

    def launder(base, edit):
        if (base, edit) not in made:
            model = AutoModelForCausalLM.from_pretrained(HUB / base, dtype="float32", local_files_only=True)
            before, after = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
            model.save_pretrained(before)
            moved = laundering.laundered(model, edit)
            assert moved < 1e-4, f"{edit.__name__} is not function-preserving: outputs moved by {moved:.1g} deviations"
            model.save_pretrained(after)
            made[base, edit] = str(before), str(after)
        return made[base, edit]

    return launder


def score(recipe, pair):
    (row,) = compare(*pair, EXACT[recipe]).rows
    return row.verdict.evidence["mlp"].comparison.score


LLAMA, GPT2 = "acme/llama-base", "acme/gpt2-base"


@pytest.mark.parametrize("recipe", ["paper", "robust"])
@pytest.mark.parametrize(
    ("base", "edit"),
    [(LLAMA, laundering.permute_hidden), (GPT2, laundering.permute_hidden), (LLAMA, laundering.rescale)],
)
def test_hidden_permutation_and_rescaling_move_neither_recipe(laundry, recipe, base, edit):
    assert abs(1 - score(recipe, laundry(base, edit))) < STILL


@pytest.mark.parametrize(
    ("base", "edit", "paper_falls_below"),
    [(LLAMA, laundering.swap_gains, 0.95), (GPT2, laundering.swap_gains, 0.95), (GPT2, laundering.shift_means, 0.5)],
)
def test_gain_swaps_and_mean_shifts_move_the_paper_recipe_only(laundry, base, edit, paper_falls_below):
    pair = laundry(base, edit)
    assert abs(1 - score("robust", pair)) < STILL
    assert score("paper", pair) < paper_falls_below


def test_a_shift_between_norm_and_biases_moves_neither_recipe(laundry):
    pair = laundry(GPT2, laundering.move_shifts)
    assert abs(1 - score("robust", pair)) < STILL
    assert abs(1 - score("paper", pair)) < STILL


def test_splitting_units_moves_the_score_by_a_fiftieth_at_most(laundry):
    assert abs(1 - score("robust", laundry(LLAMA, laundering.split_units))) < 0.02


@pytest.mark.parametrize("base", [LLAMA, GPT2])
def test_dead_units_cost_robust_their_number_and_paper_far_more(laundry, base):
    """They are 4 % of all units."""
    pair = laundry(base, laundering.add_dead_units)
    assert abs(1 - score("robust", pair)) < 0.04
    assert score("paper", pair) < 0.6


def test_the_score_is_symmetric_and_one_for_a_model_and_itself():
    base, tuned = str(HUB / LLAMA), str(HUB / "fern" / "llama-finetune-a")
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
