"""What config.json says about a model and its parts, each found under its names on disk as its own class."""

import json

import pytest

from hf_lineage.architecture.likeness import Within
from hf_lineage.architecture.registry import lookup, registry_table
from hf_lineage.errors import LineageError, NothingToCompare, UnlistedClass
from hf_lineage.hub.repo import resolve
from hf_lineage.source import config as settings
from hf_lineage.source.config import ModelConfig, fitting_part, holds_others, named_class, part_named, read_config
from hf_lineage.source.headers import headers
from tests import parts as derived
from tests.long import LONG, first_of
from tests.models import edit_json, spoil, tiny_gpt2, tiny_llama
from tests.parts import saved

WHOLE = registry_table(settings.PARTS, settings.Parts).whole
USUAL = ["LlavaForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"]
ROWS = sorted((row.classes for row in WHOLE), key=lambda names: names[0] not in USUAL)


def test_a_configuration_inside_another_means_parts_and_the_first_class_counts():
    for config in ({}, {"quantization_config": {}}, {"vision_config": 7}, {"vision": {}}):
        assert not holds_others(config)
        assert holds_others({**config, "vision_config": {}})
    for named, expected in ((["A", "B"], "A"), ([7, "B"], "B"), ("A", None), (None, None)):
        assert named_class({"architectures": named}) == expected


@pytest.mark.parametrize("named", [None, []])
def test_without_a_class_the_type_counts_and_a_note_says_so(named, tmp_path):
    model = read_config(resolve(str(tiny_llama(tmp_path / "model", architectures=named))))
    assert (model.architecture, model.read_as) == ("LlamaModel", "")
    told = "config.json names no class; by its model_type it was read as LlamaModel, as transformers does"
    assert model.notes == (told,)
    assert read_config(resolve(str(tiny_gpt2(tmp_path / "gpt2", architectures=named)))).architecture == "GPT2Model"


def test_a_type_that_nobody_listed_says_nothing_and_a_part_knows_the_whole(tmp_path):
    folder = tiny_llama(tmp_path / "model", architectures=None)
    for kind in ("theirs", None, 7, ["llama"]):
        edit_json(folder / "config.json", model_type=kind)
        with pytest.raises(UnlistedClass, match="names no class"):
            read_config(resolve(str(folder)))
    edit_json(folder / "config.json", architectures=["MambaForCausalLM"], model_type="mamba", hidden_act="silu")
    with pytest.raises(NothingToCompare, match="MambaForCausalLM is not supported"):
        read_config(resolve(str(folder)))
    repo = resolve(str(tiny_llama(tmp_path / "llama")))
    name, factorization = lookup(repo.config())
    model = ModelConfig(repo, {"hidden_size": 8}, name, factorization)
    assert settings.whole_config(model) == {"hidden_size": 8}
    part = ModelConfig(repo, {"hidden_size": 8}, name, factorization, within=Within())
    assert settings.whole_config(part) == repo.config()


@pytest.mark.parametrize("names", first_of({names[0]: (names,) for names in ROWS}, count=2))
def test_what_is_read_of_a_part_are_the_numbers_of_its_module(names, tmp_path):
    repo = saved(names[0], tmp_path / "model")
    for part in settings.parts_of_class(repo.config()).values():
        derived.read_back(repo, part)


@LONG
def test_every_class_with_parts_is_in_a_table_that_says_what_its_modules_say():
    table = registry_table(settings.PARTS, settings.Parts)
    named = {name for row in (*(row.classes for row in table.whole), *table.without.values()) for name in row}
    silent = [name for name in derived.whole_classes() if name not in named]
    assert [name for name in silent if derived.of_class(name) != ({}, "")] == []
    assert json.loads(derived.TABLE.read_text()) == json.loads(derived.lines(derived.table()))


@pytest.fixture
def llava(tmp_path):
    return saved("LlavaForConditionalGeneration", tmp_path / "llava")


def test_a_part_goes_by_its_name_and_its_type_in_the_settings_says_its_class(llava):
    assert [part_named(llava, name).part for name in ("vision", "vision_tower", "text")] == ["vision", "vision", "text"]
    assert part_named(llava, "audio") is None
    (vision,) = settings.parts_of_model(llava)
    told = vision.part, vision.name, read_config(vision).architecture
    assert told == ("vision", f"{llava}/vision", "CLIPVisionModel")
    config = llava.config()["vision_config"]
    kinds = {"siglip_vision_model": "SiglipVisionModel", "theirs": "CLIPVisionModel", 7: "CLIPVisionModel"}
    for kind, name in kinds.items():
        edit_json(llava.folder / "config.json", vision_config=config | {"model_type": kind})
        assert read_config(settings.parts_of_model(resolve(str(llava.folder)))[0]).architecture == name
    for hostile in (7, [], {"num_attention_heads": "x"}, {"model_type": "llama"}, None):
        edit_json(llava.folder / "config.json", vision_config=hostile)
        for part in settings.parts_of_model(resolve(str(llava.folder))):
            with pytest.raises(LineageError):
                headers(part)


def test_a_part_that_stands_in_two_places_or_nowhere_is_not_read(llava):
    def vision(tensors):
        return {name: tensor for name, tensor in tensors.items() if "vision" in name}

    spoil(llava.folder, lambda tensors: tensors.update({f"model.{k}": v + 1 for k, v in vision(tensors).items()}))
    with pytest.raises(NothingToCompare, match="loaders disagree on which is the model"):
        headers(settings.parts_of_model(llava)[0])
    spoil(llava.folder, lambda tensors: [tensors.pop(name) for name in vision(tensors)])
    with pytest.raises(NothingToCompare, match="stand nowhere"):
        headers(settings.parts_of_model(resolve(str(llava.folder)))[0])


def test_a_part_is_compared_with_the_same_or_one_of_its_class_or_all_of_the_base(llava, tmp_path):
    (vision,) = settings.parts_of_model(llava)
    assert fitting_part(llava, vision).part == "vision"
    clip = saved("CLIPModel", tmp_path / "clip")
    assert fitting_part(clip, vision).part == "vision"
    tower = saved("CLIPVisionModel", tmp_path / "tower")
    assert fitting_part(tower, vision) == tower
    with pytest.raises(NothingToCompare, match="has no part like vision"):
        fitting_part(resolve(str(tiny_llama(tmp_path / "llama"))), vision)
