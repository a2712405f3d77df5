"""Stages are made one after the other, and every possible one has its part of alpha."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare, extract
from hf_lineage.checking import stages
from hf_lineage.checking.stages import Stage, decide
from hf_lineage.errors import CheckpointError, OptionError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.measure import GRAFT, enough, fewest, reading_order
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import json
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.store import save_signature
from tests.example_evidence import evidence
from tests.models import WEIGHTS, fine_tuned, spoil, tiny_gpt2, tiny_llama

HUB = "examples/hub"

BASE, INDEPENDENT = f"{HUB}/acme/llama-base", f"{HUB}/otter/llama-independent"


def judged(model=INDEPENDENT):
    (row,) = compare(BASE, model, Options(seed=0, permutations=199, paths=("mlp",))).rows
    return row.verdict


@pytest.fixture
def toy(monkeypatch):
    """Add a stage to the list, which notes what it was called with."""
    calls = []

    def add(analyses=2, outcome=None, possible=True):
        def run(pair, criteria, before):
            if before.code is not Code.UNRELATED:
                return None
            calls.append((pair.base.name, criteria.tests, before.code))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        stage = Stage("by their names", lambda pair: possible, run, lambda pair: analyses, follows=True)
        monkeypatch.setattr(stages, "STAGES", (*stages.STAGES, stage))
        return calls

    return add


def counted(verdict):
    return [one.analyses + one.further for one in verdict.evidence.values()]


def test_a_stage_that_is_added_is_run_and_has_its_part_of_alpha(toy):
    before = judged()
    calls = toy(outcome=Verdict(Code.INCONCLUSIVE, "they have one name"))
    after = judged()
    (tests,) = counted(before)
    assert calls == [(BASE, tests + 2, "unrelated")]
    assert counted(after) == [tests + 2]
    assert (after.code, after.reason) == ("inconclusive", "they have one name")
    assert after.framed is None or after.framed.tests == tests + 2


@pytest.mark.long
def test_one_that_is_not_possible_costs_nothing_and_one_that_is_not_called_for_costs_its_part(toy):
    (tests,) = counted(judged(f"{HUB}/fern/llama-finetune-a"))
    for more, costs in (({"possible": False}, 0), ({"analyses": 3}, 3)):
        assert toy(**more) == []
        assert counted(judged(f"{HUB}/fern/llama-finetune-a")) == [tests + costs]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (None, ""),
        (CheckpointError("the names are damaged"), "could not be compared by their names: the names are damaged"),
    ],
)
def test_one_that_leaves_the_verdict_or_cannot_be_made_changes_no_more_than_the_reason(toy, outcome, reason):
    toy(outcome=outcome)
    assert (judged().code, judged().reason) == (Code.UNRELATED, reason)


def test_the_later_stage_decides_unless_it_finds_nothing_where_the_first_was_significant():
    measured = {"mlp": evidence(score=0.01, p=0.001)}
    faint, unrelated = Verdict(Code.INCONCLUSIVE, "faint", measured), Verdict(Code.UNRELATED)
    assert decide(faint, unrelated, alpha=0.01) == faint
    related = Verdict(Code.INHERITED, "in the order of the base")
    assert decide(faint, related, alpha=0.01) == replace(related, evidence=measured)
    clear = {"mlp": evidence(p=0.5)}
    assert decide(Verdict(Code.INCONCLUSIVE, "no test", clear), unrelated, 0.01) == replace(unrelated, evidence=clear)


LAYERS = 32

ONE = Options(seed=1, paths=("mlp",))

QUICK, FULL = replace(ONE, budget="quick"), replace(ONE, budget="full")

FIRST = fewest(LAYERS, 0.5)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A base, its child and an independent model, 32 layers each."""
    room = tmp_path_factory.mktemp("models")
    base = tiny_llama(room / "base", layers=LAYERS)
    return base, fine_tuned(base, room / "child"), tiny_llama(room / "other", seed=1, layers=LAYERS)


