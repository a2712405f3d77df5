"""Every part of a model is found under the names on disk, as its own class, and read from the numbers of its module."""

import json

import pytest

from hf_lineage.architecture.registry import registry_table
from hf_lineage.errors import LineageError, NothingToCompare
from hf_lineage.hub.repo import resolve
from hf_lineage.source.config import described
from hf_lineage.source.headers import headers
from hf_lineage.source.parts import PARTS, Parts, fitting_part, part_named, parts_of_class, parts_of_model
from tests import parts as derived
from tests.long import LONG, first_of
from tests.models import edit_json, spoil, tiny_llama
from tests.parts import saved

WHOLE = registry_table(PARTS, Parts).whole
USUAL = ["LlavaForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"]
ROWS = sorted((row.classes for row in WHOLE), key=lambda names: names[0] not in USUAL)


@pytest.mark.parametrize("names", first_of({names[0]: (names,) for names in ROWS}, count=2))
def test_what_is_read_of_a_part_are_the_numbers_of_its_module(names, tmp_path):
    repo = saved(names[0], tmp_path / "model")
    for part in parts_of_class(repo.config()).values():
        derived.read_back(repo, part)


@LONG
def test_the_table_is_what_the_modules_say():
    assert json.loads(derived.TABLE.read_text()) == json.loads(derived.lines(derived.table()))


@LONG
def test_every_class_with_parts_is_in_the_table_or_in_the_list_of_what_is_not_read():
    table = registry_table(PARTS, Parts)
    named = {name for row in table.whole for name in row.classes} | {
        name for row in table.without.values() for name in row
    }
    silent = [name for name in derived.whole_classes() if name not in named]
    assert [name for name in silent if derived.of_class(name) != ({}, "")] == []


@pytest.fixture
def llava(tmp_path):
    return saved("LlavaForConditionalGeneration", tmp_path / "llava")


def test_the_type_in_the_settings_says_which_class_a_part_is(llava):
    (vision,) = parts_of_model(llava)
    assert (vision.part, vision.name, described(vision).architecture) == (
        "vision",
        f"{llava}/vision",
        "CLIPVisionModel",
    )
    config = json.loads((llava.folder / "config.json").read_text())
    for kind, name in (
        ("siglip_vision_model", "SiglipVisionModel"),
        ("theirs", "CLIPVisionModel"),
        (7, "CLIPVisionModel"),
    ):
        edit_json(llava.folder / "config.json", vision_config=config["vision_config"] | {"model_type": kind})
        assert described(parts_of_model(resolve(str(llava.folder)))[0]).architecture == name


def test_a_part_goes_by_its_name_or_that_of_its_tensors(llava):
    assert {part_named(llava, name).part for name in ("vision", "vision_tower")} == {"vision"}
    assert part_named(llava, "text").part == "text"
    assert part_named(llava, "audio") is None


def test_a_part_that_stands_in_two_places_is_not_read(llava):
    spoil(
        llava.folder, lambda tensors: tensors.update({f"model.{k}": v + 1 for k, v in tensors.items() if "vision" in k})
    )
    with pytest.raises(NothingToCompare, match="loaders disagree on which is the model"):
        headers(parts_of_model(llava)[0])


def test_a_part_that_is_nowhere_is_not_read(llava):
    spoil(llava.folder, lambda tensors: [tensors.pop(name) for name in [*tensors] if "vision" in name])
    with pytest.raises(NothingToCompare, match="stand nowhere"):
        headers(parts_of_model(llava)[0])


def test_a_part_is_compared_with_the_same_part_or_one_of_its_class_or_all_of_the_base(llava, tmp_path):
    (vision,) = parts_of_model(llava)
    assert fitting_part(llava, vision).part == "vision"
    clip = saved("CLIPModel", tmp_path / "clip")
    assert fitting_part(clip, vision).part == "vision"
    tower = saved("CLIPVisionModel", tmp_path / "tower")
    assert fitting_part(tower, vision) == tower
    with pytest.raises(NothingToCompare, match="has no part like vision"):
        fitting_part(resolve(str(tiny_llama(tmp_path / "llama"))), vision)


@pytest.mark.parametrize("config", [7, [], {"num_attention_heads": "x"}, {"model_type": "llama"}, None])
def test_hostile_settings_of_a_part_are_told(llava, config):
    edit_json(llava.folder / "config.json", vision_config=config)
    if not (parts := parts_of_model(resolve(str(llava.folder)))):
        return
    with pytest.raises(LineageError):
        headers(parts[0])
