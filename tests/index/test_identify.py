"""Relatives of a model among known ones: its parents first, none for what is independent, and an exact test."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options
from hf_lineage.errors import RepositoryError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import evaluate
from hf_lineage.hub.repo import RepoRef
from hf_lineage.index.identify import FOLDER, group_models, identify, identify_adapters, locate_entry
from hf_lineage.index.shard import for_testing, key_of, similarities
from hf_lineage.index.store import Catalogue, entry_of
from hf_lineage.signature.recipe import signs
from hf_lineage.source.contents import find_adapters
from tests.index.conftest import KNOWN
from tests.models import EXAMPLES

QUICK = Criteria(permutations=199)
OPTIONS = Options(local_hub=EXAMPLES, paths=("mlp",), permutations=99, seed=0)
FAMILY = {name for name in KNOWN if name.startswith(("acme/llama", "fern/llama", "moss"))}


def first(result, count=1):
    return [one.entry.model for one in result.related[:count]]


CHILDREN = (
    *("heron/llama-int8-rounded", "heron/llama-pruned-50", "magpie/llama-laundered", "magpie/llama-grafted"),
    *("moss/llama-continued", "fern/llama-finetune-a", "fern/llama-lora-merged", "fern/gpt2-finetune-a"),
)


@pytest.mark.few(3)
@pytest.mark.parametrize("model", CHILDREN)
def test_the_parent_comes_first(signatures, catalogue, model):
    result = identify(signatures[model], "mlp", catalogue, QUICK)
    assert first(result) == [f"acme/{'gpt2' if 'gpt2' in model else 'llama'}-base"]
    assert result.of == len(KNOWN)
    assert model not in {one.entry.model for one in result.related}


def test_both_parents_of_a_merge_come_before_their_base(signatures, catalogue):
    assert "acme/llama-base" in first(identify(signatures["fern/llama-finetune-b"], "mlp", catalogue, QUICK), 2)
    result = identify(signatures["fern/llama-merge-a-b"], "mlp", catalogue, QUICK)
    assert sorted(first(result, 2)) == ["fern/llama-finetune-a", "fern/llama-finetune-b"]
    assert first(result, 3)[2] == result.ancestor.entry.model == "acme/llama-base"
    assert min(one.along for one in result.related[:2]) > 0.7
    assert max(one.along for one in result.related[3:]) < 0.35


def test_a_fine_tune_of_which_others_were_made_is_told_from_its_sibling(signatures, tmp_path):
    catalogue = Catalogue(tmp_path)
    for name in ("acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b"):
        catalogue.add(signatures[name])
    for parent in ("fern/llama-finetune-a", "fern/llama-finetune-b"):
        whole = signatures[parent].paths["mlp"]
        noise = signs("noise", whole.sketch.shape[1:]) * 0.01 * np.abs(whole.sketch).mean()
        paths = {"mlp": replace(whole, sketch=whole.sketch + noise)}
        child = replace(signatures[parent], model="org/child", paths=paths)
        assert first(identify(child, "mlp", catalogue, QUICK)) == [parent]


def test_no_relative_is_named_for_an_independent_model_and_p_is_corrected(signatures, catalogue):
    for model in ("heron/llama-distilled", "magpie/llama-liar", "otter/llama-independent"):
        result = identify(signatures[model], "mlp", catalogue, QUICK)
        assert (result.related, result.ancestor, result.searched >= len(KNOWN) - 1) == ((), None, True)
    result = identify(signatures["heron/llama-int8-rounded"], "mlp", catalogue, QUICK, most=3)
    assert [one.distance for one in result.related] == pytest.approx([0.0095, 0.1042, 0.1012], abs=1e-4)
    assert {one.verdict.evidence["mlp"].analyses for one in result.related} == {3}
    assert all(one.verdict.evidence["mlp"].p_value <= 0.01 for one in result.related)


@pytest.mark.long
def test_the_test_stays_exact_for_the_most_alike_of_many(signatures):
    """Of 300 sets of 40 independent models the nearest by its key is tested, on the other half of the coordinates."""
    whole, rng = signatures["acme/llama-base"], np.random.default_rng(0)

    def model():
        corner, sketch = (rng.normal(size=(3, *shape)).astype(np.float32) for shape in ((48, 48), (96, 64)))
        path = replace(whole.paths["mlp"].select([0, 1, 2]), corner=corner, sketch=sketch)
        return replace(whole, recipe=replace(whole.recipe, coordinates=48), paths={"mlp": path}, layers=3)

    small, criteria = 0, Criteria(alpha=0.1, permutations=99)
    for _ in range(300):
        asked, others = model(), [model() for _ in range(40)]
        keys = np.array([key_of(other.paths["mlp"]) for other in others])
        chosen = others[int(similarities(key_of(asked.paths["mlp"]), keys).argmax())]
        verdict = evaluate(for_testing(chosen, "mlp"), for_testing(asked, "mlp"), criteria)
        small += verdict.evidence["mlp"].permutation.p_value <= 0.1
    assert 12 <= small <= 50  # 30 expected, standard deviation 5.2


def bases(catalogue, name="fern/llama-lora", folder=EXAMPLES):
    source = RepoRef(name, folder / name)
    (found,) = identify_adapters(source, find_adapters(source), catalogue, OPTIONS, 5)
    return found


def test_near_relatives_are_one_group_for_which_a_model_of_the_hub_stands(catalogue, signatures, tmp_path):
    groups, fitting, left = group_models(catalogue.shards(), 10)
    assert sorted(one.model for group in groups for one in (group.entry, *group.near)) == sorted(KNOWN)
    assert (fitting, left) == (len(KNOWN), 0)
    together = next(group for group in groups if group.entry.model == "acme/llama-base")
    assert {one.model for one in together.near} <= FAMILY
    assert len(together.near) >= 3
    catalogue = Catalogue(tmp_path)
    for name, commit in (("./a", None), ("z/base", "c0ffee" * 6 + "c0de")):
        catalogue.add(replace(signatures["acme/llama-base"], model=name, commit=commit))
    (group,), _, _ = group_models(catalogue.shards(), 10)
    assert group.entry.model == "z/base"


def test_the_base_of_an_adapter_is_found_by_its_trace_also_where_it_declares_another(catalogue):
    result = bases(catalogue)
    assert [one.group.entry.model for one in result.tested if one.verdict.is_related] == ["acme/llama-base"]
    assert (result.tests, result.width) == (len(result.tested), (96,))
    trace = result.tested[0].verdict.trace
    assert (trace.p_value * result.tests <= 0.01, trace.permutations) == (True, 1999)
    result = bases(catalogue, "magpie/llama-lora-liar")
    assert result.tested[0].group.entry.model == "acme/llama-base"
    assert [one.group.entry.model for one in result.tested if one.verdict.is_related] == ["otter/llama-independent"]


def test_an_adapter_that_cannot_be_tested_and_a_model_that_is_gone_have_reasons(signatures, tmp_path):
    (tmp_path / "org/x").mkdir(parents=True)
    (tmp_path / "org/x/adapter_config.json").write_text('{"peft_type": "LORA"}')
    catalogue = Catalogue(tmp_path / "index")
    result = bases(catalogue, "org/x", tmp_path)
    assert (result.tested, bool(result.description)) == ((), True)
    catalogue.add(replace(signatures["acme/llama-base"], model="/home/somebody/model"))
    (tested,) = bases(catalogue).tested
    assert (tested.verdict.code, tested.is_tested, tested.untested_count) == ("no-base", False, 1)
    assert tested.verdict.reason == FOLDER


@pytest.mark.parametrize("name", ["./acme/llama-base", "acme/llama-base", "llama-base", "/data/base"])
def test_a_folder_that_an_index_names_is_never_opened_nor_asked_of_the_hub(name, signatures, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr("hf_lineage.hub.client.snapshot", lambda *_: pytest.fail("the Hub was asked"))
    entry = replace(entry_of(signatures["acme/llama-base"], "mlp"), model=name)
    with pytest.raises(RepositoryError, match="hf-lineage never opens folders that an index names"):
        locate_entry(entry, None)
