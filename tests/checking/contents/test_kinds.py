"""What is in a repository is found once: a model, adapters, models in its folders, or what another kind adds."""

import json
import shutil
from pathlib import Path

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.adapters.adapter_repository import LORA_FILE
from hf_lineage.checking.contents import kinds
from hf_lineage.checking.contents.kind import ContentKind, Judged
from hf_lineage.checking.contents.kinds import contents_of, declared_in
from hf_lineage.checking.results.claim_result import Row
from hf_lineage.errors import NoModelError
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.hub.reference import ADAPTER_CONFIG, RepoRef
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
    """What was found of each kind, by its name."""
    return {kind.name: found for kind, found in contents_of(source).held}


def test_a_model_is_its_repository_whatever_lies_beside_it(repo):
    write(repo, "config.json", ADAPTER_CONFIG, "part/config.json", f"other/{ADAPTER_CONFIG}")
    assert held(repo) == {"model": repo}
    assert contents_of(repo).repo is repo


def test_adapters_are_no_model(repo):
    write(repo, ADAPTER_CONFIG)
    (adapters,) = held(repo).values()
    assert [place.part for place in adapters.places] == [""]


def test_a_folder_may_hold_an_adapter_and_another_one_a_model(repo):
    write(repo, f"a/{ADAPTER_CONFIG}", "b/config.json")
    found = held(repo)
    assert list(found) == ["LoRA adapters", "models in folders"]
    assert [place.part for place in found["LoRA adapters"].places] == ["a"]
    assert [model.subfolder for model in found["models in folders"].models] == ["b"]


def test_what_holds_nothing_that_is_known_is_opened_as_a_model_which_says_why_it_is_none(repo):
    assert held(repo) == {"model": repo}


def test_a_signature_is_itself_and_declares_nothing():
    signature = object.__new__(Signature)
    contents = contents_of(signature)
    assert held(signature) == {"stored signature": signature}
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
    assert [place.file for place in held(repo)["LoRA adapters"].places] == [LORA_FILE]


TOY_FILE = "steering.toy"


def find_toy(source):
    return source if isinstance(source, RepoRef) and source.offers(TOY_FILE) else None


def check_toy(toy, asked):
    rows = [Row(claim, Verdict(Kind.UNVERIFIABLE, "a toy"), part=TOY_FILE) for claim in asked.declared.claims]
    return Judged(tuple(rows), (f"{toy} holds a toy",))


def compare_toy(toy, compared):
    return Judged((Row(compared.claim, Verdict(Kind.UNVERIFIABLE, f"no {compared.base}"), part=TOY_FILE),))


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Add a kind to the table, and return what copies a repository of the example hub with such a file."""

    def add(model, in_place=False):
        kind = ContentKind("toy", find_toy, check_toy, compare_toy, in_place=in_place)
        monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, kind))
        shutil.copytree(HUB, tmp_path / "hub")
        (tmp_path / "hub" / model / TOY_FILE).write_text("")
        return Options(local_hub=tmp_path / "hub", order_seed=0)

    return add


def seen(report):
    return [(row.part, row.verdict.words) for row in report.rows]


@pytest.mark.parametrize("model", ["fern/llama-finetune-a", "fern/llama-lora"])
def test_a_new_kind_is_one_value_and_one_line_of_the_table(toy, model):
    before = check(model, options=Options(local_hub=HUB, order_seed=0))
    assert seen(before)[0][1].startswith("RELATED")
    options = toy(model)
    report = check(model, options=options)
    assert seen(report) == [*seen(before), (TOY_FILE, "UNVERIFIABLE")]
    assert report.notes[-1] == f"{model} holds a toy"
    compared = compare("acme/llama-base", model, options)
    assert seen(compared) == [*seen(before), (TOY_FILE, "UNVERIFIABLE")]
    assert compared.rows[-1].verdict.reason == "no acme/llama-base"
    assert seen(check("fern/llama-finetune-b", options=options))[0][0] == ""


def test_one_that_stands_in_place_of_a_model_is_judged_alone(toy):
    options = toy("fern/llama-finetune-a", in_place=True)
    assert seen(check("fern/llama-finetune-a", options=options)) == [(TOY_FILE, "UNVERIFIABLE")]
    assert seen(check("fern/llama-finetune-b", options=options))[0][1] == "RELATED"
