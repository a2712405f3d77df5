"""Stages are made one after the other, by listing, sample, layers and equal numbers; each has its part of alpha."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare, extract
from hf_lineage.checking import stages
from hf_lineage.checking.stages import EQUAL, Stage, decide
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.inherited import InheritedShare
from hf_lineage.evidence.measure import GRAFT, enough, fewest, reading_order
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import json as as_json
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.store import save_signature
from tests.blends import dare, dare_ties, few_loud, half_foreign, other_mlps
from tests.checking.conftest import BASE, OTHER, TUNED, compared
from tests.example_evidence import evidence
from tests.models import EXAMPLES, WEIGHTS, card, edit_json, fine_tuned, shard, spoil, tiny_llama
from tests.server import serving
from tests.server.client import connect

SEEDED = Options(seed=0, permutations=199)
TESTS = 3
"""By the products of one path, number by number and unit by unit."""
DAMAGED = "the names are damaged"
LAYERS = 32
ONE = Options(seed=1, paths=("mlp",))
QUICK, FULL = replace(ONE, budget="quick"), replace(ONE, budget="full")
FIRST = fewest(LAYERS, 0.5)
HEADERS = 2 * 2**15
"""Bytes that are read of two files when they are opened."""
FEW = Options(seed=1, permutations=199, paths=("mlp",))


def judged(name=OTHER, **options):
    return compared(EXAMPLES / BASE, EXAMPLES / name, SEEDED, **options).verdict


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


def counted(name=OTHER):
    verdict = judged(name, paths=("mlp",))
    (measured,) = verdict.evidence.values()
    return verdict, measured.analyses + measured.further


@pytest.mark.parametrize(
    ("outcome", "code", "reason"),
    [
        (Verdict(Code.INCONCLUSIVE, "they have one name"), Code.INCONCLUSIVE, "they have one name"),
        (None, Code.UNRELATED, ""),
        (CheckpointError(DAMAGED), Code.UNRELATED, f"could not be compared by their names: {DAMAGED}"),
    ],
    ids=["decides", "leaves the verdict", "cannot be made"],
)
def test_a_stage_that_is_added_is_run_and_has_its_part_of_alpha(toy, outcome, code, reason):
    calls = toy(outcome=outcome)
    verdict, tests = counted()
    assert calls == [(str(EXAMPLES / BASE), TESTS + 2, "unrelated")]
    assert (verdict.code, verdict.reason, tests) == (code, reason, TESTS + 2)
    assert verdict.unit_comparison is None or verdict.unit_comparison.tests == TESTS + 2


@pytest.mark.long
def test_one_that_is_not_possible_costs_nothing_and_one_not_called_for_its_part(toy):
    assert counted(TUNED)[1] == TESTS
    for more, costs in (({"possible": False}, 0), ({"analyses": 3}, 3)):
        assert toy(**more) == []
        assert counted(TUNED)[1] == TESTS + costs


def test_the_later_stage_decides_unless_only_the_first_was_significant():
    measured = {"mlp": evidence(score=0.01, p=0.001)}
    faint, unrelated = Verdict(Code.INCONCLUSIVE, "faint", measured), Verdict(Code.UNRELATED)
    assert decide(faint, unrelated, alpha=0.01) == faint
    related = Verdict(Code.INHERITED, "in the order of the base")
    assert decide(faint, related, alpha=0.01) == replace(related, evidence=measured)
    clear = {"mlp": evidence(p=0.5)}
    assert decide(Verdict(Code.INCONCLUSIVE, "no test", clear), unrelated, 0.01) == replace(unrelated, evidence=clear)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    room = tmp_path_factory.mktemp("models")
    base = tiny_llama(room / "base", layers=LAYERS)
    return base, fine_tuned(base, room / "child"), tiny_llama(room / "other", seed=1, layers=LAYERS)


def quickly(base, model, options=QUICK):
    return compared(base, model, options).verdict


def read(verdict):
    return {path: evidence.layers_read for path, evidence in verdict.evidence.items()}


def test_a_child_is_related_after_the_first_layers_and_every_analysis_is_paid_for(models):
    base, child, other = models
    unrelated = quickly(base, other)
    assert (unrelated.code, read(unrelated)) == ("unrelated", {"mlp": enough(LAYERS)}), "a graft would have been seen"
    row = compared(base, child, QUICK)
    assert (row.verdict.code, read(row.verdict), row.layers) == ("inherited", {"mlp": FIRST}, LAYERS)
    measured = row.verdict.evidence["mlp"]
    assert measured.layers[1] == tuple(sorted(reading_order(LAYERS, 1)[:FIRST]))
    assert measured.analyses == 3
    assert measured.further == 2  # the models may be compared unit by unit and number by number as well
    assert len(measured.permutation.scores) == 999
    assert measured.p_value == pytest.approx(5 * measured.permutation.p_value) == pytest.approx(0.005)
    base, child, _ = models
    verdicts = [quickly(base, child, options) for options in (ONE, FULL)]
    few, everything = (verdict.evidence["mlp"] for verdict in verdicts)
    assert [(one.code, read(one)["mlp"]) for one in verdicts] == [("inherited", FIRST), ("inherited", LAYERS)]
    assert (few.analyses, everything.analyses) == (3, 1)
    among = [everything.layers[1].index(layer) for layer in few.layers[1]]
    np.testing.assert_allclose(few.comparison.by_layer, everything.comparison.by_layer[among], rtol=1e-12)


@pytest.mark.long
def test_what_is_said_of_a_claim_does_not_depend_on_the_claims_before_it(models):
    base, child, other = map(str, models)
    first, second = (
        {claim["base"]: claim for claim in as_json.document(check(child, bases, QUICK))["claims"]}
        for bases in ((base, other), (other, base))
    )
    assert first == second
    layers = {name: claim["paths"][0]["layers_read"] for name, claim in first.items()}
    assert layers == {base: FIRST, other: enough(LAYERS)}


def test_a_stored_base_is_compared_as_a_whole_with_few_layers_in_any_order(models, tmp_path):
    base, child, other = models
    save_signature(extract(str(base)), signed := tmp_path / "signed")
    verdict = quickly(signed, child)
    compared_layers = verdict.evidence["mlp"].comparison
    assert (verdict.code, compared_layers.similarity.shape) == ("inherited", (LAYERS, FIRST))
    assert compared_layers.pairs[0].tolist() == sorted(reading_order(LAYERS, 1)[:FIRST])
    assert quickly(signed, other).code == "unrelated"
    folder = shutil.copytree(child, tmp_path / "shuffled")

    def shuffled(name):
        number = int(name.split(".")[2]) if ".layers." in name else 0
        return name.replace(f".layers.{number}.", f".layers.{(number * 5 + 3) % LAYERS}.")

    save_file({shuffled(name): tensor for name, tensor in load_file(child / WEIGHTS).items()}, folder / WEIGHTS)
    verdict = quickly(signed, folder)
    assert (verdict.code, read(verdict)) == ("inherited", {"mlp": FIRST})


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
    verdict = quickly(base, with_layers(child, other, tmp_path / "graft", grafted))
    share = verdict.evidence["mlp"].inherited.share
    assert (verdict.label, read(verdict)) == ("RELATED part", {"mlp": LAYERS})
    assert verdict.reason == f"{share:.0%} of what its units write is inherited, in layers {start}-{grafted[-1]}"
    assert 0.2 < share < 0.3


def test_whoever_copies_layers_that_were_read_first_of_old_or_one_is_not_verified(models, tmp_path):
    base, _, other = models
    forged = with_layers(base, other, tmp_path / "forged", (0, 8, 16, 24))
    for seed in range(2):
        assert not quickly(base, forged, replace(QUICK, seed=seed)).verified
    whole = quickly(base, forged, FULL)
    assert (whole.label, whole.exit_code) == ("RELATED part", 3)
    assert "in layers 0, 8, 16, 24; " in whole.reason
    whole = quickly(base, with_layers(base, other, tmp_path / "one", [5]), FULL)
    assert whole.label == "RELATED part"
    assert whole.reason.startswith("3% of what its units write is inherited, in layer 5; 3.1% of the numbers")


def test_half_of_the_layers_are_never_verified_however_little_the_others_write(tmp_path):
    """Layers of the base in front of as many of one's own, the writers of either scaled by 1e-15."""
    base, other = tiny_llama(tmp_path / "base", layers=6), tiny_llama(tmp_path / "other", seed=1, layers=12)
    silent = with_layers(base, other, tmp_path / "silent", range(6), 1e-15)
    loud = with_layers(base, other, tmp_path / "half", range(6))
    loud = with_layers(other, loud, tmp_path / "loud", range(6, 12), 1e-15)
    assert [quickly(base, model).label for model in (silent, loud)] == ["RELATED part"] * 2


