"""The base of an adapter among known models: groups of near ones are tested once each, the declared base first."""

from dataclasses import replace

import pytest

from hf_lineage import Options
from hf_lineage.errors import RepositoryError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.index.adapter_bases import FOLDER, grouped, identify_adapters, located
from hf_lineage.index.store import Catalogue, entry_of
from hf_lineage.source.contents import find_adapters
from tests.index.conftest import KNOWN
from tests.models import EXAMPLES

OPTIONS = Options(local_hub=EXAMPLES, paths=("mlp",), permutations=99, seed=0)
FAMILY = {name for name in KNOWN if name.startswith(("acme/llama", "fern/llama", "moss"))}
LORA = "fern/llama-lora"


def asked(name=LORA, most=5, options=OPTIONS, catalogue=None):
    source = RepoRef(name, EXAMPLES / name)
    (found,) = identify_adapters(source, find_adapters(source), catalogue, options, most)
    return found


def test_near_relatives_are_one_group_and_each_model_is_in_one(catalogue):
    groups, fitting, left = grouped(catalogue.shards(), 10)
    held = [one.model for group in groups for one in (group.entry, *group.near)]
    assert sorted(held) == sorted(KNOWN)
    assert (fitting, left) == (len(KNOWN), 0)
    together = next(group for group in groups if group.entry.model == "acme/llama-base")
    assert {one.model for one in together.near} <= FAMILY
    assert len(together.near) >= 3


def test_the_base_of_an_adapter_is_found_by_its_trace(catalogue):
    result = asked(catalogue=catalogue)
    assert [one.group.entry.model for one in result.tested if one.related] == ["acme/llama-base"]
    assert result.tests == len(result.tested)
    assert result.width == (96,)
    trace = result.tested[0].verdict.trace
    assert trace.p_value * result.tests <= 0.01
    assert trace.permutations == 1999


@pytest.mark.long
def test_an_adapter_that_declares_another_base_is_given_its_own(catalogue):
    result = asked("magpie/llama-lora-liar", catalogue=catalogue)
    assert result.tested[0].group.entry.model == "acme/llama-base"
    assert [one.group.entry.model for one in result.tested if one.related] == ["otter/llama-independent"]


def test_an_adapter_that_cannot_be_tested_says_why(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/adapter_config.json").write_text('{"peft_type": "LORA"}')
    source = RepoRef("org/x", tmp_path / "x")
    (result,) = identify_adapters(source, find_adapters(source), Catalogue(tmp_path / "index"), OPTIONS, 5)
    assert result.tested == ()
    assert result.described


def test_a_model_that_is_gone_has_its_reason(signatures, tmp_path):
    catalogue = Catalogue(tmp_path)
    catalogue.add(replace(signatures["acme/llama-base"], model="/home/somebody/model"))
    (tested,) = asked(catalogue=catalogue).tested
    assert (tested.verdict.code, tested.tested, tested.left) == ("no-base", False, 1)
    assert tested.verdict.reason == FOLDER


@pytest.mark.parametrize("name", ["./acme/llama-base", "acme/llama-base", "llama-base", "/data/base"])
def test_a_folder_that_an_index_names_is_never_opened_nor_asked_of_the_hub(name, signatures, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr("hf_lineage.hub.client.snapshot", lambda *_: pytest.fail("the Hub was asked"))
    entry = replace(entry_of(signatures["acme/llama-base"], "mlp"), model=name)
    with pytest.raises(RepositoryError, match="hf-lineage never opens folders that an index names"):
        located(entry, None)


def test_a_model_of_the_hub_stands_for_its_group_before_a_folder(signatures, tmp_path):
    catalogue = Catalogue(tmp_path)
    for name, commit in (("./a", None), ("z/base", "c0ffee" * 6 + "c0de")):
        catalogue.add(replace(signatures["acme/llama-base"], model=name, commit=commit))
    (group,), _, _ = grouped(catalogue.shards(), 10)
    assert group.entry.model == "z/base"
