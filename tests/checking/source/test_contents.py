"""What is in a repository is found once: a model, adapters, models in its folders, or nothing that is read."""

import json

import pytest

from hf_lineage.checking.source.contents import LORA_FILE, contents_of, declared_in
from hf_lineage.errors import NoModelError
from hf_lineage.hub.reference import ADAPTER_CONFIG, RepoRef
from hf_lineage.signature import Signature

CARD = "---\nbase_model: acme/base\n---\n"


@pytest.fixture
def repo(tmp_path):
    return RepoRef("fern/child", tmp_path)


def write(repo, *files):
    for file in files:
        repo.path(file).parent.mkdir(exist_ok=True)
        repo.path(file).write_text("{}")


def test_a_model_is_its_repository(repo):
    write(repo, "config.json", ADAPTER_CONFIG, "part/config.json")
    contents = contents_of(repo)
    assert (contents.models, contents.adapters.places, contents.submodels.models) == ((repo,), (), ())
    assert contents.repo is repo


def test_adapters_are_no_model(repo):
    write(repo, ADAPTER_CONFIG)
    contents = contents_of(repo)
    assert (contents.models, [place.part for place in contents.adapters.places]) == ((), [""])


def test_a_folder_may_hold_an_adapter_and_another_one_a_model(repo):
    write(repo, f"a/{ADAPTER_CONFIG}", "b/config.json")
    contents = contents_of(repo)
    assert [place.part for place in contents.adapters.places] == ["a"]
    assert [model.subfolder for model in contents.models] == ["b"]


def test_a_signature_is_itself_and_declares_nothing():
    signature = object.__new__(Signature)
    contents = contents_of(signature)
    assert contents.models[0] is signature
    assert contents.repo is None
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
    assert [place.file for place in contents_of(repo).adapters.places] == [LORA_FILE]
