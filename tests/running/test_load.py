"""A model is loaded by its own class, and only if what it holds then is what was judged."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from hf_lineage.running import load as load_module
from hf_lineage.running.load import CannotRunError, load
from hf_lineage.running.process import Load
from tests.models import edit_json
from tests.running.models import ARCHITECTURES, MIXED, ROOM, asked, loaded, lost, saved


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_judged_matrix_that_writes_is_found_in_memory(tmp_path, name):
    seen = loaded(saved(tmp_path, name), name)
    assert {place.writer.key.split()[0] for place in seen.places} >= {"mlp"}
    assert all(hasattr(place.module, place.parameter) for place in seen.places)
    assert seen.unexpected == ()
    if name == MIXED:  # experts that are stored one by one are parts of one stack
        experts = [place for place in seen.places if place.writer.key.startswith("mlp 0")]
        assert [place.expert for place in experts] == [0, 1, 2, 3]
        assert {place.parameter for place in experts} == {"down_proj"}


def test_a_part_is_filled_from_the_tensors_under_its_prefix_and_all_else_is_of_other_parts(tmp_path):
    folder = saved(tmp_path, "LlavaForConditionalGeneration")
    whole = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config["text_config"]))
    prefix = "language_model.model."
    part = load(Load(str(folder), "LlamaForCausalLM", ("model.safetensors",), (), ROOM, prefix=prefix), tmp_path)
    stored = {name.removeprefix(prefix): each for name, each in whole.items() if name.startswith(prefix)}
    memory = dict(part.model.named_parameters())
    assert (part.unexpected, memory.keys()) == ((), stored.keys())
    assert all(torch.equal(each, stored[name]) for name, each in memory.items())


CLASSES = {
    "LlamaForSequenceClassification": "LlamaModel", "GPT2LMHeadModel": "GPT2LMHeadModel",
    "BertForQuestionAnswering": "BertModel", "BertLMHeadModel": "BertForMaskedLM",
    "T5EncoderModel": "T5EncoderModel", "LlavaForConditionalGeneration": "LlavaModel",
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_a_model_runs_as_its_type_says_whatever_class_its_configuration_names(tmp_path, name):
    saved(tmp_path, name)
    for named in (name, "LlamaForTokenClassification"):
        request = Load(str(tmp_path), named, ("model.safetensors",), (), ROOM)
        if name == named or CLASSES[name] != name:
            assert type(load(request, tmp_path).model).__name__ == CLASSES[name]


@pytest.mark.parametrize("name", [MIXED, *ARCHITECTURES[:-1]])
@pytest.mark.few(1)
def test_layers_that_are_read_from_disk_write_what_they_write_in_memory(tmp_path, name):
    request = asked(saved(tmp_path / "model", name), name)
    stored = sum(file.stat().st_size for file in (tmp_path / "model").glob("*.safetensors"))
    on_disk = replace(request, offload=True, memory={"cpu": stored // 2}, disk=2**20)
    seen = []
    for model in (load(request, tmp_path), load(on_disk, tmp_path)):
        medians, (_, moved, _) = lost(model, {model.places[0].writer.key: range(8)})
        seen.append((medians, moved, model.on_disk))
    assert (seen[0][2], seen[1][2] > stored // 8) == (0, True)
    assert all(torch.equal(size, seen[1][0][key]) for key, size in seen[0][0].items())
    assert torch.equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize(("apple", "wanted"), [(False, {0: 300, "cpu": 200}), (True, {"mps": 500})])
def test_gpus_share_the_layers_by_the_same_device_map(tmp_path, monkeypatch, apple, wanted):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: apple)
    request = replace(asked(saved(tmp_path, "LlamaForCausalLM"), "LlamaForCausalLM"), memory={"0": 300, "cpu": 200})
    given = load_module._devices(transformers.LlamaForCausalLM, request, tmp_path)
    assert (given["device_map"], given["max_memory"]) == ("auto", wanted)


def test_a_model_that_fits_in_the_numbers_that_are_stored_runs_in_them(tmp_path):
    request = asked(saved(tmp_path, "LlamaForCausalLM", lambda model: model.bfloat16()), "LlamaForCausalLM")
    for wanted in ("float32", "bfloat16"):
        assert load(replace(request, dtype=wanted), tmp_path).model.dtype == getattr(torch, wanted)


def test_what_does_not_read_text_alone_has_no_class_or_no_room_is_not_run(tmp_path):
    for name in ("ViTForImageClassification", "CLIPModel", "WhisperForConditionalGeneration"):
        folder = saved(tmp_path / name, name)
        with pytest.raises(CannotRunError, match=r"it is run on text alone, and .* reads something else") as raised:
            load(Load(str(folder), name, ("model.safetensors",), (), ROOM), folder)
        assert type(raised.value) is CannotRunError
    request = replace(asked(saved(tmp_path / "model", MIXED), MIXED), offload=True, disk=1000)
    (tmp_path / "disk").mkdir()
    with pytest.raises(CannotRunError, match=r"may take \d+ MiB of the disk, and 0 MiB are free for them"):
        load(request, tmp_path / "disk")
    assert list((tmp_path / "disk").iterdir()) == []
    (tmp_path / "config.json").write_text("{}")
    for unknown in ("NobodysForCausalLM", "AutoConfig", "logging"):
        with pytest.raises(CannotRunError, match=f"has no class {unknown}"):
            load(Load(str(tmp_path), unknown, (), (), ROOM), tmp_path)


def changed(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_nothing_is_run_unless_every_tensor_and_its_size_is_what_the_class_builds(tmp_path):
    """What is missing would be made up by the loader; what is stored beside it is told."""
    request = asked(saved(tmp_path, "LlamaForCausalLM"), "LlamaForCausalLM")
    changed(tmp_path, lambda tensors: tensors.update({"model.layers.0.mlp.more.weight": torch.ones(3, 3)}))
    assert load(request, tmp_path).unexpected == ("model.layers.0.mlp.more.weight",)
    other = replace(request.writers[0], tensor="model.layers.0.mlp.shared.down_proj.weight")
    with pytest.raises(CannotRunError, match=r"the class does not build model.layers.0.mlp.shared.down_proj.weight"):
        load(replace(request, writers=(other,)), tmp_path)
    edit_json(tmp_path / "config.json", intermediate_size=7)
    with pytest.raises(CannotRunError, match=r"in other shapes 6 tensors .*, layers.0.mlp.down_proj.weight among"):
        load(request, tmp_path)
    saved(tmp_path, "LlamaForCausalLM")
    changed(tmp_path, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(CannotRunError, match=r"does not hold 1 tensors that the class builds, layers.1.mlp.up"):
        load(request, tmp_path)


def test_what_is_missing_beside_the_layers_is_a_reason_but_for_a_pooler_and_a_bias_that_is_0(tmp_path):
    request = asked(saved(tmp_path, "BertModel"), "BertModel")
    changed(tmp_path, lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"))
    assert not load(request, tmp_path).model.encoder.layer[1].output.dense.bias.any()
    changed(tmp_path, lambda tensors: tensors.pop("pooler.dense.weight"))
    assert load(request, tmp_path).model
    changed(tmp_path, lambda tensors: tensors.pop("embeddings.LayerNorm.weight"))
    with pytest.raises(CannotRunError, match=r"does not hold 1 tensors .*, embeddings.LayerNorm.weight") as raised:
        load(request, tmp_path)
    assert type(raised.value) is CannotRunError
