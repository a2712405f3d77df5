"""Relatives of a model among known ones: its parents first, none for what is independent, and the test stays exact."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.identify import identify
from hf_lineage.index.store import Catalogue
from hf_lineage.signature.recipe import signs
from tests.index.conftest import KNOWN

QUICK = Criteria(permutations=199)


def first(result, count=1):
    return [one.entry.model for one in result.related[:count]]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("model", "parent"),
    [
        ("heron/llama-int8-rounded", "acme/llama-base"),
        ("heron/llama-pruned-50", "acme/llama-base"),
        ("magpie/llama-laundered", "acme/llama-base"),
        ("magpie/llama-grafted", "acme/llama-base"),
        ("moss/llama-continued", "acme/llama-base"),
        ("fern/llama-finetune-a", "acme/llama-base"),
        ("fern/llama-finetune-b", "acme/llama-base"),
        ("fern/llama-lora-merged", "acme/llama-base"),
        ("fern/gpt2-finetune-a", "acme/gpt2-base"),
    ],
)
def test_the_parent_comes_first(signatures, catalogue, model, parent):
    own = [name for name in KNOWN if name != model]
    result = identify(signatures[model], "mlp", catalogue, QUICK)
    if model == "fern/llama-finetune-b":  # without the base's other child nobody is in the middle
        assert parent in first(result, 2)
        return
    assert first(result) == [parent]
    assert result.of == len(KNOWN)
    assert all(one.entry.model in own for one in result.related)


def test_both_parents_of_a_merge_come_before_their_base(signatures, catalogue):
    result = identify(signatures["fern/llama-merge-a-b"], "mlp", catalogue, QUICK)
    assert sorted(first(result, 2)) == ["fern/llama-finetune-a", "fern/llama-finetune-b"]
    assert first(result, 3)[2] == result.ancestor.entry.model == "acme/llama-base"
    assert min(one.along for one in result.related[:2]) > 0.7
    assert max(one.along for one in result.related[3:]) < 0.35


def test_a_fine_tune_of_which_others_were_made_is_told_from_its_sibling(signatures, tmp_path):
    """A pruned and a rounded copy of one of two fine-tunes: each names that one, and not the other or the base."""
    catalogue = Catalogue(tmp_path)
    for name in ("acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b"):
        catalogue.add(signatures[name])
    for parent in ("fern/llama-finetune-a", "fern/llama-finetune-b"):
        whole = signatures[parent].paths["mlp"]
        noise = signs("noise", whole.sketch.shape[1:]) * 0.01 * np.abs(whole.sketch).mean()
        child = replace(
            signatures[parent], model="org/child", paths={"mlp": replace(whole, sketch=whole.sketch + noise)}
        )
        assert first(identify(child, "mlp", catalogue, QUICK)) == [parent]


@pytest.mark.parametrize("model", ["heron/llama-distilled", "magpie/llama-liar", "otter/llama-independent"])
def test_no_relative_is_named_for_an_independent_model(signatures, catalogue, model):
    result = identify(signatures[model], "mlp", catalogue, QUICK)
    assert result.related == ()
    assert result.ancestor is None
    assert result.searched >= len(KNOWN) - 1


def test_p_is_corrected_for_those_that_were_tested(signatures, catalogue):
    result = identify(signatures["heron/llama-int8-rounded"], "mlp", catalogue, QUICK, most=3)
    assert len(result.related) == 3
    assert {one.verdict.evidence["mlp"].analyses for one in result.related} == {3}
    assert all(one.verdict.evidence["mlp"].p_value <= 0.01 for one in result.related)


def independent(rng, size=48, layers=3):
    """A signature of random residuals, as those of independent models are to each other."""
    return rng.normal(size=(layers, size, size)).astype(np.float32)


@pytest.mark.long
def test_the_test_stays_exact_for_the_most_alike_of_many(signatures):
    """Of 300 sets of 40 independent models the nearest by its key is tested, on the other half of the coordinates."""
    from hf_lineage.evidence.evaluate import evaluate
    from hf_lineage.index.shard import for_testing, key_of, similarities

    whole, rng = signatures["acme/llama-base"], np.random.default_rng(0)

    def model():
        corner = independent(rng)
        path = replace(
            whole.paths["mlp"].select([0, 1, 2]), corner=corner, sketch=rng.normal(size=(3, 96, 64)).astype(np.float32)
        )
        recipe = replace(whole.recipe, coordinates=48)
        return replace(whole, recipe=recipe, paths={"mlp": path}, layers=3)

    small, criteria = 0, Criteria(alpha=0.1, permutations=99)
    for _ in range(300):
        asked, others = model(), [model() for _ in range(40)]
        keys = np.array([key_of(other.paths["mlp"]) for other in others])
        chosen = others[int(similarities(key_of(asked.paths["mlp"]), keys).argmax())]
        verdict = evaluate(for_testing(chosen, "mlp"), for_testing(asked, "mlp"), criteria)
        small += verdict.evidence["mlp"].permutation.p_value <= 0.1
    assert 12 <= small <= 50  # 30 expected, standard deviation 5.2