@pytest.fixture(scope="module")
def signed(models, tmp_path_factory):
    """The signature of the base, in a file."""
    save_signature(extract(str(models[0])), file := tmp_path_factory.mktemp("signed") / "base")
    return file


def judged_path_stages(a, b, options=QUICK):
    (row,) = compare(str(a), str(b), options).rows
    return row


def read(row):
    return {path: evidence.read for path, evidence in row.verdict.evidence.items()}


def test_a_child_is_related_after_the_first_layers_and_every_interim_analysis_is_paid_for(models):
    base, child, _ = models
    row = judged_path_stages(base, child)
    assert (row.verdict.code, read(row), row.layers) == ("inherited", {"mlp": FIRST}, LAYERS)
    measured = row.verdict.evidence["mlp"]
    assert measured.layers[1] == tuple(sorted(reading_order(LAYERS, 1)[:FIRST]))
    assert measured.analyses == 3
    assert measured.further == 2  # the models may be compared unit by unit and number by number as well
    assert len(measured.permutation.scores) == 999
    assert measured.p_value == pytest.approx(5 * measured.permutation.p_value) == pytest.approx(0.005)


def test_an_independent_model_is_unrelated_once_a_graft_would_have_been_seen(models):
    base, _, other = models
    row = judged_path_stages(base, other)
    assert (row.verdict.code, read(row)) == ("unrelated", {"mlp": enough(LAYERS)})


def test_all_layers_are_read_on_request_and_say_what_the_first_say(models):
    base, child, _ = models
    rows = [judged_path_stages(base, child, options) for options in (ONE, FULL)]
    few, everything = (row.verdict.evidence["mlp"] for row in rows)
    assert [(row.verdict.code, read(row)["mlp"]) for row in rows] == [("inherited", FIRST), ("inherited", LAYERS)]
    assert (few.analyses, everything.analyses) == (3, 1)
    among = [everything.layers[1].index(layer) for layer in few.layers[1]]
    np.testing.assert_allclose(few.comparison.by_layer, everything.comparison.by_layer[among], rtol=1e-12)


@pytest.mark.long
def test_what_is_said_of_a_claim_does_not_depend_on_the_claims_before_it(models):
    base, child, other = map(str, models)
    first, second = (
        {claim["base"]: claim for claim in json.document(check(child, bases, QUICK))["claims"]}
        for bases in ((base, other), (other, base))
    )
    assert first == second
    assert {name: claim["paths"][0]["layers_read"] for name, claim in first.items()} == {
        base: FIRST,
        other: enough(LAYERS),
    }


def test_a_stored_base_is_compared_as_a_whole_with_the_few_layers(models, signed):
    _, child, other = models
    row = judged_path_stages(signed, child)
    assert row.verdict.code == "inherited"
    assert row.verdict.evidence["mlp"].comparison.similarity.shape == (LAYERS, FIRST)
    assert row.verdict.evidence["mlp"].comparison.pairs[0].tolist() == sorted(reading_order(LAYERS, 1)[:FIRST])
    assert judged_path_stages(signed, other).verdict.code == "unrelated"


def test_layers_in_another_order_are_found_in_a_stored_base(models, signed, tmp_path):
    _, child, _ = models
    folder = shutil.copytree(child, tmp_path / "shuffled")

    def shuffled(name):
        number = int(name.split(".")[2]) if ".layers." in name else 0
        return name.replace(f".layers.{number}.", f".layers.{(number * 5 + 3) % LAYERS}.")

    save_file({shuffled(name): tensor for name, tensor in load_file(child / WEIGHTS).items()}, folder / WEIGHTS)
    row = judged_path_stages(signed, folder)
    assert (row.verdict.code, read(row)) == ("inherited", {"mlp": FIRST})


