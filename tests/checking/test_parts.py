"""Models in folders and parts of a model: each has a row, and what no row is about is named."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage import check, compare
from tests.invoking import lineage
from tests.models import WEIGHTS, card, edit_json, family, fine_tuned, spoil, tiny_llama
from tests.parts import saved, seeing
from tests.published.steps import STEPS
from tests.source.test_contents import DIFFUSION, into, options, pipeline, rows

YES, NO = "VERIFIED inherited", "UNRELATED"
BOTH = {"language": YES, "vision": YES}


@pytest.fixture
def folders(tmp_path):
    return family(tmp_path)


def judged(hub, base=(), **more):
    return check("fern/child", base, options(hub, **more))


def test_every_part_of_a_pipeline_has_a_row_or_is_named_and_none_is_passed_over(folders):
    pipeline(folders / "acme/base", text_encoder=1, text_encoder_2=1)
    pipeline(folders / "fern/child", text_encoder=1, text_encoder_2=1, image_encoder=1)
    report = judged(folders)
    assert rows(report) == [
        ("acme/base", "text_encoder", "inherited"),
        ("acme/base", "text_encoder_2", "inherited"),
        ("acme/base", "", "unsupported"),
    ]
    assert report.exit_code == 3
    assert "may come from elsewhere: vae (AutoencoderKL)" in report.rows[2].verdict.reason
    assert any(note.startswith("image_encoder was not judged: ") for note in report.rows[0].notes)
    shutil.rmtree(folders / "fern/child/text_encoder")
    tiny_llama(folders / "fern/child/text_encoder", seed=9)
    report = judged(folders)
    assert (rows(report)[0][2], report.exit_code) == ("unrelated", 1)


def test_a_part_that_no_factorization_reads_counts_as_the_bases_only_byte_for_byte(folders):
    for folder in (folders / "acme/base", folders / "fern/child"):
        STEPS["pipeline"](folder)
    assert [row[2] for row in rows(judged(folders))] == ["inherited", "inherited"]
    (folders / "fern/child/vae" / DIFFUSION).unlink()
    assert rows(judged(folders))[-1] == ("acme/base", "", "unsupported")
    edit_json(folders / "fern/child/unet/config.json", _class_name="NobodysNetwork")  # never a note: the base has one
    assert [row[1:] for row in rows(judged(folders))[:2]] == [("text_encoder", "inherited"), ("unet", "unsupported")]


def test_each_is_compared_with_the_folder_of_its_name_and_undecided_without_one(folders):
    into(folders / "acme/base", "a", "b")
    (row,) = judged(folders).rows
    assert (row.verdict.code, "holds several models, in a, b" in row.verdict.reason) == ("ambiguous", True)
    into(folders / "fern/child", "a", "b")
    found = rows(compare("acme/base", "fern/child", options(folders)))
    assert found == [("acme/base", part, "inherited") for part in "ab"]


def drawn(folder, seed, within=""):
    """Random numbers in every matrix under a name."""

    torch.manual_seed(seed)
    whole = load_file(folder / WEIGHTS)
    chosen = [name for name, tensor in whole.items() if tensor.ndim > 1 and within in name]
    return spoil(folder, lambda tensors: tensors.update({name: torch.randn(whole[name].shape) for name in chosen}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    fine_tuned(seeing(folder / "base", seed=1), folder / "child", noise=0.02)
    return folder


@pytest.fixture
def hub(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "hub/acme/base")
    card(Path(shutil.copytree(made / "child", tmp_path / "hub/fern/child")), "acme/base")
    return tmp_path / "hub"


def outcome(report):
    return {row.part or "language": row.verdict.label for row in report.rows}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("strange", "expected", "code"),
    [("nothing", BOTH, 0), ("vision", BOTH | {"vision": NO}, 1), ("language", BOTH | {"language": NO}, 1)],
)
def test_nothing_about_a_part_follows_from_another(hub, strange, expected, code):
    drawn(hub / "fern/child", 5, strange)
    report = judged(hub)
    assert (outcome(report), report.exit_code) == (expected, code)


@pytest.mark.long
def test_two_parts_are_named_and_compared(hub):
    assert outcome(compare(hub / "acme/base", hub / "fern/child")) == BOTH
    for one, other in (("vision", "vision_tower"), ("vision_tower", "vision")):
        result = lineage("compare", f"acme/base/{one}", f"fern/child/{other}", "--local-hub", hub)
        assert (result.code, result.rows[0][-1]) == (0, "inherited")
        assert lineage("compare", hub / f"acme/base/{one}", hub / f"fern/child/{other}").code == 0
    assert outcome(judged(hub, subfolder="vision")) == {"vision": YES}
    assert "has no folder audio" in lineage("compare", "acme/base/audio", "fern/child", "--local-hub", hub).error


def test_the_parts_that_were_not_looked_at_and_whose_use_was_not_judged_are_said(hub):
    text = lineage("check", "fern/child", "--local-hub", hub)
    assert "parts of the model that were not looked at: multi_modal_projector" in text.sentences
    tiny_llama(hub / "acme/words")
    words = lineage("check", "fern/child", "--base", "acme/words", "--local-hub", hub, "--explain")
    assert "vision was not looked at: acme/words has no part like vision" in words.sentences
    name = "multi_modal_projector.linear_2.weight"
    spoil(hub / "fern/child", lambda tensors: tensors.update({name: torch.zeros_like(tensors[name])}))
    language, vision = judged(hub).rows
    assert (vision.part, vision.verdict.label) == ("vision", YES)
    told = "vision: its use by the rest of the model was not judged"
    assert (told in vision.notes, told in language.notes) == (True, False)


def test_a_tower_of_another_width_or_depth_is_told_apart(hub):
    other = seeing(hub / "acme/other", seed=3)
    config = json.loads((other / "config.json").read_text())

    def shorten(tensors):
        for name in [name for name in tensors if "vision" in name and ".layers.1." in name]:
            del tensors[name]

    def widen(tensors):
        for name, tensor in tensors.items():
            if "vision" in name:
                sizes = [(0, 16 if size == 32 else 0) for size in reversed(tensor.shape)]
                tensors[name] = torch.nn.functional.pad(tensor, [side for pair in sizes for side in pair])

    edit_json(other / "config.json", vision_config=config["vision_config"] | {"num_hidden_layers": 1})
    for change, code, reason in ((shorten, "unrelated", ""), (widen, "incompatible", "width 48")):
        spoil(other, change)
        (verdict,) = [row.verdict for row in judged(hub, "acme/other").rows if row.part == "vision"]
        assert (verdict.code, reason in verdict.reason) == (code, True)


def test_the_tower_of_the_base_in_a_part_that_nothing_uses_does_not_count(hub):
    """A second tower, under a name that the class has not or in another place, is no part of the model."""
    held = {k: v for k, v in load_file(hub / "acme/base" / WEIGHTS).items() if "vision" in k}
    child = drawn(hub / "fern/child", 5, "vision")
    spoil(child, lambda tensors: tensors.update({k.replace("vision_", "second_"): v for k, v in held.items()}))
    report = judged(hub)
    assert outcome(report) == {"language": "RELATED unused", "vision": NO}
    notes = [note for row in report.rows for note in row.notes]
    assert any("not looked at: multi_modal_projector, second_tower" in note for note in notes)
    spoil(child, lambda tensors: tensors.update({f"model.{k}": v for k, v in held.items()}))
    (row,) = [row for row in judged(hub).rows if row.part]
    assert (row.verdict.code, "loaders disagree" in row.verdict.reason) == ("ambiguous", True)


@pytest.mark.long
def test_a_part_is_run_by_itself_and_verified_by_that_unless_it_reads_no_text(hub):
    language, vision = (row.verdict for row in judged(hub, run=True).rows)
    assert (language.label, language.executed.problem, vision.label) == (YES, "", "RELATED unused")
    assert "could not be run: it is run on text alone, and CLIPVisionModel reads something else" in str(vision.executed)


@pytest.mark.long
def test_a_bill_of_materials_has_a_pedigree_for_each_part_and_a_page_shows_them(hub):
    drawn(hub / "fern/child", 5, "language")
    result = lineage("check", "fern/child", "--local-hub", hub, "--format", "cyclonedx")
    model = json.loads(result.out)["metadata"]["component"]
    assert "pedigree" not in model
    (vision,) = [one for one in model["components"] if one["name"] == "vision"]
    assert [one["name"] for one in vision["pedigree"]["ancestors"]] == ["base"]
    page = lineage("check", "fern/child", "--local-hub", hub, "--format", "html").out
    assert page.index("acme/base</bdi></a>") < page.index("acme/base</bdi></a> (vision)")


def test_a_model_with_an_unreadable_part_and_the_origin_of_a_tower_are_identified(hub, tmp_path):
    index = ("--index", tmp_path / "index", "--local-hub", hub)
    assert lineage("index", "add", "acme/base", *index).code == 0
    held = load_file(hub / "fern/child" / WEIGHTS)
    twice = {f"model.{name}": each for name, each in held.items() if "vision" in name}
    spoil(hub / "fern/child", lambda tensors: tensors.update(twice))
    found = lineage("identify", "fern/child", *index)
    assert (found.code, "acme/base" in found.sentences) == (0, True)
    assert "loaders disagree" in found.err
    other = seeing(hub / "otter/other", 7, "VipLlavaForConditionalGeneration")
    held = load_file(hub / "acme/base" / WEIGHTS)
    spoil(other, lambda tensors: tensors.update({name: held[name] for name in tensors if "vision_tower" in name}))
    found = lineage("identify", "otter/other", *index)
    assert (found.code, "otter/other No relative was found" in found.sentences) == (0, True)
    assert "Nearest known relative: acme/base/vision" in found.sentences
    assert lineage("index", "remove", "acme/base", *index[:2]).code == 0
    assert "acme/base" not in lineage("index", "list", *index[:2]).out


@pytest.mark.parametrize("name", ["SiglipVisionModel", "PixtralVisionModel", "Dinov2Model"])
@pytest.mark.few(1)
def test_a_tower_of_another_class_is_compared_where_it_can_be(hub, name):
    """In place of the tower of a model stands a tiny one of another class, with random numbers."""
    folder, tower = hub / "fern/child", saved(name, hub / "tower").folder
    held = {f"vision_tower.{key}": each for key, each in load_file(tower / WEIGHTS).items()}

    def replace_tower(tensors):
        for key in [key for key in tensors if "vision_tower" in key]:
            del tensors[key]
        tensors.update(held)

    spoil(folder, replace_tower)
    edit_json(folder / "config.json", vision_config=json.loads((tower / "config.json").read_text()))
    assert outcome(judged(hub)) == BOTH | {"vision": NO}


def test_a_tower_is_known_again_in_a_base_that_is_nothing_else_and_by_any_class(hub, made):
    config = json.loads((hub / "fern/child/config.json").read_text())["vision_config"]
    edit_json(hub / "fern/child/config.json", vision_config=config | {"model_type": "siglip_vision_model"})
    assert outcome(judged(hub))["vision"] == YES
    held = load_file(hub / "fern/child" / WEIGHTS)
    tower = saved("CLIPVisionModel", hub / "acme/tower").folder
    spoil(tower, lambda tensors: tensors.update({name: held[f"vision_tower.{name}"] for name in tensors}))
    assert outcome(judged(hub, "acme/tower"))["vision"] == YES
