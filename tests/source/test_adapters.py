"""Adapters in folders and files of one repository, really trained, each judged by itself."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, check, compare
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.hub.repo import ADAPTER_CONFIG
from tests import pictures
from tests.adapters import pair, trained, written
from tests.models import card, edit_json, spoil, tiny_llama

HUB = Path("examples/hub")
BASE, OTHER, PATH = "acme/llama-base", "otter/llama-independent", "/home/me/models/base"
LANGUAGES = ("french", "german")
OPTIONS = Options(local_hub=HUB, seed=0)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Two pipelines and the factors of a LoRA on the first, in every form in which one is found."""
    folder = tmp_path_factory.mktemp("pictures")
    factors = pictures.unet_factors(pictures.pipeline(folder / "acme" / "pictures", 0))
    pictures.pipeline(folder / "otter" / "pictures", 1)
    pictures.by_diffusers(folder / "fern" / "new", factors)
    pictures.by_old_diffusers(folder / "fern" / "old", factors)
    pictures.by_kohya(folder / "fern" / "flat", factors)
    return folder


@pytest.mark.parametrize("form", ["new", "old", "flat"])
@pytest.mark.long
def test_an_adapter_of_diffusers_is_found_whatever_its_names(hub, form):
    model, drawn = str(hub / "fern" / form), Options(seed=0)
    own, other = (compare(str(hub / base / "pictures"), model, drawn).rows for base in ("acme", "otter"))
    assert [row.verdict.label for row in (*own, *other)] == ["VERIFIED adapter", "UNDECIDED inconclusive"]
    assert set(own[0].verdict.trace.by_role) == {"value", "output", "up", "gate"}
    assert own[0].verdict.trace.p_value == 0.0005
    assert other[0].verdict.trace.p_value > 0.01
    assert other[0].verdict.trace.power(0.01) == 0.0
    assert other[0].verdict.reason.endswith("how strong a trace such adapters show")
    assert own[0].part == ("style.safetensors" if form == "flat" else pictures.FILE)
    assert "a LoRA adapter of rank 4 on 70 matrices" in own[0].notes[0]
    assert "other tensors" not in own[0].notes[0]


def test_a_card_declares_the_base_of_a_bare_adapter_and_vouches_for_no_other_weights(hub, tmp_path):
    folder = card(shutil.copytree(hub / "fern" / "new", tmp_path / "lora"), "acme/pictures", "adapter")
    report = check(str(folder), options=Options(local_hub=hub, seed=0))
    assert [(row.claim.base, row.verdict.label) for row in report.rows] == [("acme/pictures", "VERIFIED adapter")]
    assert (report.exit_code, report.notes) == (ExitCode.VERIFIED, ())
    assert check(str(hub / "fern" / "new")).rows == ()
    save_file({"x.weight": torch.ones(2, 2)}, folder / "whole.safetensors")
    report = check(str(folder), options=Options(local_hub=hub, seed=0))
    assert [row.verdict.code for row in report.rows] == ["adapter", "unsupported"]
    assert report.rows[1].verdict.reason.endswith("may come from elsewhere: whole.safetensors")
    assert report.exit_code == ExitCode.UNDECIDED


def test_the_model_of_a_pipeline_may_be_named_by_itself(hub):
    (row,) = compare(str(hub / "acme" / "pictures" / "unet"), str(hub / "fern" / "flat"), OPTIONS).rows
    assert row.verdict.label == "VERIFIED adapter"


def test_of_a_file_for_several_models_each_is_judged_on_its_own(hub, tmp_path):
    tensors = load_file(hub / "fern" / "flat" / "style.safetensors")
    tensors |= {"lora_te_x.lora_down.weight": torch.ones(2, 4), "lora_te_x.lora_up.weight": torch.ones(4, 2)}
    save_file(tensors, tmp_path / "both.safetensors")
    rows = {row.part: row.verdict for row in compare(str(hub / "acme" / "pictures"), str(tmp_path), OPTIONS).rows}
    assert rows["both.safetensors"].label == "VERIFIED adapter"
    assert rows["both.safetensors: text_encoder"].code == "unsupported"
    assert "has no folder text_encoder" in rows["both.safetensors: text_encoder"].reason


