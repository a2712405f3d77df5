"""The commands about one model: where extract writes, what inspect prints, and what they refuse."""

import json

import pytest

from hf_lineage.signature.store import load_signature
from tests.invoking import lineage

MODEL = "acme/base"


@pytest.fixture
def here(hub, tmp_path, monkeypatch):
    """An empty working directory beside the local hub."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def files(folder):
    return sorted(file.name for file in folder.iterdir())


class TestExtract:
    def test_the_file_is_called_after_the_model_and_its_name_is_printed(self, hub, here):
        found = lineage("extract", MODEL, "--local-hub", hub)
        assert (found.code, found.out, found.err) == (0, "base.lineage.safetensors\n", "")
        assert files(here) == ["base.lineage.safetensors"]
        assert load_signature(here / "base.lineage.safetensors").model == MODEL

    def test_a_folder_gives_it_its_own_name_wherever_one_stands(self, hub, here, monkeypatch):
        monkeypatch.chdir(hub / MODEL)
        assert lineage("extract", ".").out == "base.lineage.safetensors\n"

    def test_a_failure_leaves_no_file(self, hub, here):
        assert "each once, not nose" in lineage("extract", MODEL, "--local-hub", hub, "--paths", "nose").error
        assert "no/model" in lineage("extract", "no/model", "--local-hub", hub).error
        assert files(here) == []


class TestInspect:
    def test_text_and_json_are_about_the_same_model(self, hub, tmp_path):
        text = lineage("inspect", MODEL, "--local-hub", hub)
        assert text.out.startswith(f"{MODEL}: LlamaForCausalLM, factorization llama, 2 layers, width 32, 4 heads")
        lineage("inspect", MODEL, "--local-hub", hub, "--format", "json", "-o", tmp_path / "x.json")
        found = json.loads((tmp_path / "x.json").read_text())
        assert (found["model"], found["layers"], found["width"]) == (MODEL, 2, 32)

    def test_a_signature_has_no_weights_to_look_at(self, hub, here):
        lineage("extract", MODEL, "--local-hub", hub)
        assert "is a signature and holds no weights" in lineage("inspect", "./base.lineage.safetensors").error


def test_a_card_goes_to_one_place():
    refused = lineage("annotate", "no/such-model", "--write", "--pull-request")
    assert "give --write or --pull-request, not both" in refused.error
