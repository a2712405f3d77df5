"""A model of several parts has a row for each, and a part that no row is about is named."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_lineage import Options, check, compare
from tests.invoking import lineage
from tests.models import WEIGHTS, card, edit_json, fine_tuned, spoil, tiny_llama
from tests.parts import saved, seeing


def drawn(folder, seed, within=""):
    """Random numbers in every matrix under a name."""

    def draw(tensors):
        torch.manual_seed(seed)
        for name, tensor in tensors.items():
            numbers = torch.randn(tensor.shape)
            if tensor.ndim > 1 and within in name:
                tensors[name] = numbers

    return spoil(folder, draw)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    base = seeing(folder / "base", seed=1)
    fine_tuned(base, folder / "child", noise=0.02)
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
    [
        ("nothing", {"language": "VERIFIED inherited", "vision": "VERIFIED inherited"}, 0),
        ("vision", {"language": "VERIFIED inherited", "vision": "UNRELATED"}, 1),
        ("language", {"language": "UNRELATED", "vision": "VERIFIED inherited"}, 1),
    ],
)
def test_nothing_about_a_part_follows_from_another(hub, strange, expected, code):
    drawn(hub / "fern/child", 5, strange)
    report = check("fern/child", options=Options(local_hub=hub))
    assert (outcome(report), report.exit_code) == (expected, code)


@pytest.mark.long
def test_two_parts_are_named_and_compared(hub):
    assert outcome(compare(hub / "acme/base", hub / "fern/child")) == {
        "language": "VERIFIED inherited",
        "vision": "VERIFIED inherited",
    }
    for one, other in (("vision", "vision_tower"), ("vision_tower", "vision")):
        result = lineage("compare", f"acme/base/{one}", f"fern/child/{other}", "--local-hub", hub)
        assert (result.code, result.rows[0][-1]) == (0, "inherited")
        assert lineage("compare", hub / f"acme/base/{one}", hub / f"fern/child/{other}").code == 0
    assert outcome(check("fern/child", options=Options(local_hub=hub, subfolder="vision"))) == {
        "vision": "VERIFIED inherited"
    }
    assert "has no folder audio" in lineage("compare", "acme/base/audio", "fern/child", "--local-hub", hub).error


def test_what_was_not_looked_at_is_said(hub):
    text = lineage("check", "fern/child", "--local-hub", hub)
    assert "parts of the model that were not looked at: multi_modal_projector" in text.sentences
    base = tiny_llama(hub / "acme/words")
    shape = json.loads((hub / "fern/child/config.json").read_text())["text_config"]["hidden_size"]
    assert shape == 32
    words = lineage("check", "fern/child", "--base", "acme/words", "--local-hub", hub, "--explain")
    assert "vision was not looked at: acme/words has no part like vision" in words.sentences
    assert base.name in words.sentences


def test_a_tower_is_known_again_in_a_base_that_is_nothing_else(hub, made):
    """The tower of somebody else's model, or one that is published by itself, is a base of the part alone."""
    tower = saved("CLIPVisionModel", hub / "acme/tower").folder

    def take(tensors):
        held = {}
        spoil(hub / "fern/child", held.update)
        for name in tensors:
            tensors[name] = held[f"vision_tower.{name}"]

    spoil(tower, take)
    report = check("fern/child", "acme/tower", Options(local_hub=hub))
    assert outcome(report)["vision"] == "VERIFIED inherited"


def test_a_tower_of_another_width_or_depth_is_told_apart(hub):
    other = seeing(hub / "acme/other", seed=3)
    config = json.loads((other / "config.json").read_text())

    def change(tensors):
        for name in [name for name in tensors if "vision" in name and ".layers.1." in name]:
            del tensors[name]

    spoil(other, change)
    edit_json(other / "config.json", vision_config=config["vision_config"] | {"num_hidden_layers": 1})
    shallow = check("fern/child", "acme/other", Options(local_hub=hub))
    assert {row.part: row.verdict.code for row in shallow.rows}["vision"] == "unrelated"

    def widen(tensors):
        for name, tensor in tensors.items():
            if "vision" in name:
                sizes = [(0, 16 if size == 32 else 0) for size in reversed(tensor.shape)]
                tensors[name] = torch.nn.functional.pad(tensor, [side for pair in sizes for side in pair])

    spoil(other, widen)
    wide = check("fern/child", "acme/other", Options(local_hub=hub))
    (row,) = [row for row in wide.rows if row.part == "vision"]
    assert (row.verdict.code, "width 48" in row.verdict.reason) == ("incompatible", True)


def test_the_tower_of_the_base_in_a_part_that_nothing_uses_does_not_count(hub):
    """A second tower, under a name that the class has not or in another place, is no part of the model."""
    held = {}
    spoil(hub / "acme/base", lambda tensors: held.update({k: v for k, v in tensors.items() if "vision" in k}))
    drawn(hub / "fern/child", 5, "vision")
    spoil(
        hub / "fern/child",
        lambda tensors: tensors.update({k.replace("vision_", "second_"): v for k, v in held.items()}),
    )
    report = check("fern/child", options=Options(local_hub=hub))
    assert outcome(report) == {"language": "RELATED unused", "vision": "UNRELATED"}
    assert any(
        "not looked at: multi_modal_projector, second_tower" in note for row in report.rows for note in row.notes
    )
    spoil(hub / "fern/child", lambda tensors: tensors.update({f"model.{k}": v for k, v in held.items()}))
    (row,) = [row for row in check("fern/child", options=Options(local_hub=hub)).rows if row.part]
    assert (row.verdict.code, "loaders disagree" in row.verdict.reason) == ("ambiguous", True)


