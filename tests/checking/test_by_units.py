"""Unit by unit: streams that were turned or cut are seen through, forgeries are not."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hf_lineage import RECIPES, Options, check, compare, extract, save_signature
from hf_lineage.checking import by_units
from hf_lineage.checking.by_units import ModelPair
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.signature import fitted_coordinates as procrustes
from tests import gguf_models, streams
from tests.models import card, tiny_llama
from tests.streams import HUB, attention_of, narrowed, rotated, shuffled, widened, with_tokenizer, written

BASE, CHILD, INDEPENDENT = "acme/llama-base", "fern/llama-finetune-a", "otter/llama-independent"
SEEDED = Options(seed=0, paths=("mlp",))


def judged(folder, options=SEEDED, base=HUB / BASE):
    (row,) = compare(str(base), str(folder), options).rows
    return row.verdict


def narrow(width):
    return {"hidden_size": width, "head_dim": 24}


FLIPPED = streams.seen_by(torch.diag(torch.tensor([1.0, -1, -1, 1, 1, -1]).repeat(16)))
"""The signs of half of the residual coordinates changed, under which the exact test of the paths draws."""


@pytest.mark.few(1)
@pytest.mark.parametrize("change", [rotated, FLIPPED], ids=["turned", "of other signs"])
def test_a_fine_tune_in_another_stream_is_verified_by_the_order_of_its_units(tmp_path, change):
    verdict = judged(written(CHILD, tmp_path / "model", change))
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("VERIFIED inherited", True, 0)
    assert (verdict.by_path["mlp"].code, verdict.framed.p_value) == ("unrelated", 0.003)
    assert verdict.framed.inherited.share > 0.99
    assert verdict.reason.startswith("the residual stream was rotated, reordered or changed in width: 100% of")


def test_one_that_is_also_shuffled_is_related_by_calibrated_evidence(tmp_path):
    folder = written(CHILD, tmp_path / "model", rotated, shuffled)
    verdict = judged(folder)
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED calibrated", False, 3)
    assert verdict.framed.p_value > 0.01
    assert judged(folder, replace(SEEDED, accept=("calibrated",))).exit_code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(("change", "width"), [(narrowed(72), 72), (widened(128), 128)], ids=["narrowed", "widened"])
def test_another_width_is_compared_unit_by_unit(tmp_path, change, width):
    verdict = judged(written(CHILD, tmp_path / "model", change, **narrow(width)))
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)
    assert (dict(verdict.evidence), verdict.framed.tests) == ({}, 1)
    verdict = judged(written(INDEPENDENT, tmp_path / "other", change, **narrow(width)))
    assert (verdict.label, int(verdict.exit_code)) == ("UNRELATED", 1)
    assert verdict.framed.inherited.share < 0.01


def test_layers_of_the_base_in_a_rotated_stream_are_related_in_part(tmp_path):
    verdict = judged(written("magpie/llama-grafted", tmp_path / "model", rotated))
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED part", False, 3)
    assert verdict.reason.endswith("in layers 1, 4")


@pytest.mark.parametrize(("base", "verified"), [(CHILD, True), (INDEPENDENT, False)], ids=["own", "of another model"])
def test_in_a_rotated_stream_heads_have_to_be_inherited_as_well(tmp_path, base, verified):
    folder = written(CHILD, tmp_path / "model", attention_of(base), rotated)
    usual, alone = judged(folder, Options(seed=0)), judged(folder)
    assert (usual.framed.frame.name, usual.verified, alone.verified) == ("token", verified, True)
    assert (usual.framed.inherited.share > 0.99, usual.framed.heads.share > 0.99) == (True, verified)
    assert verified or usual.reason.endswith("in layers 0-5, but only 0% of what its heads write")


def test_units_follow_where_the_paths_show_nothing_and_every_test_is_counted():
    verdict = judged(HUB / INDEPENDENT)
    assert verdict.code == "unrelated"
    assert (verdict.framed.tests, verdict.evidence["mlp"].further) == (3, 2)
    assert verdict.framed.inherited.share < 0.01
    assert judged(HUB / INDEPENDENT, replace(SEEDED, recipe=RECIPES["paper"])).framed is None
    verdict = judged(HUB / CHILD)
    assert (verdict.framed, verdict.evidence["mlp"].p_value) == (None, 0.003)


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", [[], [rotated]], ids=["plain", "rotated"])
def test_the_embedding_of_the_base_on_layers_of_another_model_is_no_descent(tmp_path, changes):
    verdict = judged(written(BASE, tmp_path / "model", streams.layers_of(INDEPENDENT), *changes))
    assert (verdict.verified, verdict.code) == (False, "unrelated")
    assert verdict.framed.inherited.share < 0.01


ROWS = {
    "of one direction": (lambda rows: rows[:1].repeat(len(rows), 1), "span only about 0 of the 96 directions"),
    "of zeros": (torch.zeros_like, "zero or not finite"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("rows", "reason"), ROWS.values(), ids=ROWS)
def test_rows_of_tokens_that_show_nothing_hide_nothing_and_are_a_reason_where_units_cannot_be_fitted(
    tmp_path, monkeypatch, rows, reason
):
    folder = written(CHILD, tmp_path / "model", rotated, streams.embedding(rows))
    verdict = judged(folder)
    assert (verdict.label, verdict.framed.frame.name) == ("VERIFIED inherited", "procrustes")
    monkeypatch.setattr(procrustes, "OVER", 1000)
    verdict = judged(folder)
    assert verdict.code == "unrelated"
    assert "could not be compared unit by unit" in verdict.reason
    assert reason in verdict.reason


def test_one_row_of_tokens_that_is_huge_hides_nothing(tmp_path):
    change = streams.embedding(lambda rows: torch.cat([rows[:1] * 1e30, rows[1:]]))
    verdict = judged(written(CHILD, tmp_path / "model", rotated, change))
    assert (verdict.label, verdict.framed.frame.name) == ("VERIFIED inherited", "token")


def test_a_width_that_cannot_be_seen_through_stays_incompatible(tmp_path, monkeypatch):
    monkeypatch.setattr(procrustes, "OVER", 1000)
    folder = written(CHILD, tmp_path / "model", narrowed(72), streams.embedding(torch.zeros_like), **narrow(72))
    verdict = judged(folder)
    assert (verdict.code, int(verdict.exit_code)) == ("incompatible", 3)
    assert "width 72; could not be compared unit by unit" in verdict.reason


TOKENS = {f"token {number}": number for number in range(256)}


def test_tokens_in_another_order_are_known_by_their_text(tmp_path):
    order = torch.randperm(256, generator=torch.Generator().manual_seed(0))
    base = with_tokenizer(streams.copied(BASE, tmp_path / "base"), TOKENS)
    model = written(CHILD, tmp_path / "model", rotated, streams.embedding(lambda rows: rows[order]))
    moved = {f"token {old}": new for new, old in enumerate(order.tolist())}
    verdict = judged(with_tokenizer(model, moved), base=base)
    assert (verdict.label, verdict.framed.frame.by) == ("VERIFIED inherited", "text")


@pytest.mark.long
def test_a_gguf_file_in_a_turned_stream_is_seen_through_the_tokens_that_it_lists(tmp_path):
    base = with_tokenizer(streams.copied(BASE, tmp_path / "base"), {f"word {number}": number for number in range(256)})
    model = gguf_models.write(written(CHILD, tmp_path / "model", rotated), tmp_path / "packed" / "model.gguf")
    verdict = judged(model, base=base)
    assert (verdict.label, verdict.verified, verdict.framed.frame.by) == ("VERIFIED inherited", True, "text")


FORGED = {
    "that point elsewhere": {f"token {number}": 255 - number for number in range(256)},
    "that is damaged": None,
    "that all point to one row": dict.fromkeys(TOKENS, 7),
    "that are few": {"token 1": 1},
    "that nobody knows": {f"other {number}": number for number in range(256)},
}


@pytest.mark.parametrize("tokens", FORGED.values(), ids=FORGED)
@pytest.mark.few(2)
def test_a_forged_or_damaged_tokenizer_makes_nothing_related_and_hides_nothing(tmp_path, tokens):
    base, verdicts = with_tokenizer(streams.copied(BASE, tmp_path / "base"), TOKENS), []
    for name in (CHILD, INDEPENDENT):
        model = with_tokenizer(written(name, tmp_path / name, rotated), tokens or TOKENS)
        if tokens is None:
            (model / "tokenizer.json").write_text("{")
        verdicts.append(judged(model, base=base))
    verdict, other = verdicts
    assert (verdict.label, verdict.framed.frame.name) == ("VERIFIED inherited", "procrustes")
    assert (other.code, other.framed.inherited.share < 0.01) == ("unrelated", True)


def test_stored_signatures_are_judged_by_their_paths_alone(tmp_path):
    files = [tmp_path / f"{name}.sig" for name in "ab"]
    for file, name in zip(files, (BASE, INDEPENDENT), strict=True):
        save_signature(extract(str(HUB / name)), file)
    (row,) = compare(*map(str, files), SEEDED).rows
    assert (row.verdict.code, row.verdict.framed, row.verdict.evidence["mlp"].further) == ("unrelated", None, 0)


@pytest.mark.long
def test_a_merge_is_not_verified_by_parents_that_were_only_seen_unit_by_unit(tmp_path):
    parents = [str(HUB / BASE), str(HUB / "fern/llama-finetune-b")]
    model = card(written(CHILD, tmp_path / "model", rotated, shuffled), parents, "merge")
    rows = check(str(model), parents, SEEDED).rows
    assert [row.verdict.verified for row in rows] == [False, False]


@pytest.mark.long
def test_on_the_hub_only_the_layers_and_the_rows_of_tokens_are_downloaded(online, tmp_path):
    online.publish("fern/rotated", written(CHILD, tmp_path / "model", rotated))
    (row,) = compare("acme/llama-base", "fern/rotated", SEEDED).rows
    assert (row.verdict.label, row.verdict.verified) == ("VERIFIED inherited", True)
    traffic = row.traffic["fern/rotated"]
    assert traffic.moved < traffic.stored
    (again,) = compare("acme/llama-base", "fern/rotated", SEEDED).rows  # the signatures are cached
    assert (again.verdict.label, again.verdict.framed.p_value) == ("VERIFIED inherited", row.verdict.framed.p_value)


@pytest.mark.long
def test_all_paths_are_followed_by_a_comparison_unit_by_unit(tmp_path):
    verdict = judged(written(CHILD, tmp_path / "model", rotated), replace(SEEDED, paths=("all",)))
    assert len(verdict.evidence) == 4
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)


@pytest.fixture(scope="module")
def disguised(tmp_path_factory):
    """A copy of the base in a rotated stream, whose embedding is another one, and whose card declares the base."""
    other = streams.embedding(lambda rows: torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)))
    return card(written(CHILD, tmp_path_factory.mktemp("disguised") / "model", rotated, other), BASE)


def checked(folder, **options):
    (row,) = check(str(folder), options=replace(SEEDED, local_hub=str(HUB), **options)).rows
    return row


def test_coordinates_are_not_fitted_for_a_base_that_the_model_declares_itself_and_the_report_says_so(disguised):
    row = checked(disguised)
    assert (row.verdict.label, row.verdict.framed.frame.name) == ("UNRELATED", "token")
    assert row.notes[-1].endswith("the model itself declares this base; --budget full searches for it")


@pytest.mark.long
def test_the_same_base_is_found_where_all_is_read_or_the_user_names_it(disguised):
    for row in (checked(disguised, budget="full"), *compare(str(HUB / BASE), str(disguised), SEEDED).rows):
        assert (row.verdict.label, row.verdict.framed.frame.name) == ("VERIFIED inherited", "procrustes")
        assert not any("searched for" in note for note in row.notes)


@pytest.mark.long
def test_without_shared_tokens_coordinates_are_fitted_for_a_declared_base_too(tmp_path):
    row = checked(card(written(CHILD, tmp_path / "model", rotated, streams.embedding(torch.zeros_like)), BASE))
    assert (row.verdict.label, row.verdict.framed.frame.name) == ("VERIFIED inherited", "procrustes")


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Two independent models of twelve layers."""
    folder, layers = tmp_path_factory.mktemp("deep"), {"num_hidden_layers": 12}
    names = (BASE, "heron/llama-distilled"), (INDEPENDENT, INDEPENDENT)
    return [written(one, folder / one, streams.deeper(other), **layers) for one, other in names]


