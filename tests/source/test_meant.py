"""A base that was a folder: the report tells which folder here may be meant, and what it prints can be typed."""

import re
import shlex
import shutil
from dataclasses import replace

import pytest

from hf_lineage import check
from hf_lineage.claims.sources import Claim, Claims, read_claims
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report.command import public
from hf_lineage.source.locate import with_folders
from tests.invoking import lineage
from tests.models import EXAMPLES, card, edit_json


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a base and an adapter of it."""
    shutil.copytree(EXAMPLES / "acme/llama-base", tmp_path / "base")
    shutil.copytree(EXAMPLES / "fern/llama-lora", tmp_path / "lora")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lora/README.md").unlink()
    return tmp_path


def declares(folder, base):
    edit_json(folder / "adapter_config.json", base_model_name_or_path=base)


def added(text):
    """The option that a text prints."""
    return shlex.split(re.search(r"add `(--base [^`]+)`", text)[1])


@pytest.mark.parametrize("base", ["./base", "/data/run/base", "C:\\runs\\base", "../runs/base"])
def test_the_folder_beside_an_adapter_is_told_and_compared_as_it_is_told(here, base):
    declares(here / "lora", base)
    told = lineage("check", "./lora")
    assert (told.code, told.rows[0][-1]) == (3, "no-base")
    assert "to compare the folder ./base, add `--base ./base`" in told.sentences
    judged = lineage("check", "./lora", *added(told.sentences))
    assert (judged.code, judged.rows[0][0]) == (0, "./base")


def test_a_bare_name_is_one_on_the_hub_and_the_error_tells_of_the_folder(here, monkeypatch):
    declares(here / "lora", "base")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    error = lineage("check", "./lora").error
    assert error.startswith("base cannot be fetched from the Hub")
    assert added(error) == ["--base", "./base"]


def test_a_base_in_a_card_and_another_working_directory(here, monkeypatch):
    monkeypatch.chdir(here / "lora")
    declares(card(here / "lora", "./base"), "./base")
    told = lineage("check", ".").sentences
    assert added(told) == ["--base", "../base"]
    assert "left out" not in told


def test_without_such_a_folder_the_option_is_told(here):
    declares(here / "lora", "./gone")
    assert "not a name on the Hub; name the base with --base" in lineage("check", "./lora").sentences


def folder_of(base, model, **changes):
    claims = Claims((Claim(base, None, ("README.md",)),), ())
    return with_folders(claims, replace(RepoRef(str(model), model), **changes)).claims[0].folder


@pytest.mark.parametrize("base", ["acme/base", "..", ".", "/", "./lora", "", "x" * 5000, "a\0b", "./empty"])
def test_what_can_be_no_base_beside_the_model_is_not_told(here, base):
    (here / "empty").mkdir()
    assert folder_of(base, here / "lora") == ""


def test_a_folder_outside_and_models_on_the_hub_learn_of_nothing(here, monkeypatch):
    (here / "inner/lora").mkdir(parents=True)
    monkeypatch.chdir(here / "inner")
    assert folder_of("../base", here / "inner/lora") == ""
    assert folder_of("./base", here / "lora", remote="fern/lora", commit="c0ffee") == ""
    assert folder_of("./base", here / "lora") == "../base"


def test_a_page_does_not_tell_where_the_folder_is(here, monkeypatch):
    declares(here / "lora", "./base")
    (here / "secret").mkdir()
    for name in ("base", "lora"):
        (here / name).rename(here / "secret" / name)
    (here / "a").mkdir()
    monkeypatch.chdir(here / "a")
    report = check(here / "secret/lora")
    reasons = [one.rows[0].verdict.reason for one in (report, public(report))]
    assert ["`--base ../secret/base`" in reason for reason in reasons] == [True, False]
    assert "`--base ./base`" in reasons[1]


def test_two_files_that_declare_the_same_path_are_one_claim(here):
    declares(card(here / "lora", "./base"), "./base")
    (claim,) = read_claims(RepoRef("lora", here / "lora")).claims
    assert claim.sources == ("README.md", "adapter_config.json")