def with_layers(donor, of, folder, layers, scale=1.0):
    """A copy of a model with some layers of another, which write so many times as much."""
    shutil.copytree(of, folder)
    given = load_file(donor / WEIGHTS)

    def graft(tensors):
        for name, tensor in given.items():
            if ".layers." in name and int(name.split(".")[2]) in layers:
                tensors[name] = scale * tensor if "down_proj" in name else tensor

    return spoil(folder, graft)


@pytest.mark.parametrize("start", [0, 3, 11, 24])
@pytest.mark.few(1)
def test_a_graft_of_adjacent_layers_is_related_in_part_and_its_layers_are_named(models, tmp_path, start):
    base, child, other = models
    grafted = range(start, start + int(GRAFT * LAYERS))
    row = judged_path_stages(base, with_layers(child, other, tmp_path / "graft", grafted))
    share = row.verdict.evidence["mlp"].inherited.share
    assert (row.verdict.label, row.verdict.verified, read(row)) == ("RELATED part", False, {"mlp": LAYERS})
    assert row.verdict.reason == f"{share:.0%} of what its units write is inherited, in layers {start}-{grafted[-1]}"
    assert 0.2 < share < 0.3


def test_whoever_copies_the_layers_that_were_read_first_of_old_is_not_verified(models, tmp_path):
    base, _, other = models
    forged = with_layers(base, other, tmp_path / "forged", (0, 8, 16, 24))
    for seed in range(3):
        assert not judged_path_stages(base, forged, replace(QUICK, seed=seed)).verdict.verified
    whole = judged_path_stages(base, forged, FULL).verdict
    assert (whole.label, whole.exit_code) == ("RELATED part", 3)
    assert "in layers 0, 8, 16, 24; " in whole.reason


def test_one_copied_layer_is_never_more_than_one_layer(models, tmp_path):
    base, _, other = models
    row = judged_path_stages(base, with_layers(base, other, tmp_path / "one", [5]), FULL)
    assert row.verdict.label == "RELATED part"
    assert row.verdict.reason.startswith("3% of what its units write is inherited, in layer 5; 3.1% of the numbers")


def test_half_of_the_layers_are_never_verified_however_little_the_others_write(tmp_path):
    """Layers of the base in front of as many of one's own, the writers of either scaled by 1e-15."""
    base, other = tiny_llama(tmp_path / "base", layers=6), tiny_llama(tmp_path / "other", seed=1, layers=12)
    silent = with_layers(base, other, tmp_path / "silent", range(6), 1e-15)
    loud = with_layers(base, other, tmp_path / "half", range(6))
    loud = with_layers(other, loud, tmp_path / "loud", range(6, 12), 1e-15)
    for model in (silent, loud):
        verdict = judged_path_stages(base, model).verdict
        assert (verdict.label, verdict.verified) == ("RELATED part", False)


def test_a_layer_that_is_not_finite_is_a_reason_and_no_verdict(models, tmp_path):
    base, child, _ = models
    shutil.copytree(child, tmp_path / "poisoned")
    spoil(tmp_path / "poisoned", lambda tensors: tensors["model.layers.3.mlp.up_proj.weight"].fill_(float("inf")))
    row = judged_path_stages(base, tmp_path / "poisoned", FULL)
    assert (row.verdict.code, row.verdict.reason) == (
        "inconclusive",
        "weights in layer 3 of the candidate are not finite, or too large for float32; 1536 of the 1536 numbers of "
        "model.layers.3.mlp.up_proj.weight are not finite",
    )


def test_a_low_score_is_not_called_related_before_all_layers_are_read(models, tmp_path):
    base, _, _ = models
    row = judged_path_stages(base, fine_tuned(base, tmp_path / "far", noise=20.0))
    assert 0.02 < row.verdict.evidence["mlp"].comparison.score < 0.1
    assert row.verdict.label == "RELATED embedding"
    assert read(row) == {"mlp": LAYERS}