def test_a_layer_that_is_not_finite_is_a_reason_and_no_verdict(models, tmp_path):
    base, child, _ = models
    shutil.copytree(child, tmp_path / "poisoned")
    spoil(tmp_path / "poisoned", lambda tensors: tensors["model.layers.3.mlp.up_proj.weight"].fill_(float("inf")))
    verdict = quickly(base, tmp_path / "poisoned", FULL)
    said = "weights in layer 3 of the candidate are not finite, or too large for float32; 1536 of the 1536 numbers of"
    said += " model.layers.3.mlp.up_proj.weight are not finite"
    assert (verdict.code, verdict.reason) == ("inconclusive", said)


def test_a_low_score_is_not_called_related_before_all_layers_are_read(models, tmp_path):
    base, _, _ = models
    verdict = quickly(base, fine_tuned(base, tmp_path / "far", noise=20.0))
    assert 0.02 < verdict.evidence["mlp"].comparison.score < 0.1
    assert (verdict.label, read(verdict)) == ("RELATED embedding", {"mlp": LAYERS})


def test_the_order_of_layers_is_drawn_anew_for_every_report_unless_it_is_named(models, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    base, child, _ = models
    drawn = {compare(str(base), str(child), replace(QUICK, seed=None)).options.seed for _ in range(3)}
    assert len(drawn) == 3
    again = [compare(str(base), str(child), QUICK) for _ in range(2)]
    assert as_json.document(again[0]) == as_json.document(again[1])
    assert as_json.document(again[0])["settings"]["seed"] == 1


@pytest.mark.long
def test_what_is_nearly_significant_is_not_unrelated_before_all_layers_are_read(models, monkeypatch):
    monkeypatch.setattr(stages, "DOUBTFUL", 1.0)
    base, _, other = models
    verdict = quickly(base, other)
    assert (verdict.code, read(verdict)) == ("unrelated", {"mlp": LAYERS})


@pytest.mark.long
def test_independent_models_are_called_related_no_more_often_than_alpha(tmp_path):
    """At alpha 0.2, so that a rule that peeks for nothing would be caught: 3 analyses would reach 0.4."""
    options = replace(QUICK, alpha=0.2, permutations=9, recipe=replace(RECIPES["robust"], probes=8))
    base = tiny_llama(tmp_path / "base", layers=8, width=16)
    save_signature(extract(str(base), options), tmp_path / "stored")
    wrong = 0
    for seed in range(1, 61):
        other = tiny_llama(tmp_path / f"other{seed}", seed=seed, layers=8, width=16)
        measured = quickly(tmp_path / "stored", other, replace(options, seed=seed)).evidence
        wrong += judge(measured, Criteria(options.alpha, minimum_effect=-1.0)).is_related
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

    verdict = quickly(base, spoil(forged, forge), options)
    evidence = verdict.evidence["mlp"]
    assert (verdict.code, evidence.p_value) == ("inconclusive", 0.002)
    assert evidence.permutation.effect > 0.5
    assert evidence.comparison.score < 0.02


def test_where_the_null_does_not_hold_no_more_layers_are_read_in_vain(models, tmp_path, monkeypatch):
    base, child, _ = models
    stored = extract(str(base))
    save_signature(replace(stored, exchangeable=False), tmp_path / "base")
    verdict = quickly(tmp_path / "base", child)
    assert (verdict.code, read(verdict)) == ("inconclusive", {"mlp": FIRST})


@pytest.fixture
def base(tmp_path):
    return shard(tiny_llama(tmp_path / "base", layers=8, width=64))


@pytest.fixture
def mirror(base, tmp_path):
    """A copy of all files but the card, saved by another version."""
    folder = shutil.copytree(base, tmp_path / "mirror", ignore=shutil.ignore_patterns("README.md"))
    edit_json(folder / "config.json", transformers_version="4.0.0")
    return card(folder, "acme/base")


@pytest.fixture
def mirrored(base, mirror, tmp_path, monkeypatch):
    """Check the mirror against the base, both on one Hub, and return its row and the large bytes that were moved."""
    with serving() as hub:

        def of_both(options=FEW):
            hub.publish("acme/base", base)
            hub.publish("fern/mirror", mirror)
            connect(hub, tmp_path / "cache", monkeypatch)
            row, *_ = check("fern/mirror", options=options).rows
            return row, hub.moved()

        of_both.hub = hub
        yield of_both


def test_a_mirror_is_related_by_the_listing_unless_its_weights_are_asked_for(mirrored, mirror):
    row, moved = mirrored()
    assert (row.verdict.label, row.verdict.exit_code) == ("RELATED listed", 3)
    assert row.verdict.reason.startswith("the same files, by the Hub's listing: 2 files with weights")
    assert moved <= 2 * HEADERS
    row, _ = mirrored(replace(FEW, accept=("listed",)))
    assert (row.verdict.label, row.verdict.exit_code) == ("RELATED listed", 0)
    for asked in ({"budget": "full"}, {"recompute": True}):
        row, moved = mirrored(replace(FEW, **asked))
        assert (row.verdict.label, moved > 2 * HEADERS) == ("VERIFIED inherited", True)
    edit_json(mirror / "config.json", rope_theta=5.0)
    assert mirrored()[0].verdict.label == "VERIFIED inherited"


def test_a_fine_tune_falls_through_to_its_weights_at_no_more_requests(mirrored, mirror, tmp_path, monkeypatch):
    shutil.rmtree(mirror)
    whole = tiny_llama(tmp_path / "whole", layers=8, width=64)
    card(shard(fine_tuned(whole, mirror)), "acme/base")
    row, _ = mirrored()
    assert row.verdict.label == "VERIFIED inherited"
    asked = len(mirrored.hub.requests)
    monkeypatch.setattr(stages, "STAGES", stages.STAGES[1:])
    shutil.rmtree(tmp_path / "cache")
    mirrored.hub.forget()
    mirrored()
    assert asked <= len(mirrored.hub.requests) + 2


def test_an_index_that_leaves_tensors_out_is_no_copy(mirrored, mirror):
    """The shards are the base's, and their names are listed; what would be loaded is not."""
    index = mirror / f"{WEIGHTS}.index.json"
    content = json.loads(index.read_text("utf-8"))
    first, second = sorted(set(content["weight_map"].values()))
    edit_json(index, weight_map={name: file for name, file in content["weight_map"].items() if file == first})
    (mirror / second).unlink()
    with pytest.raises(Exception, match=r"misses|lacks|missing|no tensor|incomplete"):
        mirrored()


def test_a_folder_whose_links_look_like_those_of_the_cache_is_read(base, tmp_path):
    """Nobody lists what is in a folder of the user's: a link to a file with a digest as its name is no proof."""
    folder = shutil.copytree(base, tmp_path / "liar", ignore=shutil.ignore_patterns("README.md"))
    (folder / "blobs").mkdir()
    first, *_ = sorted(folder.glob("*.safetensors"))
    first.rename(folder / "blobs" / ("0" * 64))
    first.symlink_to(folder / "blobs" / ("0" * 64))
    assert compared(base, folder, FEW).verdict.label == "VERIFIED inherited"


MLP = replace(SEEDED, paths=("mlp",))
MADE = {
    "DARE of a far descendant, a tenth": (lambda folder: dare(folder, 0.1), 0.90, 0.17, Code.EMBEDDING),
    "DARE of a far descendant, three tenths": (lambda folder: dare(folder, 0.3), 0.70, 0.32, Code.EMBEDDING),
    "DARE-TIES with a foreign model": (dare_ties, 0.26, 0.10, Code.UNRELATED),
    "other MLPs": (other_mlps, 0.27, 0.26, Code.UNRELATED),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("made", MADE)
def test_what_keeps_numbers_of_the_base_is_related_in_part(tmp_path, monkeypatch, made):
    build, equal, least, before = MADE[made]
    model = build(tmp_path / "model")
    found = compared(EXAMPLES / BASE, model, MLP).verdict
    assert (found.code, found.exit_code) == (Code.PART, 3)
    assert found.equal.p_value <= 0.01
    assert float(found.equal.equal.mean()) == pytest.approx(equal, abs=0.01)
    assert found.equal.share == pytest.approx(least, abs=0.03)
    assert "bit for bit" in found.reason
    monkeypatch.setattr(stages, "STAGES", tuple(one for one in stages.STAGES if one is not EQUAL))
    assert compared(EXAMPLES / BASE, model, MLP).verdict.code is before


def test_a_graft_has_its_layers_by_number_and_nothing_is_read_of_what_is_verified(monkeypatch):
    found = judged("magpie/llama-grafted")
    assert found.code is Code.PART
    assert found.reason.startswith("33% of what its units write is inherited, in layers 1, 4; 33.4% of the numbers")
    assert found.equal.at_least.round(2).tolist() == [0, 1, 0, 0, 1, 0]
    monkeypatch.setattr("hf_lineage.checking.by_units.weights_of", None)
    assert judged(TUNED).verified


def test_where_half_of_the_layers_are_foreign_nothing_is_verified(tmp_path, monkeypatch):
    model = half_foreign(tmp_path / "model")
    report = compare(EXAMPLES / BASE, model, SEEDED)
    found = report.rows[0].verdict
    assert (found.code, found.exit_code) == (Code.PART, 3)
    assert [one.inherited.share for one in found.evidence.values()] == pytest.approx([0.5, 0.5])
    assert "How it was made: in the layers that are inherited, weights unchanged" in " ".join(report.to_text().split())
    monkeypatch.setattr(InheritedShare, "least", property(lambda self: self.share + 1e-9))
    assert compared(EXAMPLES / BASE, model, SEEDED).verdict.verified


@pytest.mark.few(1)
@pytest.mark.parametrize("model", [OTHER, "heron/llama-distilled", "magpie/llama-liar"])
def test_independent_models_have_no_more_equal_numbers_than_chance_gives(model):
    found = judged(model)
    assert (found.code, found.equal) == (Code.UNRELATED, None)


def test_small_numbers_beside_large_ones_and_those_of_another_format_buy_nothing(tmp_path):
    found = compared(EXAMPLES / BASE, few_loud(tmp_path / "model"), SEEDED).verdict
    assert (found.code, found.exit_code) == (Code.INCONCLUSIVE, 3)
    assert float(found.equal.equal.mean()) == pytest.approx(0.1, abs=0.01)
    assert found.equal.share < 0.001
    model = other_mlps(tmp_path / "other")
    spoil(model, lambda tensors: tensors.update({name: one.float() for name, one in tensors.items()}))
    assert compared(EXAMPLES / BASE, model, MLP).verdict.code is Code.UNRELATED


def test_over_the_network_a_few_rows_are_enough(online, tmp_path):
    base = tiny_llama(tmp_path / "base", layers=8, width=64)
    other = tiny_llama(tmp_path / "other", seed=1, layers=8, width=64)
    kept = {name: one for name, one in load_file(base / WEIGHTS).items() if ".mlp." not in name}
    online.publish("org/base", base)
    online.publish("org/child", spoil(other, lambda tensors: tensors.update(kept)))
    assert compared("org/base", "org/child", SEEDED).verdict.code is Code.PART
