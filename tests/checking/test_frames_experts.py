"""Mixtures of experts unit by unit: streams that were turned, experts and units in another order, upcycled models."""

import pytest
import torch

from hf_lineage import Options, compare
from hf_lineage.checking import units
from hf_lineage.evidence import measure
from tests import experts
from tests.experts import HIDDEN, WIDTH, made, noised, renamed, reordered, rotated
from tests.models import WEIGHTS, logits
from tests.streams import edited, shuffled, widened

SEEDED = Options(seed=0)


def judged(base, candidate):
    (row,) = compare(str(base), str(candidate), SEEDED).rows
    return row.verdict


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return made(tmp_path_factory.mktemp("experts") / "base")


def test_the_edits_leave_what_a_model_computes_as_it_is(base, tmp_path):
    said = logits(base)
    folder = edited(base, tmp_path / "model", shuffled, reordered, rotated)
    assert torch.allclose(logits(folder), said, atol=1e-5)


EXACT = {"rotated": rotated, "experts reordered and rotated": lambda tensors: rotated(reordered(tensors))}


@pytest.mark.parametrize("change", EXACT.values(), ids=EXACT)
@pytest.mark.few(1)
def test_a_rotated_mixture_is_verified_in_whatever_order_its_experts_stand(base, tmp_path, change):
    verdict = judged(base, edited(base, tmp_path / "model", noised(0.02), change))
    assert (verdict.code, verdict.verified, verdict.by_path["mlp"].code) == ("inherited", True, "unrelated")
    assert (verdict.framed.p_value, verdict.framed.inherited.share > 0.99) == (0.003, True)


def test_another_width_is_verified_and_units_in_another_order_are_calibrated_evidence(base, tmp_path):
    verdict = judged(base, edited(base, tmp_path / "wide", noised(0.02), widened(96, WIDTH), hidden_size=96))
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)
    verdict = judged(base, edited(base, tmp_path / "model", noised(0.02), shuffled, reordered, rotated))
    assert (verdict.label, verdict.verified) == ("RELATED calibrated", False)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["Qwen2Moe", "DeepseekV2", "GraniteMoe"])
def test_shared_dense_and_stacked_experts_are_read_too(tmp_path, kind):
    parent = made(tmp_path / "base", kind)
    verdict = judged(parent, edited(parent, tmp_path / "model", noised(0.02), rotated))
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["Mixtral", "Qwen3Moe", "Olmoe", "Glm4Moe", "Bert"])
def test_names_in_memory_and_those_of_old_are_read_as_the_published_ones_and_never_beside_them(tmp_path, kind):
    parent, other = made(tmp_path / "base", kind), made(tmp_path / "other", kind, seed=5)
    child = edited(parent, tmp_path / "child", noised(0.02))
    found = [judged(parent, renamed(child)), judged(renamed(parent), child), judged(parent, renamed(other))]
    assert [one.label for one in found] == ["VERIFIED inherited", "VERIFIED inherited", "UNRELATED"]
    assert [one.verified for one in found] == [True, True, False]
    (row,) = compare(str(parent), str(renamed(parent)), Options(strict=True)).rows
    assert row.verdict.strict.what == "the same numbers as"
    second = experts.load_file(renamed(parent) / WEIGHTS)
    twice = judged(parent, edited(child, tmp_path / "twice", lambda tensors: second | tensors))
    assert (twice.verified, "which of them a loader takes is not known" in twice.reason) == (False, True)


def test_an_independent_mixture_is_unrelated_also_if_all_its_experts_are_copies(base, tmp_path):
    def copied(tensors):
        first = {layer: sorted(own[0]) for layer, own in experts.by_layer(tensors).items()}
        return tensors | {
            name: tensors[like]
            for layer, own in experts.by_layer(tensors).items()
            for names in own.values()
            for name, like in zip(sorted(names), first[layer], strict=True)
        }

    other = made(tmp_path / "other", seed=5)
    assert judged(base, other).code == "unrelated"
    copies = [edited(one, tmp_path / name, copied) for one, name in ((base, "a"), (other, "b"))]
    assert judged(*copies).code == "unrelated"


def test_one_expert_of_the_base_among_others_is_related_in_part(base, tmp_path):
    others = experts.load_file(made(tmp_path / "other", seed=5) / WEIGHTS)
    later = {name: tensor for name, tensor in others.items() if any(f".experts.{one}." in name for one in (1, 2, 3))}
    verdict = judged(base, edited(base, tmp_path / "model", lambda tensors: tensors | later, rotated))
    assert (verdict.label, verdict.verified) == ("RELATED part", False)
    assert 0.15 < verdict.framed.inherited.share < 0.35


def test_an_upcycled_model_is_verified_beside_its_dense_base_in_any_coordinates(tmp_path):
    dense = made(tmp_path / "dense", "Mistral", intermediate_size=2 * HIDDEN)
    whole = experts.load_file(dense / WEIGHTS)
    roles = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}

    def upcycled(tensors):
        names = {name: name.split(".block_sparse_moe.experts.") for name in tensors if name not in whole}
        copies = {
            name: whole[f"{parts[0]}.mlp.{roles[parts[1].split('.')[1]]}.weight"]
            for name, parts in names.items()
            if len(parts) == 2
        }
        return tensors | copies | {name: whole[name] for name in tensors if name in whole}

    mixture = edited(made(tmp_path / "m", intermediate_size=2 * HIDDEN), tmp_path / "u", upcycled, noised(0.1), rotated)
    for pair in ((dense, mixture), (mixture, dense)):
        verdict = judged(*pair)
        assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)


@pytest.mark.long
def test_of_very_many_units_a_part_is_looked_at_which_hides_no_descendant(base, tmp_path, monkeypatch):
    monkeypatch.setattr(units, "MOST_KEPT", experts.LAYERS * experts.EXPERTS * 20)
    verdict = judged(base, edited(base, tmp_path / "model", noised(0.02), reordered, rotated))
    assert (verdict.label, verdict.framed.kept) == ("VERIFIED inherited", 20 / HIDDEN)
    verdict = judged(base, edited(base, tmp_path / "shuffled", noised(0.02), shuffled, reordered, rotated))
    assert (verdict.code, verdict.verified) == ("inconclusive", False)


@pytest.mark.parametrize("candidate", ["independent", "rotated"])
def test_a_part_of_many_experts_tells_an_independent_mixture_from_a_rotated_one(tmp_path, monkeypatch, candidate):
    monkeypatch.setattr(units, "FEW_KEPT", 2 * experts.EXPERTS * 20)
    monkeypatch.setattr(measure, "fewest", lambda *_: 2)
    deep = made(tmp_path / "deep", num_hidden_layers=8)
    if candidate == "rotated":
        model = edited(deep, tmp_path / "model", noised(0.02), rotated)
    else:
        model = made(tmp_path / "model", seed=1, num_hidden_layers=8)
    (row,) = compare(str(deep), str(model), Options(seed=0, min_share=0.4)).rows
    expected = ("inherited", True) if candidate == "rotated" else ("unrelated", False)
    assert (row.verdict.code, row.verdict.verified) == expected
