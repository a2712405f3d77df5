"""Sampling: a few per cent of the bytes show a descendant whose units are in their places, and nothing else."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage import Options, check, compare
from hf_lineage.architecture.paths import USUAL
from hf_lineage.checking import stages
from hf_lineage.checkpoint.tensor import StoredTensor
from hf_lineage.evidence.measure import analyses, enough
from hf_lineage.report import json, wording
from hf_lineage.signature import sample
from hf_lineage.source import model as model_module
from hf_lineage.source import rows as rows_module
from tests import models
from tests.checking.conftest import compared
from tests.models import WEIGHTS, card, fine_tuned, spoil, tiny_llama
from tests.streams import shuffled

WIDTH, HIDDEN, LAYERS = 128, 512, 16
QUICK = Options(seed=1, permutations=199)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """An eighth of the units and a quarter of the coordinates are drawn."""
    for name, size in (("UNITS", 64), ("RUN", 8), ("COORDINATES", 32)):
        monkeypatch.setattr(sample, name, size)
    monkeypatch.setattr(models, "HIDDEN", HIDDEN)


@pytest.fixture
def base(tmp_path):
    return tiny_llama(tmp_path / "base", layers=LAYERS, width=WIDTH)


def changed(source, folder, change):
    """A copy of a model in which `change` replaces each layer's matrices, gate and up (h, d) and down (d, h)."""
    shutil.copytree(source, folder)

    def everywhere(tensors):
        for layer in range(LAYERS):
            names = [f"model.layers.{layer}.mlp.{role}_proj.weight" for role in ("gate", "up", "down")]
            tensors |= zip(names, change(layer, *(tensors[name] for name in names)), strict=True)

    return spoil(folder, everywhere)


@pytest.fixture
def other(tmp_path):
    return tiny_llama(tmp_path / "other", seed=1, layers=LAYERS, width=WIDTH)


@pytest.fixture
def not_by_units(monkeypatch):
    """No comparison unit by unit, which takes most of the time of what is unrelated."""
    monkeypatch.setattr(stages, "STAGES", tuple(stage for stage in stages.STAGES if stage is not stages.UNITS))


def judged(base, candidate, **options):
    return compared(base, candidate, QUICK, **options)


def sampled(row):
    return row.verdict.evidence["mlp"].sampled is not None


def test_a_child_is_related_by_a_sample_and_the_report_says_of_what(base, tmp_path):
    row = judged(base, fine_tuned(base, tmp_path / "child"))
    assert (row.verdict.label, sampled(row), row.verdict.evidence["mlp"].analyses) == ("VERIFIED inherited", True, 4)
    path, heads = json.document(compare(base, tmp_path / "child", QUICK))["claims"][0]["paths"]
    assert path["sampled"] == {"units": 64, "of_units": HIDDEN, "coordinates": 32, "of_coordinates": WIDTH}
    assert heads["sampled"] == {"units": WIDTH, "of_units": WIDTH, "coordinates": 32, "of_coordinates": WIDTH}
    assert path["layers_read"] == 6
    assert 0 < path["standard_error"] < 0.01
    assert path["inherited"]["low"] > 0.5


def test_a_fraction_of_each_layer_is_read_and_little_more_along_two_paths(tmp_path, monkeypatch):
    """Four of 32 heads are drawn; what tells a relation reads a row of each tensor."""
    monkeypatch.setattr(rows_module, "MOST", WIDTH)
    sizes, read, moved = [], StoredTensor.read, []
    monkeypatch.setattr(StoredTensor, "read", lambda self, memory: sizes.append(self.size) or read(self, memory))
    base = tiny_llama(tmp_path / "base", layers=LAYERS, width=WIDTH, num_attention_heads=32)
    child = fine_tuned(base, tmp_path / "child")
    for paths in (("mlp",), USUAL):
        sizes.clear()
        assert sampled(judged(base, child, paths=paths))
        moved.append(sum(sizes))
    assert 0 < moved[0] < 2 * 6 * (3 * HIDDEN * WIDTH * 4) / 4
    assert moved[1] < 1.35 * moved[0]


@pytest.mark.parametrize(
    ("changes", "by_sample"),
    [({"budget": "full"}, False), pytest.param({"paths": ("mlp", "mlp_gate")}, True, marks=pytest.mark.long)],
)
def test_gates_are_sampled_too_and_whole_layers_are_read_where_they_are_asked_for(base, tmp_path, changes, by_sample):
    row = judged(base, fine_tuned(base, tmp_path / "child"), **changes)
    assert (row.verdict.label, sampled(row)) == ("VERIFIED inherited", by_sample)


def test_units_in_another_order_are_found_by_whole_layers(base, tmp_path):
    folder = shutil.copytree(base, tmp_path / "reordered")
    row = judged(base, spoil(folder, lambda own: own.update(shuffled(own))))
    assert (row.verdict.label, sampled(row)) == ("VERIFIED inherited", False)
    # A look at all units never says RELATED, and takes no part of alpha.
    assert row.verdict.evidence["mlp"].analyses == 1 + len(analyses(LAYERS, 0.5))


@pytest.mark.usefixtures("not_by_units")
def test_an_independent_model_is_unrelated_by_some_coordinates_of_all_units(base, other, tmp_path, monkeypatch):
    read, before = [], sample.sample_path
    monkeypatch.setattr(model_module, "sample_path", lambda *parts: read.append(parts[-1].all_units) or before(*parts))
    another = tiny_llama(tmp_path / "another", seed=2, layers=LAYERS, width=WIDTH)
    row, second = check(other, [base, another], QUICK).rows
    assert (row.verdict.label, second.verdict.label) == ("UNRELATED", "UNRELATED")
    assert sorted(read) == [False] * 6 + [True] * 6  # of three models along two paths
    measured = row.verdict.evidence["mlp"]
    assert (measured.sampled.units, measured.sampled.of_units, measured.layers_read) == (HIDDEN, HIDDEN, enough(LAYERS))
    assert measured.comparison.similarity.shape == (enough(LAYERS),) * 2
    (sentence,) = wording.reading(row)
    assert "by a sample that can only say UNRELATED, beside 4 interim analyses; p is corrected for them" in sentence


