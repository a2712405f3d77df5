"""Adapters of a repository that holds no model: rows and notes of all, whether they are checked or compared."""

import json
import shutil
from pathlib import Path

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.contents.adapters import ADAPTERS
from hf_lineage.checking.judge import claims
from hf_lineage.hub.reference import ADAPTER_CONFIG, RepoRef, resolve

HUB = Path("examples/hub")
LORA, BASE = HUB / "fern/llama-lora", "acme/llama-base"
OPTIONS = Options(local_hub=HUB, order_seed=0)


@pytest.fixture
def several(tmp_path):
    """Three states of one training run, and an adapter that is none of them."""
    for name in ("checkpoint-1", "checkpoint-2", "checkpoint-3", "final"):
        shutil.copytree(LORA, tmp_path / name)
    return RepoRef("fern/several", tmp_path)


def seen(report):
    return [(row.part, row.verdict.name) for row in report.rows], report.notes


def test_the_last_state_is_judged_on_what_the_folders_declare_and_the_others_are_told(several):
    rows = [("final", "RELATED"), ("checkpoint-3", "RELATED")]
    notes = ("2 earlier states of training, such as checkpoint-2, were not judged",)
    assert seen(check(several.folder, options=OPTIONS)) == (rows, notes)
    assert seen(compare(BASE, several.folder, OPTIONS)) == (rows, notes)


def test_the_folders_that_declare_are_those_of_the_adapters_that_are_judged(several):
    found = ADAPTERS.find(several)
    assert [folder.subfolder for folder in ADAPTERS.folders(found)] == ["final", "checkpoint-3"]
    assert ADAPTERS.folders(ADAPTERS.find(RepoRef("fern/lora", LORA))) == ()


def test_a_relation_that_is_none_of_an_adapter_is_told(tmp_path):
    folder = shutil.copytree(LORA, tmp_path / "lora")
    (folder / "README.md").write_text(f"---\nbase_model: {BASE}\nbase_model_relation: finetune\n---\n")
    (note,) = check(folder, options=OPTIONS).notes
    assert note == "README.md declares the relation finetune, but the repository holds only an adapter"


def test_a_model_beside_a_configuration_of_peft_holds_none(several, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    assert (tmp_path / "final" / ADAPTER_CONFIG).exists()
    assert ADAPTERS.find(several) is None


def test_the_base_of_several_adapters_is_looked_for_once(several, monkeypatch):
    asked = []

    def noted(name, *rest, **more):
        asked.append(name)
        return resolve(name, *rest, **more)

    monkeypatch.setattr(claims, "resolve", noted)
    check(several.folder, options=OPTIONS)
    assert asked == [BASE]