def test_a_row_about_a_part_says_that_its_use_was_not_judged(hub):
    """A tower is judged by itself, also behind a projector of zeros."""
    name = "multi_modal_projector.linear_2.weight"
    spoil(hub / "fern/child", lambda tensors: tensors.update({name: torch.zeros_like(tensors[name])}))
    language, vision = check("fern/child", options=Options(local_hub=hub)).rows
    assert (vision.part, vision.verdict.label) == ("vision", "VERIFIED inherited")
    told = "vision: its use by the rest of the model was not judged"
    assert (told in vision.notes, told in language.notes) == (True, False)


@pytest.mark.long
def test_a_part_is_run_by_itself_and_verified_by_that_unless_it_reads_no_text(hub):
    language, vision = (row.verdict for row in check("fern/child", options=Options(local_hub=hub, run=True)).rows)
    assert (language.label, language.executed.problem) == ("VERIFIED inherited", "")
    assert (vision.label, vision.verified) == ("RELATED unused", False)
    assert "could not be run: it is run on text alone, and CLIPVisionModel reads something else" in str(vision.executed)


def test_the_origin_of_a_tower_is_found_where_only_a_whole_model_of_another_family_is_known(hub, tmp_path):
    index = ("--index", tmp_path / "index", "--local-hub", hub)
    assert lineage("index", "add", "acme/base", *index).code == 0
    other = seeing(hub / "otter/other", 7, "VipLlavaForConditionalGeneration")
    held = load_file(hub / "acme/base" / WEIGHTS)
    spoil(other, lambda tensors: tensors.update({name: held[name] for name in tensors if "vision_tower" in name}))
    found = lineage("identify", "otter/other", *index)
    assert found.code == 0
    assert "otter/other No relative was found" in found.sentences
    assert "Nearest known relative: acme/base/vision" in found.sentences
    assert lineage("index", "remove", "acme/base", *index[:2]).code == 0
    assert "acme/base" not in lineage("index", "list", "--index", tmp_path / "index").out


@pytest.mark.long
def test_a_bill_of_materials_has_a_pedigree_for_each_part(hub):
    drawn(hub / "fern/child", 5, "language")
    result = lineage("check", "fern/child", "--local-hub", hub, "--format", "cyclonedx")
    model = json.loads(result.out)["metadata"]["component"]
    assert "pedigree" not in model
    (vision,) = [one for one in model["components"] if one["name"] == "vision"]
    assert [one["name"] for one in vision["pedigree"]["ancestors"]] == ["base"]


@pytest.mark.long
def test_the_page_shows_the_parts_one_below_the_other(hub):
    page = lineage("check", "fern/child", "--local-hub", hub, "--format", "html").out
    assert page.index("acme/base</bdi></a>") < page.index("acme/base</bdi></a> (vision)")


def test_a_model_is_identified_though_one_of_its_parts_cannot_be_read(hub, tmp_path):
    index = ("--index", tmp_path / "index", "--local-hub", hub)
    assert lineage("index", "add", "acme/base", *index).code == 0
    twice = {}
    spoil(
        hub / "fern/child", lambda tensors: twice.update({f"model.{k}": v for k, v in tensors.items() if "vision" in k})
    )
    spoil(hub / "fern/child", lambda tensors: tensors.update(twice))
    found = lineage("identify", "fern/child", *index)
    assert (found.code, "acme/base" in found.sentences) == (0, True)
    assert "loaders disagree" in found.err


def with_tower(folder, name):
    """The tower of a model replaced by a tiny one of another class, with random numbers."""
    tower = saved(name, folder.with_name(f"{folder.name}-tower")).folder
    held = load_file(tower / WEIGHTS)

    def replace_tower(tensors):
        for key in [key for key in tensors if "vision_tower" in key]:
            del tensors[key]
        tensors.update({f"vision_tower.{key}": each for key, each in held.items()})

    spoil(folder, replace_tower)
    edit_json(folder / "config.json", vision_config=json.loads((tower / "config.json").read_text()))


@pytest.mark.parametrize("name", ["SiglipVisionModel", "PixtralVisionModel", "Dinov2Model"])
@pytest.mark.few(1)
def test_a_tower_of_another_class_is_compared_where_it_can_be(hub, name):
    with_tower(hub / "fern/child", name)
    report = check("fern/child", options=Options(local_hub=hub))
    assert outcome(report) == {"language": "VERIFIED inherited", "vision": "UNRELATED"}


def test_the_tower_of_the_base_is_known_again_whatever_class_it_is_said_to_be(hub):
    config = json.loads((hub / "fern/child/config.json").read_text())["vision_config"]
    edit_json(hub / "fern/child/config.json", vision_config=config | {"model_type": "siglip_vision_model"})
    assert outcome(check("fern/child", options=Options(local_hub=hub)))["vision"] == "VERIFIED inherited"