@pytest.mark.usefixtures("not_by_units")
def test_in_doubt_all_units_are_seen_on_other_coordinates_before_whole_layers(base, other, monkeypatch):
    looks, clear = [], stages._clear
    monkeypatch.setattr(sample, "OF_ALL_UNITS", WIDTH // 2)
    monkeypatch.setattr(stages, "_clear", lambda *parts: looks.append(parts[0]) or (len(looks) > 1 and clear(*parts)))
    row = judged(base, other)
    assert (row.verdict.label, sampled(row), len(looks)) == ("UNRELATED", True, 2)
    first, second = (look.evidence["mlp"].comparison.similarity for look in looks)
    assert first.shape == second.shape
    assert not np.allclose(first, second)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.long
def test_copied_layers_with_other_units_first_or_in_other_places_are_not_unrelated(base, other, seed):
    """A quarter of the layers, their units in another order, each in the place of the layer before it."""
    own = load_file(base / WEIGHTS)

    def grafted(tensors):
        for layer in range(4, 8):
            order = torch.tensor(np.random.default_rng(layer).permutation(HIDDEN))
            for role in ("gate", "up", "down"):
                name = f"model.layers.{layer}.mlp.{role}_proj.weight"
                moved = own[name.replace(f".{layer}.", f".{layer + 1}.")]
                tensors[name] = moved[:, order] if role == "down" else moved[order]

    assert judged(base, spoil(other, grafted), seed=seed).verdict.label != "UNRELATED"


@pytest.mark.parametrize("changes", [{"seed": 0}, {"budget": "full"}])
@pytest.mark.few(1)
def test_a_copy_of_the_base_in_some_coordinates_is_not_verified(base, tmp_path, changes):
    """The first half of the stream is read and written as by the base, all else is foreign, as in a graft."""

    def half(layer, *matrices):
        random = torch.Generator().manual_seed(layer)
        gate, up, down = (torch.randn(one.shape, generator=random) * one.std() for one in matrices)
        gate[:, : WIDTH // 2], up[:, : WIDTH // 2] = (one[:, : WIDTH // 2] for one in matrices[:2])
        down[: WIDTH // 2] = matrices[2][: WIDTH // 2]
        return gate, up, down

    assert not judged(base, changed(base, tmp_path / "half", half), **changes).verdict.verified


@pytest.mark.long
def test_weights_that_are_not_finite_are_seen_by_whole_layers(base, tmp_path):
    def overflow(layer, gate, up, down):
        up[:] = torch.inf
        return gate, up, down

    row = judged(base, changed(base, tmp_path / "broken", overflow))
    assert (row.verdict.label, sampled(row)) == ("RELATED part", False)  # by attention
    assert row.verdict.reason.startswith("along mlp, weights in layers 0-")
    assert "of the candidate are not finite, or too large for float32; 65536 of the 65536 numbers" in row.verdict.reason


@pytest.fixture
def remote(online, base, monkeypatch):
    """The Hub with the base; between the rows of a tiny model there is little, so that no gap is read."""
    monkeypatch.setattr("hf_lineage.checkpoint.remote.GAP", 0)
    online.publish("org/base", base)
    return online


@pytest.mark.long
def test_over_the_network_what_a_sample_showed_is_not_fetched_again(other, remote):
    remote.publish("org/other", other)
    assert judged("org/base", "org/other").verdict.label == "UNRELATED"
    assert remote.twice() == []


def test_over_the_network_the_sample_is_that_from_disk_and_little_moves(base, tmp_path, remote):
    child = fine_tuned(base, tmp_path / "child")
    remote.publish("org/child", child)
    here, there = judged(base, child), judged("org/base", "org/child")
    assert (there.verdict.label, sampled(there)) == ("VERIFIED inherited", True)
    score, elsewhere = (row.verdict.evidence["mlp"].comparison.score for row in (here, there))
    assert score == elsewhere
    moved = there.traffic["org/child"]
    assert moved.moved < 0.1 * moved.stored
    assert remote.twice() == []


@pytest.mark.long
def test_a_merge_has_its_shares_by_the_sample_that_decided_and_nothing_more_is_read(base, tmp_path, monkeypatch):
    parents = [fine_tuned(base, tmp_path / "hub" / "acme" / name, seed=seed) for seed, name in enumerate("ab")]
    first, second = (load_file(parent / WEIGHTS) for parent in parents)
    merge = shutil.copytree(parents[0], tmp_path / "merge")
    spoil(merge, lambda tensors: tensors.update({name: 0.7 * first[name] + 0.3 * second[name] for name in tensors}))
    sizes, read = [], StoredTensor.read
    monkeypatch.setattr(StoredTensor, "read", lambda self, memory: sizes.append(self.size) or read(self, memory))
    options = replace(QUICK, local_hub=tmp_path / "hub")
    moved, figures = [], []
    for relation in ("finetune", "merge"):
        card(merge, ["acme/a", "acme/b"], relation)
        sizes.clear()
        rows = check(str(merge), options=options).rows
        moved.append(sum(sizes))
        assert all(map(sampled, rows))
        figures.append([row.parent and row.parent.shares["mlp"].value for row in rows])
    assert moved[0] == moved[1] > 0
    assert figures == [[None, None], pytest.approx([0.7, 0.3], abs=1e-3)]