def test_the_order_of_layers_is_drawn_anew_for_every_report_unless_it_is_named(models, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    base, child, _ = models
    drawn = {compare(str(base), str(child), replace(QUICK, seed=None)).options.seed for _ in range(3)}
    assert len(drawn) == 3
    again = [compare(str(base), str(child), QUICK) for _ in range(2)]
    assert json.document(again[0]) == json.document(again[1])
    assert json.document(again[0])["settings"]["seed"] == 1


@pytest.mark.long
def test_what_is_nearly_significant_is_not_called_unrelated_before_all_layers_are_read(models, monkeypatch):
    monkeypatch.setattr(stages, "DOUBTFUL", 1.0)
    base, _, other = models
    row = judged_path_stages(base, other)
    assert (row.verdict.code, read(row)) == ("unrelated", {"mlp": LAYERS})


@pytest.mark.long
def test_independent_models_are_called_related_no_more_often_than_alpha(tmp_path):
    """At alpha 0.2, so that a rule that peeks for nothing would be caught: 3 analyses would reach 0.4."""
    options = replace(QUICK, alpha=0.2, permutations=9, recipe=replace(RECIPES["robust"], probes=8))
    base = tiny_llama(tmp_path / "base", layers=8, width=16)
    save_signature(extract(str(base), options), tmp_path / "stored")
    wrong = 0
    for seed in range(1, 61):
        other = tiny_llama(tmp_path / f"other{seed}", seed=seed, layers=8, width=16)
        row = judged_path_stages(tmp_path / "stored", other, replace(options, seed=seed))
        everything = judge(row.verdict.evidence, Criteria(options.alpha, minimum_effect=-1.0))
        wrong += everything.is_related
    assert wrong <= 0.2 * 60 + 3 * (0.2 * 0.8 * 60) ** 0.5


def test_an_independent_model_that_copies_the_test_coordinates_alone_is_not_related(tmp_path):
    """They are no secret: 16 of 128 rows that write the stream, and 16 columns that read it, are the base's."""
    options = Options(recipe=replace(RECIPES["robust"], coordinates=16, probes=None), seed=0)
    base = tiny_llama(tmp_path / "base", width=128)
    forged = tiny_llama(tmp_path / "forged", seed=1, width=128)
    chosen, donor = options.recipe.test_coordinates(128), load_file(base / WEIGHTS)

    def forge(tensors):
        for name, tensor in tensors.items():
            if "down_proj" in name:
                tensor[chosen] = donor[name][chosen]
            elif "up_proj" in name:
                tensor[:, chosen] = donor[name][:, chosen]

    row = judged_path_stages(base, spoil(forged, forge), options)
    evidence = row.verdict.evidence["mlp"]
    assert evidence.p_value == 0.002
    assert evidence.permutation.effect > 0.5
    assert evidence.comparison.score < 0.02
    assert row.verdict.code == "inconclusive"


def test_where_the_null_does_not_hold_no_more_layers_are_read_in_vain(models, tmp_path, monkeypatch):
    base, child, _ = models
    stored = extract(str(base))
    save_signature(replace(stored, exchangeable=False), tmp_path / "base")
    row = judged_path_stages(tmp_path / "base", child)
    assert (row.verdict.code, read(row)) == ("inconclusive", {"mlp": FIRST})


def test_what_needs_all_layers_refuses_to_be_quick(models):
    for options in ({"nulls": ("x",)}, {"recipe": replace(RECIPES["robust"], probes=None)}):
        with pytest.raises(OptionError, match="need all layers; leave --budget quick out"):
            Options(budget="quick", **options)


def test_several_paths_are_analysed_together(tmp_path):
    base = tiny_gpt2(tmp_path / "base", layers=12)
    row = judged_path_stages(base, fine_tuned(base, tmp_path / "child"), replace(QUICK, paths=("mlp", "value_output")))
    assert row.verdict.code == "inherited"
    assert read(row) == {"mlp": fewest(12, 0.5), "value_output": fewest(12, 0.5)}
    assert torch.tensor([evidence.p_value for evidence in row.verdict.evidence.values()]).max() <= 0.01