def test_a_flattened_name_of_several_matrices_decides_nothing(tmp_path):
    again = {"extra.a_b.weight": torch.ones(4, 4), "extra_a.b.weight": torch.ones(4, 4)}
    base = spoil(tiny_llama(tmp_path / "base"), lambda tensors: tensors.update(again))
    (tmp_path / "lora").mkdir()
    name = "lora_unet_extra_a_b.lora_{}.weight"
    factors = {name.format("down"): torch.ones(2, 4), name.format("up"): torch.ones(4, 2)}
    save_file(factors, tmp_path / "lora" / "style.safetensors")
    (row,) = compare(str(base), str(tmp_path / "lora")).rows
    assert row.verdict.code == "ambiguous"
    assert "and several matrices of " in row.verdict.reason
    assert row.verdict.reason.endswith("may be meant")


@pytest.mark.long
def test_a_class_that_peft_alone_adapts_is_found_in_attention_to_the_text_too(tmp_path):
    bases = [tmp_path / str(seed) for seed in range(2)]
    model, _ = (pictures.pixart(folder, seed) for seed, folder in enumerate(bases))
    adapter = pictures.pixart_adapter(model, tmp_path / "adapter")
    own, other = (compare(str(base), str(adapter)).rows[0].verdict for base in bases)
    assert (own.label, own.trace.p_value) == ("VERIFIED adapter", 0.0005)
    assert own.trace.roles.count("value") == 8
    assert other.trace.p_value > 0.01


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """A LoRA on the example base and one on another model, each in a folder that names the example base."""
    root = tmp_path_factory.mktemp("several")
    for name, base in (("french", BASE), ("german", OTHER)):
        trained(HUB / base, root / name, target_modules=["v_proj", "o_proj"])
        edit_json(root / name / ADAPTER_CONFIG, base_model_name_or_path=BASE)
    return root


def judged(report):
    return [(row.part, row.claim.base, row.verdict.code) for row in report.rows]


def test_adapters_in_folders_are_judged_one_by_one_and_each_may_be_named(adapters):
    report = check(str(adapters), options=OPTIONS)
    assert judged(report) == [("french", BASE, "adapter"), ("german", BASE, "unrelated")]
    assert report.exit_code == ExitCode.UNRELATED
    rows = compare(str(HUB / OTHER), str(adapters), OPTIONS).rows
    assert [(row.part, row.verdict.code) for row in rows] == [("french", "unrelated"), ("german", "adapter")]
    (row,) = check(str(adapters), options=Options(local_hub=HUB, seed=0, subfolder="french")).rows
    assert row.verdict.label == "VERIFIED adapter"


@pytest.mark.parametrize(
    ("bases", "of_card", "expected"),
    [
        ({"french": BASE, "german": OTHER}, BASE, [("french", BASE, "adapter"), ("german", OTHER, "adapter")]),
        ({"french": BASE}, OTHER, [("french", BASE, "adapter"), ("french", OTHER, "unrelated")]),
        (dict.fromkeys(LANGUAGES, PATH), BASE, [("french", BASE, "adapter"), ("german", BASE, "unrelated")]),
    ],
    ids=["each on the base that it names", "one of the card that no folder names", "one that cannot be followed"],
)
def test_a_folder_is_judged_on_its_base_or_on_that_of_the_card(adapters, tmp_path, bases, of_card, expected):
    for name, base in bases.items():
        shutil.copytree(adapters / name, tmp_path / name)
        edit_json(tmp_path / name / ADAPTER_CONFIG, base_model_name_or_path=base)
    report = check(str(card(tmp_path, of_card, "adapter")), options=OPTIONS)
    assert judged(report) == expected
    assert report.exit_code == (ExitCode.UNRELATED if "unrelated" in str(expected) else ExitCode.VERIFIED)


UP = "model.layers.0.mlp.up_proj"


@pytest.fixture
def several(tmp_path):
    """The paths of a tiny base, and of three adapters with random factors beside it."""
    for name in ("a", "b", "c"):
        written(tmp_path / "lora" / name, pair(UP, 48, 32))
    return tiny_llama(tmp_path / "base"), tmp_path / "lora"