@pytest.mark.few(1)
@pytest.mark.parametrize(("budget", "layers"), [(None, 5), ("full", 12)])
def test_of_deep_models_that_show_nothing_a_few_layers_are_compared_unit_by_unit(deep, budget, layers):
    base, model = deep
    verdict = judged(model, replace(SEEDED, budget=budget), base)
    assert (verdict.label, len(verdict.framed.layers[1])) == ("UNRELATED", layers)


@pytest.mark.long
def test_gates_are_not_read_again_where_a_few_layers_show_nothing(deep, monkeypatch):
    read, whole = [], Checkpoint.read
    monkeypatch.setattr(
        Checkpoint, "read", lambda self, name, memory=None: read.append(name) or whole(self, name, memory)
    )
    base, model = deep
    assert judged(model, base=base).framed.at_chance
    counts = Counter(name.rpartition("mlp.")[2] for name in read if "mlp." in name)
    assert counts["gate_proj.weight"] < counts["down_proj.weight"]


def along(base, candidate, *paths):
    """The paths along which two models that have these paths are compared."""
    models = (SimpleNamespace(rows={path: {0: 8} for path in rows}) for rows in (base, candidate))
    return ModelPair.along_common_paths(*models, Options(paths=paths)).options.paths


def test_all_paths_are_those_that_both_models_have_and_named_ones_stay():
    assert along(["mlp", "value_output"], ["mlp", "query_key"], "all") == ("mlp",)
    assert along(["mlp", "value_output"], ["query_key"], "all") == ("all",)
    assert along(["mlp"], ["mlp"], "query_key") == ("query_key",)


def test_how_a_pair_is_sampled_is_found_once(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(by_units, "_sizes", lambda model, options: sizes.append(model.name) or ())
    base, child = (tiny_llama(tmp_path / name, layers=12) for name in ("base", "child"))
    compare(base, child, Options(seed=0))
    assert sizes == [str(base)]
