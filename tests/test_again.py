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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda claim: claim.update(score=-0.99), "Wrote lineage/claims.json"),
        (lambda claim: claim.update(score=claim["score"] * 1.0001), "Already up to date; nothing was written.\n"),
        (lambda claim: claim.update(verdict="UNRELATED"), "Wrote lineage/claims.json"),
        (lambda claim: claim.update(command="rm -rf /"), "Wrote lineage/claims.json"),
    ],
)
@pytest.mark.few(2)
def test_what_another_check_would_not_say_is_written_anew_and_a_number_of_another_machine_stays(deep, change, said):
    annotate(deep)
    before = files(deep)
    kept = json.loads((deep / RECORD).read_text("utf-8"))
    change(kept["claims"][0])
    (deep / RECORD).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    changed = files(deep)
    assert said in annotate(deep).out
    assert files(deep) == (before if "Wrote" in said else changed)


def test_a_section_that_calls_verified_what_is_not_loses_its_word(deep):
    new = tiny_llama(deep / "acme/new", layers=LAYERS, seed=5)
    tensors = models.load_file(deep / "acme/base" / models.WEIGHTS)
    grafted = {name: value for name, value in tensors.items() if ".layers.3." in name or "embed_tokens" in name}
    models.spoil(card(new, "acme/base", "finetune"), lambda own: own.update(grafted))
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
    """A hub whose fern/child was annotated before its base was removed."""
    assert annotate(hub).code == 0
    shutil.rmtree(hub / "acme/base")
    return hub


def test_a_verified_base_that_cannot_be_read_for_want_of_the_hub_stays_verified(annotated):
    before = files(annotated)
    refused = annotate(annotated)
    assert (refused.code, files(annotated)) == (2, before)
    assert (
        "acme/base was verified before (lineage/claims.json records it), but cannot be read now because HF_HUB_OFFLINE"
        in refused.error
    )
    (annotated / RECORD).unlink()
    assert annotate(annotated).code == 0
    assert b"UNDECIDED" in files(annotated)["README.md"]


def test_a_verified_base_that_the_hub_does_not_have_any_more_is_written_down(annotated, monkeypatch):
    monkeypatch.setattr("hf_lineage.hub.client.offline", lambda: False)
    assert annotate(annotated).code == 0
    assert b"UNDECIDED" in files(annotated)["README.md"]