def test_an_adapter_that_is_damaged_hides_no_other(several):
    base, root = several
    edit_json(root / "b" / ADAPTER_CONFIG, r=0)
    stored = root / "c" / "adapter_model.safetensors"
    save_file({name: tensor.fill_(torch.nan) for name, tensor in load_file(stored).items()}, stored)
    report = check(str(root), [str(base)])
    named = [row.verdict.code for row in report.rows]
    assert named == ["inconclusive", "damaged", "damaged"]
    assert report.exit_code == ExitCode.ERROR
    shutil.rmtree(root / "a")
    shutil.rmtree(root / "c")
    with pytest.raises(CheckpointError, match="gives the rank 0"):
        check(str(root), [str(base)])


def test_of_very_many_adapters_some_are_judged_and_the_others_are_said(several, monkeypatch):
    base, root = several
    monkeypatch.setattr("hf_lineage.source.contents.MOST", 2)
    *some, others = check(str(root), [str(base)]).rows
    assert [row.part for row in some] == ["a", "b"]
    assert others.verdict.code == "unsupported"
    assert others.verdict.reason == "other weights of the repository may come from elsewhere: c"


def test_earlier_states_of_training_are_counted_and_not_judged(several):
    base, root = several
    for old, new in (("a", "checkpoint-9"), ("b", "checkpoint-10"), ("c", "final")):
        (root / old).rename(root / new)
    report = check(str(root), [str(base)])
    assert [row.part for row in report.rows] == ["final", "checkpoint-10"]
    assert report.notes == ("1 earlier states of training, such as checkpoint-9, were not judged",)
    written(root, pair(UP, 48, 32))
    assert [row.part for row in check(str(root), [str(base)]).rows] == ["", "final"]


@pytest.mark.long
def test_a_model_in_a_folder_beside_adapters_is_judged_as_well_or_said(hub, adapters, tmp_path):
    root = shutil.copytree(adapters, tmp_path / "several")
    shutil.copytree(HUB / OTHER, root / "model")
    expected = [("french", "adapter"), ("german", "unrelated"), ("model", "unrelated")]
    rows = check(str(root), [str(HUB / BASE)], Options(seed=0)).rows
    assert [(row.part, row.verdict.code) for row in rows] == expected
    assert [row.part for row in compare(str(HUB / BASE), str(root), Options(seed=0)).rows] == [row.part for row in rows]
    files = shutil.copytree(hub / "fern" / "flat", tmp_path / "flat")
    shutil.copytree(HUB / OTHER, files / "model")
    _, said = check(str(files), [str(hub / "acme" / "pictures")], Options(seed=0)).rows
    assert said.verdict.reason.endswith("may come from elsewhere: model")


@pytest.mark.long
def test_one_of_several_files_can_be_named(hub, tmp_path):
    shutil.copy(hub / "fern" / "flat" / "style.safetensors", tmp_path / "a.safetensors")
    shutil.copy(hub / "fern" / "flat" / "style.safetensors", tmp_path / "b.safetensors")
    base = str(hub / "acme" / "pictures")
    assert [row.part for row in compare(base, str(tmp_path)).rows] == ["a.safetensors", "b.safetensors"]
    assert [row.part for row in compare(base, str(tmp_path), Options(file="b.safetensors")).rows] == ["b.safetensors"]


@pytest.mark.long
def test_on_the_hub_adapters_in_folders_are_found(online, adapters):
    online.publish("fern/several", adapters)
    report = check("fern/several", options=Options(seed=0))
    assert judged(report) == [("french", BASE, "adapter"), ("german", BASE, "unrelated")]
    (row,) = check("fern/several/french", options=Options(seed=0)).rows
    assert (row.part, row.verdict.label) == ("french", "VERIFIED adapter")


def test_on_the_hub_a_file_is_known_by_its_header(online, hub, tmp_path):
    online.publish("acme/pictures", hub / "acme" / "pictures")
    folder = shutil.copytree(hub / "fern" / "flat", tmp_path / "flat")
    online.publish("fern/flat", card(folder, "acme/pictures", "adapter"))
    (row,) = check("fern/flat", options=Options(seed=0)).rows
    assert (row.claim.base, row.verdict.label) == ("acme/pictures", "VERIFIED adapter")
    assert row.traffic["acme/pictures/unet"].moved < row.traffic["acme/pictures/unet"].stored
