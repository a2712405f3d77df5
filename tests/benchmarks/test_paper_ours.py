"""The experiments of our own: their parts on cases whose answer is known, and claims that fail on wrong rows."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.paper.experiment import ClaimError
from benchmarks.paper.items import found, ours_adapters, ours_frames
from benchmarks.paper.parts import (
    adapters,
    disguises,
    judging,
    laundering,
    models,
    pools,
    scores,
    sketching,
    steps,
    sweeping,
    traces,
)
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.results import Results
from hf_lineage import RECIPES, Options, compare
from hf_lineage.evidence.judging import unit_verdict as framed_verdict
from hf_lineage.evidence.nulls.interim_analyses import reading_order
from hf_lineage.evidence.paths.comparison import compare_paths
from tests.benchmarks.test_paper_results import FILES
from tests.example_evidence import trace

SHAPE = models.Shape(inputs=6, width=40, hidden=40, layers=4)
TOKENS = torch.arange(64).view(2, 32)


@pytest.fixture(scope="module")
def networks():
    """Untrained networks of seeds of their own."""
    return list(models.initial(SHAPE, range(12)))


@pytest.fixture(scope="module")
def group(networks):
    """A network, itself with a little noise, and strangers."""
    random = torch.Generator().manual_seed(0)
    child = networks[0].changed(lambda tensor: tensor + 0.01 * torch.randn(tensor.shape, generator=random))
    named = {"a": networks[0], "child": child, **{str(number): each for number, each in enumerate(networks[1:])}}
    pairs = {judging.RELATED: [("a", "child")], judging.UNRELATED: [("a", str(number)) for number in range(11)]}
    return judging.Group("untrained", judging.of_networks(named), pairs)


def committed(item):
    """The rows that are committed for an item, by name."""
    return {row.name: row for row in Results.read(FILES[item]).rows}


def test_robust_is_the_paper_with_all_steps_and_the_paper_is_robust_without_any():
    everything = {setting: value for step in steps.STEPS.values() for setting, value in step.items()}
    assert replace(steps.PAPER, name="robust", version=3, **everything) == steps.ROBUST
    assert replace(steps.ROBUST, probes=64) == RECIPES["robust"]
    recipes = steps.recipes(["gains", "cap"])
    assert list(recipes) == ["paper", "paper + gains", "paper + cap", "robust - gains", "robust - cap", "robust"]
    assert recipes["paper + cap"].cap == steps.ROBUST.cap
    assert not recipes["paper + cap"].gains
    assert recipes["robust - cap"].cap is None
    assert recipes["robust - cap"].gains
    further = steps.recipes(["median", "activity"])
    assert (further["paper + median"].cap, further["paper + median"].cap_median) == (steps.ROBUST.cap, "norm")
    assert (further["robust - median"].cap, further["robust - median"].cap_median) == (steps.ROBUST.cap, "units")
    assert [further[name].activity for name in ("paper + activity", "robust - activity")] == [True, False]


@pytest.mark.parametrize(("family", "name"), [("llama", "acme/llama-base"), ("gpt2", "acme/gpt2-base")])
def test_a_turned_stream_leaves_the_function_and_hides_the_products_but_not_the_units(family, name, tmp_path):
    *_, turned = disguises.EDITS[family]
    folder = disguises.disguised(Cache(tmp_path), HUB / name, turned, TOKENS)
    (row,) = compare(str(HUB / name), str(folder), Options(permutations=99)).rows
    assert (row.verdict.by_path["mlp"].name, row.verdict.words) == ("UNRELATED", "RELATED")


def test_an_edit_that_moves_the_function_makes_no_model(tmp_path):
    def double(model):
        model.lm_head.weight.data.mul_(2)

    with pytest.raises(laundering.FunctionError, match="moved by"):
        disguises.disguised(Cache(tmp_path), HUB / "acme/llama-base", disguises.Edit("doubled", (double,)), TOKENS)


def test_another_sketch_version_draws_other_probes_and_the_same_exact_score(networks):
    def score(**settings):
        recipe = replace(RECIPES["robust"], **settings)
        return compare_paths(*(scores.signature(each.blocks, recipe) for each in networks[:2])).score

    assert score(probes=8) != score(probes=8, sketch_version=2)
    assert score(probes=None) == score(probes=None, sketch_version=2)


def test_errors_are_measured_against_the_exact_pairing(group):
    exact = judging.evidence(*(group.models[name](steps.ROBUST) for name in ("a", "child")), permutations=99)
    errors = sketching.Errors()
    errors.add(exact, [exact.comparison, replace(exact.comparison, similarity=exact.comparison.similarity + 0.1)])
    assert errors.score == errors.paired == [[0, pytest.approx(0.1)]]
    assert errors.deviation == pytest.approx(0.1 / np.sqrt(2))
    assert (errors.draws, errors.changed, errors.within) == (2, 0, 0.5)
    worse = replace(exact.comparison, similarity=exact.comparison.similarity - 1)
    assert worse.score < 0
    errors.add(exact, [worse, worse])
    assert errors.changed == 2


def test_the_exponent_of_a_power_law_is_found():
    by_k = {k: sketching.Errors(paired=[[k**-0.5, -(k**-0.5)]]) for k in (4, 16, 64)}
    assert sketching.exponent(by_k) == pytest.approx(-0.5)


def test_the_interval_of_a_rate_draws_whole_bases_and_not_pairs():
    family, configuration = adapters.Family("Llama", 32), ours_adapters.CONFIGURATIONS[0]
    low, high = (trace(observed=observed) for observed in (-1.0, 2.0))
    pairs = [
        traces.Pair(family, configuration, 1, own, base, "UNRELATED", False, high if own == 0 else low)
        for own in range(10)
        for base in range(10)
        if own != base
        for _ in range(20)
    ]
    found = traces.rate(pairs, 0.01)
    assert (found.share, found.pairs, found.low) == (pytest.approx(0.1), 1800, 0)
    assert found.high > 0.25  # of as many pairs by themselves the interval would end at 0.115


def test_there_are_as_many_bases_and_false_pairs_as_the_claim_needs():
    rows = committed("ours:adapters")
    pairs = rows["false pairs rejected at 0.01"].note.split(" pairs")[0]
    found = [row.note.partition(" of ")[2].partition(";")[0] for name, row in rows.items() if name.endswith(": found")]
    assert int(pairs) >= 1300
    assert rows[ours_adapters.WRONG].number <= 2
    assert sum(map(int, found)) >= 15 * 4 * 3


def test_verdicts_follow_their_settings(group, tmp_path):
    chosen = {"alpha": 0.002}, {"floor": 1.0}, {"alpha": 1.0, "floor": -1.0}
    settings = [sweeping.Setting(**each) for each in chosen]
    strict, high, anything = sweeping.told(Cache(tmp_path), group, settings)
    assert strict == {judging.RELATED: sweeping.Share(1, 1), judging.UNRELATED: sweeping.Share(0, 11)}
    assert high[judging.RELATED].others.share == 1
    assert anything[judging.UNRELATED].share == 1


def test_each_number_of_permutations_is_a_sequence_of_its_own(group):
    a, b = (group.models[name](RECIPES["robust"]) for name in ("a", "child"))
    many, few = (judging.evidence(a, b, count) for count in (99, 49))
    assert np.array_equal(many.permutation.scores[:49], few.permutation.scores)
    assert sweeping.related(few, sweeping.Setting(alpha=0.02, permutations=49))
    assert not sweeping.related(few, sweeping.Setting(alpha=0.019, permutations=49))


def test_layers_come_in_the_order_in_which_they_are_read(group):
    whole = group.models["a"](RECIPES["robust"])
    assert reading_order(4, seed=0) == (3, 0, 2, 1)
    assert np.array_equal(sweeping.read(2, whole).trace, whole.trace[[0, 3]])
    assert np.array_equal(sweeping.read(4, whole).sketch, whole.sketch)
    assert np.array_equal(sweeping.read(2, whole, start=2).trace, whole.trace[[1, 2]])
    assert [list(sweeping.pieces(count, layers=4)) for count in (1, 2, 3, 4)] == [[0, 1, 2, 3], [0, 2], [0], [0]]
    living = sweeping.living(3, whole)
    assert living.usable.tolist() == living.writing.tolist() == [True, False, True, True]
    assert np.array_equal(living.corner[2:], whole.corner[2:])


def test_layers_without_weight_are_left_out_and_nothing_is_missed_for_them(group, tmp_path):
    for count, missed in ((3, 0), (2, 0)):
        changed = sweeping.seen(group, partial(sweeping.living, count))
        (found,) = sweeping.told(Cache(tmp_path), changed, [sweeping.Setting()])
        assert found[judging.RELATED].others.share == missed


def test_judging_signatures_says_what_compare_says():
    names, options = ("acme/llama-base", "moss/llama-continued", "otter/llama-independent"), Options(permutations=99)
    models_ = judging.of_folders({name: HUB / name for name in names})
    for suspect in names[1:]:
        ours = judging.evidence(*(models_[name](RECIPES["robust"]) for name in (names[0], suspect)), permutations=99)
        (row,) = compare(str(HUB / names[0]), str(HUB / suspect), options).rows
        theirs = row.verdict.evidence["mlp"]
        assert (ours.comparison.score, ours.p_value) == (theirs.comparison.score, theirs.p_value)
        assert judging.verdict(ours).name == row.verdict.name


def test_the_pools_hold_no_pair_twice_and_no_relatives_among_strangers():
    listed = [*pools.LLAMAS[judging.RELATED], *pools.LLAMAS[judging.UNRELATED], pools.LLAMA]
    assert len(set(listed)) == len(listed)
    assert all((HUB / name).is_dir() for name in listed)


WRONG = [
    ("ours:adapters", ours_adapters.FOUND, 0.99),
    ("ours:adapters", ours_adapters.PREDICTED, 0.9),
    ("ours:adapters", ours_adapters.WRONG, 3),
    ("ours:adapters", "false pairs rejected at 0.01: lower end", 0.02),
    ("ours:adapters", "false pairs rejected at 0.05: lower end", 0.06),
    ("ours:adapters", ours_adapters.SPREAD, 0.001),
    ("ours:robust", "Llama, gains moved, robust: descendants, least score", 0.5),
    ("ours:robust", "GPT-2, means shifted, paper: descendants, least score", 0.95),
    ("ours:robust", "Llama, all of these, robust - activity: descendants, least score", 0.95),
    ("ours:robust", "GPT-2, clean, paper + cap: descendants, least score", 0.5),
    ("ours:robust", "ResNet, clean, robust: strangers, largest score", 0.2),
    ("ours:robust", "robust, all edits but of the stream: strangers called RELATED", "9/84"),
    ("ours:robust", "robust, all edits but of the stream: descendants called RELATED", "1/2"),
    ("ours:sketch", "Llama, related, k = 32: standard deviation, in stated", 3.0),
    ("ours:sketch", "deep MLP, unrelated, k = 16: mean error, in stated", 1.0),
    ("ours:sketch", "wide MLP, unrelated: exponent of k", -1.0),
    ("ours:sketch", "Llama, unrelated, k = 8: verdicts changed", 1),
    ("ours:sketch", "deep MLP, a model and itself: largest error", 0.01),
    ("ours:verdict", "α = 0.01: independent pairs called RELATED", 0.2),
    ("ours:verdict", "α = 0.02: merges and grafts with a small share missed", 0.1),
    ("ours:verdict", "m = 64: descendants missed", 0.1),
    ("ours:verdict", "GPT-2, defaults: descendants missed", 0.1),
    ("ours:verdict", "deep MLP, merge with 0.5 of the weights: called RELATED", 0.5),
]


@pytest.mark.parametrize(("item", "name", "value"), WRONG)
def test_a_claim_fails_on_a_wrong_row(item, name, value):
    rows = committed(item)
    (experiment,) = found()[item]
    experiment.claim(rows)
    with pytest.raises(ClaimError):
        experiment.claim({**rows, name: replace(rows[name], ours=value)})


def test_the_threshold_of_calibrated_evidence_is_that_of_the_committed_pairs():
    rows = committed("ours:frames")
    assert framed_verdict.CALIBRATION == "benchmarks/results/ours-frames.json"
    assert rows[ours_frames.PAIRS].number == framed_verdict.PAIRS > 1000
    assert rows[ours_frames.LARGEST].number <= framed_verdict.LARGEST < framed_verdict.CALIBRATED / 1.5
    assert committed("ours:experts")[ours_frames.LARGEST].number <= framed_verdict.LARGEST
