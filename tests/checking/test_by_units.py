"""Unit by unit: streams that were turned or cut, and mixtures in another order, are seen through; forgeries are not."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from hf_lineage import RECIPES, Options, check
from hf_lineage.checking import units
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.evidence import measure
from hf_lineage.signature import coordinates as procrustes
from tests import experts, streams
from tests.checking.conftest import BASE, OTHER, TUNED, compared
from tests.experts import HIDDEN, WIDTH, made, noised, renamed, reordered
from tests.models import WEIGHTS, card, logits
from tests.streams import HUB, attention_of, edited, narrowed, rotated, shuffled, widened, with_tokenizer, written

SEEDED = Options(seed=0, paths=("mlp",))
TOKENS = {f"word {number}": number for number in range(256)}
"""Those that `tests.gguf_models` lists."""


def judged(folder, options=SEEDED, base=HUB / BASE):
    return compared(base, folder, options).verdict


def narrow(width):
    return {"hidden_size": width, "head_dim": 24}


FLIPPED = streams.seen_by(torch.diag(torch.tensor([1.0, -1, -1, 1, 1, -1]).repeat(16)))
"""The signs of half of the residual coordinates changed, under which the exact test of the paths draws."""
HUGE = streams.embedding(lambda rows: torch.cat([rows[:1] * 1e30, rows[1:]]))
FOREIGN = streams.layers_of(OTHER)
TURNED = "the residual stream was rotated, reordered or changed in width: {} of what its units write is inherited, in"
MOVED = "100% of what its units write is inherited, but in another order than in the base: the residual stream was"
WHOLE = TURNED.format("100%")
DISGUISED = {
    "turned": (TUNED, [rotated], "VERIFIED inherited", 1.0, WHOLE),
    "turned and shuffled": (TUNED, [rotated, shuffled], "RELATED calibrated", 1.0, MOVED),
    "turned with one huge row of tokens": (TUNED, [rotated, HUGE], "VERIFIED inherited", 1.0, WHOLE),
    "layers of the base, turned": ("magpie/llama-grafted", [rotated], "RELATED part", 0.333, TURNED.format("33%")),
    "embedding of the base on other layers": (BASE, [FOREIGN], "UNRELATED", 0.0, ""),
    "of other signs": (TUNED, [FLIPPED], "VERIFIED inherited", 1.0, WHOLE),
    "embedding of the base on other layers, turned": (BASE, [FOREIGN, rotated], "UNRELATED", 0.0, ""),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("case", DISGUISED)
def test_in_another_stream_the_order_of_units_verifies_or_they_are_calibrated(tmp_path, case):
    source, changes, label, share, reason = DISGUISED[case]
    verdict = judged(written(source, tmp_path / "model", *changes))
    assert (verdict.label, verdict.by_path["mlp"].code) == (label, "unrelated")
    assert verdict.unit_comparison.inherited.share == pytest.approx(share, abs=0.01)
    assert (verdict.unit_comparison.p_value == 0.003) is ("in the order of the base" in verdict.reason)
    assert verdict.reason.startswith(reason)
    assert verdict.reason.endswith("in layers 1, 4") is (label == "RELATED part")
    assert verdict.unit_comparison.coordinates.name == "token" or label == "UNRELATED"


@pytest.mark.few(1)
@pytest.mark.parametrize(("change", "width"), [(narrowed(72), 72), (widened(128), 128)], ids=["narrowed", "widened"])
def test_another_width_is_compared_unit_by_unit(tmp_path, change, width):
    verdict = judged(written(TUNED, tmp_path / "model", change, **narrow(width)))
    assert verdict.label == "VERIFIED inherited"
    assert (dict(verdict.evidence), verdict.unit_comparison.tests) == ({}, 1)
    verdict = judged(written(OTHER, tmp_path / "other", change, **narrow(width)))
    assert (verdict.label, int(verdict.exit_code)) == ("UNRELATED", 1)
    assert verdict.unit_comparison.inherited.share < 0.01


@pytest.mark.parametrize(("base", "verified"), [(TUNED, True), (OTHER, False)], ids=["own", "of another model"])
def test_in_a_rotated_stream_heads_have_to_be_inherited_as_well(tmp_path, base, verified):
    folder = written(TUNED, tmp_path / "model", attention_of(base), rotated)
    usual, alone = judged(folder, Options(seed=0)), judged(folder)
    assert (usual.unit_comparison.coordinates.name, usual.verified, alone.verified) == ("token", verified, True)
    assert (usual.unit_comparison.inherited.share > 0.99, usual.unit_comparison.heads.share > 0.99) == (True, verified)
    assert verified or usual.reason.endswith("in layers 0-5, but only 0% of what its heads write")


def test_units_follow_where_the_paths_show_nothing_and_every_test_is_counted():
    verdict = judged(HUB / OTHER)
    assert verdict.code == "unrelated"
    assert (verdict.unit_comparison.tests, verdict.evidence["mlp"].further) == (3, 2)
    assert verdict.unit_comparison.inherited.share < 0.01
    assert judged(HUB / OTHER, replace(SEEDED, recipe=RECIPES["paper"])).unit_comparison is None
    verdict = judged(HUB / TUNED)
    assert (verdict.unit_comparison, verdict.evidence["mlp"].p_value) == (None, 0.003)


def test_rows_of_tokens_that_show_nothing_hide_nothing_and_are_a_reason(tmp_path, monkeypatch):
    zeros = streams.embedding(torch.zeros_like)
    folder = written(TUNED, tmp_path / "model", rotated, zeros)
    verdict = judged(folder)
    assert (verdict.label, verdict.unit_comparison.coordinates.name) == ("VERIFIED inherited", "procrustes")
    monkeypatch.setattr(procrustes, "OVER", 1000)
    verdict = judged(folder)
    told = "could not be compared unit by unit" in verdict.reason, "zero or not finite" in verdict.reason
    assert (verdict.code, told) == ("unrelated", (True, True))
    verdict = judged(written(TUNED, tmp_path / "narrow", narrowed(72), zeros, **narrow(72)))
    assert (verdict.code, int(verdict.exit_code)) == ("incompatible", 3)
    assert "width 72; could not be compared unit by unit" in verdict.reason


@pytest.fixture
def base(tmp_path):
    return with_tokenizer(streams.copied(BASE, tmp_path / "base"), TOKENS)


def test_tokens_in_another_order_are_known_by_their_text(base, tmp_path):
    order = torch.randperm(256, generator=torch.Generator().manual_seed(0))
    model = written(TUNED, tmp_path / "model", rotated, streams.embedding(lambda rows: rows[order]))
    moved = {f"word {old}": new for new, old in enumerate(order.tolist())}
    verdict = judged(with_tokenizer(model, moved), base=base)
    assert (verdict.label, verdict.unit_comparison.coordinates.by) == ("VERIFIED inherited", "text")


FORGED = {
    "that point elsewhere": {f"word {number}": 255 - number for number in range(256)},
    "that is damaged": None,
    "that all point to one row": dict.fromkeys(TOKENS, 7),
    "that are few": {"word 1": 1},
    "that nobody knows": {f"other {number}": number for number in range(256)},
}


@pytest.mark.parametrize("tokens", FORGED.values(), ids=FORGED)
@pytest.mark.few(2)
def test_a_forged_or_damaged_tokenizer_makes_nothing_related_and_hides_nothing(base, tmp_path, tokens):
    models = [with_tokenizer(written(name, tmp_path / name, rotated), tokens) for name in (TUNED, OTHER)]
    for model in models if tokens is None else ():
        (model / "tokenizer.json").write_text("{")
    verdict, other = (judged(model, base=base) for model in models)
    assert (verdict.label, verdict.unit_comparison.coordinates.name) == ("VERIFIED inherited", "procrustes")
    assert (other.code, other.unit_comparison.inherited.share < 0.01) == ("unrelated", True)


@pytest.mark.long
def test_a_merge_is_not_verified_by_parents_that_were_only_seen_unit_by_unit(tmp_path):
    parents = [str(HUB / BASE), str(HUB / "fern/llama-finetune-b")]
    model = card(written(TUNED, tmp_path / "model", rotated, shuffled), parents, "merge")
    assert not any(row.verdict.verified for row in check(model, parents, SEEDED).rows)


@pytest.mark.long
def test_on_the_hub_only_the_layers_and_the_rows_of_tokens_are_downloaded(online, tmp_path):
    online.publish("fern/rotated", written(TUNED, tmp_path / "model", rotated))
    row, again = (compared(BASE, "fern/rotated", SEEDED) for _ in range(2))  # the second time signatures are cached
    assert row.traffic["fern/rotated"].moved < row.traffic["fern/rotated"].stored
    assert row.verdict.label == again.verdict.label == "VERIFIED inherited"
    assert row.verdict.unit_comparison.p_value == again.verdict.unit_comparison.p_value


def checked(folder, **options):
    (row,) = check(str(folder), options=replace(SEEDED, local_hub=str(HUB), **options)).rows
    return row


@pytest.fixture(scope="module")
def disguised(tmp_path_factory):
    """A copy of the base in a rotated stream, whose embedding is another one, and whose card declares the base."""
    other = streams.embedding(lambda rows: torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)))
    return card(written(TUNED, tmp_path_factory.mktemp("disguised") / "model", rotated, other), BASE)


def test_coordinates_are_not_fitted_for_a_base_that_the_model_declares_itself(disguised):
    row = checked(disguised)
    assert (row.verdict.label, row.verdict.unit_comparison.coordinates.name) == ("UNRELATED", "token")
    assert row.notes[-1].endswith("the model itself declares this base; --budget full searches for it")


@pytest.mark.long
def test_the_same_base_is_found_by_reading_all_or_by_name_or_without_shared_tokens(disguised, tmp_path):
    without = card(written(TUNED, tmp_path / "model", rotated, streams.embedding(torch.zeros_like)), BASE)
    for row in (checked(disguised, budget="full"), compared(HUB / BASE, disguised, SEEDED), checked(without)):
        assert (row.verdict.label, row.verdict.unit_comparison.coordinates.name) == ("VERIFIED inherited", "procrustes")
        assert not any("searched for" in note for note in row.notes)


def test_of_deep_models_that_show_nothing_a_few_layers_and_no_more_gates_are_read(tmp_path, monkeypatch):
    read, whole, deep = [], Checkpoint.read, {"num_hidden_layers": 12}
    names = (BASE, "heron/llama-distilled"), (OTHER, OTHER)
    base, model = (written(one, tmp_path / one, streams.deeper(other), **deep) for one, other in names)
    monkeypatch.setattr(Checkpoint, "read", lambda self, name, *more: read.append(name) or whole(self, name, *more))
    verdict = judged(model, base=base)
    assert (verdict.label, verdict.unit_comparison.at_chance) == ("UNRELATED", True)
    counts = Counter(name.rpartition("mlp.")[2] for name in read if "mlp." in name)
    assert counts["gate_proj.weight"] < counts["down_proj.weight"]
    full = judged(model, replace(SEEDED, budget="full"), base)
    assert [len(one.unit_comparison.layers[1]) for one in (verdict, full)] == [5, 12]
    assert full.label == "UNRELATED"


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return made(tmp_path_factory.mktemp("experts") / "base")


def beside(base, candidate):
    return compared(base, candidate, seed=0).verdict


def test_units_of_a_mixture_in_another_order_are_calibrated_and_one_expert_is_a_part(mixture, tmp_path):
    said = logits(mixture)
    folder = edited(mixture, tmp_path / "model", shuffled, reordered, experts.rotated)
    assert torch.allclose(logits(folder), said, atol=1e-5)
    noisy = edited(mixture, tmp_path / "noisy", noised(0.02), shuffled, reordered, experts.rotated)
    assert beside(mixture, noisy).label == "RELATED calibrated"
    others = experts.load_file(made(tmp_path / "other", seed=5) / WEIGHTS)
    later = {name: tensor for name, tensor in others.items() if any(f".experts.{one}." in name for one in (1, 2, 3))}
    verdict = beside(mixture, edited(mixture, tmp_path / "one", lambda own: own | later, experts.rotated))
    assert verdict.label == "RELATED part"
    assert 0.15 < verdict.unit_comparison.inherited.share < 0.35


MIXTURES = {
    "turned": ("Mixtral", [experts.rotated], {}),
    "wider": ("Mixtral", [widened(96, WIDTH)], {"hidden_size": 96}),
    "Qwen2Moe": ("Qwen2Moe", [experts.rotated], {}),
    "experts reordered and turned": ("Mixtral", [reordered, experts.rotated], {}),
    "DeepseekV2": ("DeepseekV2", [experts.rotated], {}),
    "GraniteMoe": ("GraniteMoe", [experts.rotated], {}),
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("kind", "changes", "settings"), MIXTURES.values(), ids=MIXTURES)
def test_a_turned_mixture_is_verified_in_whatever_order_its_experts_stand(tmp_path, kind, changes, settings):
    parent = made(tmp_path / "base", kind)
    verdict = beside(parent, edited(parent, tmp_path / "model", noised(0.02), *changes, **settings))
    assert (verdict.label, verdict.unit_comparison.p_value < 0.01) == ("VERIFIED inherited", True)
    assert verdict.unit_comparison.inherited.share > 0.99


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["Mixtral", "Qwen3Moe", "Olmoe", "Glm4Moe", "Bert"])
def test_names_in_memory_and_those_of_old_are_read_and_never_beside_published_ones(tmp_path, kind):
    parent, other = made(tmp_path / "base", kind), made(tmp_path / "other", kind, seed=5)
    child = edited(parent, tmp_path / "child", noised(0.02))
    found = beside(parent, renamed(child)), beside(renamed(parent), child), beside(parent, renamed(other))
    assert [one.label for one in found] == ["VERIFIED inherited", "VERIFIED inherited", "UNRELATED"]
    assert compared(parent, renamed(parent), strict=True).verdict.strict.what == "the same numbers as"
    second = experts.load_file(renamed(parent) / WEIGHTS)
    twice = beside(parent, edited(child, tmp_path / "twice", lambda tensors: second | tensors))
    assert (twice.verified, "which of them a loader takes is not known" in twice.reason) == (False, True)


def test_an_independent_mixture_is_unrelated_also_if_all_its_experts_are_copies(mixture, tmp_path):
    def copied(tensors):
        first = {layer: sorted(own[0]) for layer, own in experts.by_layer(tensors).items()}
        return tensors | {
            name: tensors[like]
            for layer, own in experts.by_layer(tensors).items()
            for names in own.values()
            for name, like in zip(sorted(names), first[layer], strict=True)
        }

    other = made(tmp_path / "other", seed=5)
    assert beside(mixture, other).code == "unrelated"
    copies = [edited(one, tmp_path / name, copied) for one, name in ((mixture, "a"), (other, "b"))]
    assert beside(*copies).code == "unrelated"


def test_an_upcycled_model_is_verified_beside_its_dense_base_in_any_coordinates(tmp_path):
    dense = made(tmp_path / "dense", "Mistral", intermediate_size=2 * HIDDEN)
    whole = experts.load_file(dense / WEIGHTS)
    roles = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}

    def upcycled(tensors):
        """Let every expert be the MLP of the dense model."""
        expert = re.compile(r"block_sparse_moe\.experts\.\d\.(w\d)")
        dense_names = {name: expert.sub(lambda found: f"mlp.{roles[found[1]]}", name) for name in tensors}
        return tensors | {name: whole[like] for name, like in dense_names.items() if like in whole}

    empty = made(tmp_path / "m", intermediate_size=2 * HIDDEN)
    mixture = edited(empty, tmp_path / "u", upcycled, noised(0.1), experts.rotated)
    for pair in ((dense, mixture), (mixture, dense)):
        assert beside(*pair).label == "VERIFIED inherited"


@pytest.mark.parametrize(("rotates", "label"), [(False, "UNRELATED"), (True, "VERIFIED inherited")])
def test_a_part_of_many_experts_tells_an_independent_mixture_from_a_rotated_one(tmp_path, monkeypatch, rotates, label):
    monkeypatch.setattr(units, "FEW_KEPT", 2 * experts.EXPERTS * 20)
    monkeypatch.setattr(measure, "fewest", lambda *_: 2)
    deep, model = (made(tmp_path / str(seed), seed=seed, num_hidden_layers=8) for seed in (0, 1))
    if rotates:
        model = edited(deep, tmp_path / "rotated", noised(0.02), experts.rotated)
    assert compared(deep, model, seed=0, min_share=0.4).verdict.label == label
