"""A relation that the card declares is held against what is stored; a contradiction is a note, never a verdict."""

import json

import pytest
import torch

from hf_lineage import Options, check
from hf_lineage.report import FORMATS, renderer
from tests.models import WEIGHTS, card, edit_json, family, fine_tuned, spoil, tiny_llama

NOT_QUANTIZED = "no tensor is quantized and config.json has no `quantization_config`"


@pytest.fixture
def child(tmp_path):
    return family(tmp_path) / "fern/child"


def report(child):
    return check("fern/child", options=Options(local_hub=child.parents[1]))


def test_a_contradiction_is_a_note(child):
    for relation, contradiction in {
        "finetune": "",
        "adapter": "there is no adapter: adapter_config.json is missing",
        "merge": "names one parent only",
        "quantized": NOT_QUANTIZED,
        "copy": "the Hub knows only adapter, finetune, merge, quantized",
    }.items():
        found = report(card(child, "acme/base", relation))
        notes = (f"README.md declares the relation {relation}, but {contradiction}",) if contradiction else ()
        assert (found.notes, found.exit_code) == (notes, 0)


def test_every_format_that_has_sentences_says_it(child):
    found = report(card(child, "acme/base", "quantized"))
    named = check("fern/child", [str(child.parents[1] / "acme/base")], Options(local_hub=child.parents[1]))
    assert named.notes == (), "a base that the user names declares nothing"
    for form in ("text", "json", "markdown", "html", "sarif"):
        assert "relation quantized" in " ".join(renderer(form)(found, False).split())
    assert set(FORMATS) >= {"text", "json", "markdown", "html", "sarif"}
    assert json.loads(renderer("json")(found, False))["notes"] == list(found.notes)


def test_several_parents_and_eight_bit_numbers_bear_out_a_merge_and_a_quantization(child):
    fine_tuned(child.parents[1] / "acme/base", child.parents[1] / "acme/second", seed=3)
    assert report(card(child, ["acme/base", "acme/second"], "merge")).notes == ()
    (child / "mergekit_config.yml").write_text("models: [{model: acme/base}]")
    assert report(card(child, "acme/base", "merge")).notes == ()
    card(child, "acme/base", "quantized")
    spoil(child, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(2, 2, dtype=torch.float8_e4m3fn)}))
    assert report(child).notes == ()


def test_an_adapter_alone_is_no_finetune(child):
    card(child, "acme/base", "finetune")
    (child / WEIGHTS).rename(child / "adapter_model.safetensors")
    edit_json(child / "adapter_config.json", base_model_name_or_path="acme/base")
    said = "README.md declares the relation finetune, but the repository holds only an adapter"
    assert report(child).notes == (said,)


def test_what_concerns_several_claims_is_said_once(child):
    tiny_llama(child.parents[1] / "acme/second", seed=3)
    unknown = {"architectures": ["NobodyForCausalLM"], "model_type": "nobody"}
    edit_json(card(child, ["acme/base", "acme/second"]) / "config.json", **unknown)
    text = " ".join(renderer("text")(report(child), True).split())
    assert text.count("NobodyForCausalLM is not in the registry") == 1
    assert "acme/base, acme/second: " in text


def test_the_parts_of_a_repository_are_held_against_it_too(child):
    card(child, "acme/base", "quantized")
    for file in (WEIGHTS, "config.json"):
        for name in ("first", "second"):
            (child / name).mkdir(exist_ok=True)
            (child / name / file).write_bytes((child / file).read_bytes())
        (child / file).unlink()
    assert report(child).notes == (f"README.md declares the relation quantized, but {NOT_QUANTIZED}",)
    spoil(child / "second", lambda tensors: tensors.update({"x": torch.zeros(2, 2, dtype=torch.float8_e4m3fn)}))
    assert report(child).notes == ()
