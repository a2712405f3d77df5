"""What is in a repository is found once: a model, adapters, or models in its folders."""

import json
import shutil
from pathlib import Path

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.adapters.adapter_repository import LORA_FILE
from hf_lineage.checking.contents.contents import contents_of, declared_in
from hf_lineage.checking.judge import claims
from hf_lineage.errors import NoModelError
from hf_lineage.hub.reference import ADAPTER_CONFIG, RepoRef, resolve
from hf_lineage.signature import Signature

HUB = Path("examples/hub")
CARD = "---\nbase_model: acme/base\n---\n"


@pytest.fixture
def repo(tmp_path):
    return RepoRef("fern/child", tmp_path)


def write(repo, *files):
    for file in files:
        repo.path(file).parent.mkdir(exist_ok=True)
        repo.path(file).write_text("{}")


def held(source):
    """The folder or file of each adapter, and the folder of each model; None for a model itself."""
    contents = contents_of(source)
    adapters = [place.file or place.part for place in contents.adapters.places] if contents.adapters else []
    return None if contents.is_model else (adapters, [model.subfolder for model in contents.folders.models])


def test_a_model_is_its_repository_whatever_lies_beside_it(repo):
    write(repo, "config.json", ADAPTER_CONFIG, "part/config.json", f"other/{ADAPTER_CONFIG}")
    assert held(repo) is None
    assert contents_of(repo).repo is repo


def test_adapters_are_no_model(repo):
    write(repo, ADAPTER_CONFIG)
    assert held(repo) == ([""], [])


def test_a_folder_may_hold_an_adapter_and_another_one_a_model(repo):
    write(repo, f"a/{ADAPTER_CONFIG}", "b/config.json")
    assert held(repo) == (["a"], ["b"])


def test_what_holds_nothing_that_is_known_is_opened_as_a_model_which_says_why_it_is_none(repo):
    assert held(repo) is None


def test_a_signature_is_itself_and_declares_nothing():
    signature = object.__new__(Signature)
    contents = contents_of(signature)
    assert (contents.repo, contents.is_model) == (None, False)
    assert declared_in(contents).claims == ()


def test_what_a_card_declares_counts_for_adapters_too(repo):
    write(repo, f"a/{ADAPTER_CONFIG}")
    repo.path("README.md").write_text(CARD)
    assert [claim.base for claim in declared_in(contents_of(repo)).claims] == ["acme/base"]


def test_without_a_card_the_folders_of_adapters_declare(repo):
    write(repo, "a/file", "b/file")
    for folder, base in (("a", "acme/one"), ("b", "acme/two")):
        repo.path(f"{folder}/{ADAPTER_CONFIG}").write_text(json.dumps({"base_model_name_or_path": base}))
    assert [claim.base for claim in declared_in(contents_of(repo)).claims] == ["acme/one", "acme/two"]


def test_a_folder_without_a_model_that_declares_nothing_is_an_error(repo):
    with pytest.raises(NoModelError, match=r"has no config\.json, so it is not a transformers model"):
        declared_in(contents_of(repo))


def test_a_file_that_diffusers_names_so_is_an_adapter_whatever_it_holds(repo):
    write(repo, LORA_FILE)
    assert held(repo) == ([LORA_FILE], [])


LORA, BASE = HUB / "fern/llama-lora", "acme/llama-base"
OPTIONS = Options(local_hub=HUB, seed=0)


@pytest.fixture
def several(tmp_path):
    """Three states of one training run, and an adapter that is none of them."""
    for name in ("checkpoint-1", "checkpoint-2", "checkpoint-3", "final"):
        shutil.copytree(LORA, tmp_path / name)
    return RepoRef("fern/several", tmp_path)


def seen(report):
    return [(row.part, row.verdict.code) for row in report.rows], report.notes


def test_the_last_state_is_judged_on_what_the_folders_declare_and_the_others_are_told(several):
    rows = [("final", "adapter"), ("checkpoint-3", "adapter")]
    notes = ("2 earlier states of training, such as checkpoint-2, were not judged",)
    assert seen(check(several.folder, options=OPTIONS)) == (rows, notes)
    assert seen(compare(BASE, several.folder, OPTIONS)) == (rows, notes)


def test_a_relation_that_is_none_of_an_adapter_is_told(tmp_path):
    folder = shutil.copytree(LORA, tmp_path / "lora")
    (folder / "README.md").write_text(f"---\nbase_model: {BASE}\nbase_model_relation: finetune\n---\n")
    (note,) = check(folder, options=OPTIONS).notes
    assert note == "README.md declares the relation finetune, but the repository holds only an adapter"


def test_a_model_beside_a_configuration_of_peft_holds_none(several, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    assert (tmp_path / "final" / ADAPTER_CONFIG).exists()
    assert contents_of(several).adapters is None


def test_the_base_of_several_adapters_is_looked_for_once(several, monkeypatch):
    asked = []

    def noted(name, *rest, **more):
        asked.append(name)
        return resolve(name, *rest, **more)

    monkeypatch.setattr(claims, "resolve", noted)
    check(several.folder, options=OPTIONS)
    assert asked == [BASE]
