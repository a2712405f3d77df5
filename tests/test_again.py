"""A second run changes nothing, for it draws nothing anew; without the Hub nothing that was verified is taken back."""

import json
import shutil

import pytest

from hf_lineage.evidence.inherited import MOST
from tests import models
from tests.invoking import lineage
from tests.models import card, fine_tuned, tiny_llama

LAYERS = 12
RECORD = "fern/child/lineage/claims.json"


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """A local hub of models of many layers, with more units in a layer than are looked up."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(models, "HIDDEN", 2 * MOST)
    base = tiny_llama(tmp_path / "acme/base", layers=LAYERS)
    card(fine_tuned(base, tmp_path / "fern/child", noise=0.6), "acme/base", "finetune")
    return tmp_path


def annotate(hub):
    return lineage("annotate", "fern/child", "--local-hub", hub, "--write")


def files(hub):
    return {file: (hub / "fern/child" / file).read_bytes() for file in ("README.md", "lineage/claims.json")}


def test_a_card_is_written_from_all_layers_and_again_without_a_change(deep):
    assert annotate(deep).code == 0
    before = files(deep)
    assert json.loads(before["lineage/claims.json"])["claims"][0]["paths"][0]["layers_read"] == LAYERS
    assert annotate(deep).out == "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n"
    assert files(deep) == before


@pytest.mark.parametrize("change", [{"score": -0.99}, {"verdict": "UNRELATED"}, {"command": "rm -rf /"}])
@pytest.mark.few(1)
def test_what_another_check_would_not_say_is_written_anew(deep, change):
    annotate(deep)
    before = files(deep)
    kept = json.loads((deep / RECORD).read_text("utf-8"))
    kept["claims"][0].update(change)
    (deep / RECORD).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    assert "Wrote lineage/claims.json" in annotate(deep).out
    assert files(deep) == before


def test_a_number_that_differs_as_between_machines_changes_nothing(deep):
    annotate(deep)
    kept = json.loads((deep / RECORD).read_text("utf-8"))
    kept["claims"][0]["score"] *= 1.0001
    (deep / RECORD).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    assert annotate(deep).out.endswith("Already up to date; nothing was written.\n")


def test_a_section_that_calls_verified_what_is_not_loses_its_word(deep):
    new = tiny_llama(deep / "acme/new", layers=LAYERS, seed=5)
    tensors = models.load_file(deep / "acme/base" / models.WEIGHTS)
    models.spoil(new, lambda own: own.update({"model.embed_tokens.weight": tensors["model.embed_tokens.weight"]}))
    grafted = {name: value for name, value in tensors.items() if ".layers.3." in name}
    card(new, "acme/base", "finetune")
    models.spoil(new, lambda own: own.update(grafted))
    section = "<!-- hf-lineage:begin -->\n| acme/base | finetune | VERIFIED inherited |\n<!-- hf-lineage:end -->\n"
    with (new / "README.md").open("a") as file:
        file.write(section)
    result = lineage("annotate", "acme/new", "--local-hub", deep, "--write", "--budget", "full")
    assert result.out.splitlines()[0] == "acme/base: RELATED part"
    written = (new / "README.md").read_text("utf-8")
    assert "RELATED part" in written
    assert "VERIFIED inherited" not in written
    (claim,) = json.loads((new / "lineage/claims.json").read_text("utf-8"))["claims"]
    assert (claim["verified"], claim["code"], claim["exit_code"]) == (False, "part", 3)


@pytest.fixture
def annotated(hub):
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write").code == 0
    return hub


def test_a_verified_base_that_cannot_be_read_for_want_of_the_hub_stays_verified(annotated):
    before = files(annotated)
    shutil.rmtree(annotated / "acme/base")
    refused = lineage("annotate", "fern/child", "--local-hub", annotated, "--write")
    assert (refused.code, files(annotated)) == (2, before)
    assert (
        "acme/base was verified before (lineage/claims.json records it), but cannot be read now because HF_HUB_OFFLINE"
        in refused.error
    )
    (annotated / RECORD).unlink()
    assert annotate(annotated).code == 0
    assert b"UNDECIDED" in files(annotated)["README.md"]


def test_a_verified_base_that_the_hub_does_not_have_any_more_is_written_down(annotated, monkeypatch):
    shutil.rmtree(annotated / "acme/base")
    monkeypatch.setattr("hf_lineage.hub.client.offline", lambda: False)
    assert lineage("annotate", "fern/child", "--local-hub", annotated, "--write").code == 0
    assert b"UNDECIDED" in files(annotated)["README.md"]
