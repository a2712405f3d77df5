"""Where a report goes, and where a name is one on the Hub though a folder bears it."""

import json

import pytest

from tests.invoking import check, lineage
from tests.models import WEIGHTS


def test_a_format_that_has_nothing_to_say_is_left_out_with_a_line(hub, tmp_path):
    (hub / "fern/child" / WEIGHTS).unlink()
    files = {form: tmp_path / f"report.{form}" for form in ("intoto", "json")}
    outcome = check(hub, *(f"--report={form}={file}" for form, file in files.items()))
    assert (outcome.code, outcome.rows[0][-1]) == (3, "UNVERIFIABLE")
    assert outcome.err.startswith("hf-lineage: report.intoto was not written: ")
    assert [form for form, file in files.items() if file.exists()] == ["json"]


def test_annotate_writes_the_reports_of_its_check_as_well(hub, tmp_path):
    outcome = lineage("annotate", "fern/child", "--local-hub", hub, f"--report=json={tmp_path / 'report.json'}")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("acme/base: RELATED\n")
    assert json.loads((tmp_path / "report.json").read_text())["claims"][0]["verified"]


def test_a_folder_is_shown_under_the_name_that_the_user_gives_it(hub, monkeypatch):
    monkeypatch.chdir(hub)
    folder = hub / "fern/child"
    outcome = lineage("check", folder, "--local-hub", hub, "--as-name", "fern/public", "--format", "markdown")
    assert outcome.out.startswith("### Lineage of fern/public\n")
    assert "folder this name; nobody has checked it. Again: <code>hf-lineage check fern/public " in outcome.out
    assert str(hub) not in outcome.out
    told = json.loads(lineage("compare", hub / "acme/base", folder, "--as-name", "fern/public", "--format", "json").out)
    assert (told["model"], told["as_name"]) == (str(folder), "fern/public")
    assert told["command"].startswith("hf-lineage compare ./acme/base fern/public")


@pytest.mark.parametrize("name", ["public", "./fern/public", "a/b@main", "a b/c", "https://huggingface.co/a/b"])
def test_what_is_no_name_on_the_hub_is_no_public_name(hub, name):
    assert "is not org/name" in lineage("check", hub / "fern/child", "--as-name", name).error


def test_a_model_that_has_a_name_is_given_no_other(hub):
    error = lineage("check", "fern/child", "--local-hub", hub, "--as-name", "fern/public").error
    assert "--as-name is for a folder, and fern/child is not one; leave it out" in error


@pytest.mark.parametrize("command", ["check", "annotate"])
def test_on_the_hub_no_folder_is_meant(hub, monkeypatch, command):
    monkeypatch.chdir(hub)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert lineage(command, "./fern/child", "--base", "./acme/base").code == 0
    assert "HF_HUB_OFFLINE" in lineage(command, "fern/child", "--base", "./acme/base", "--on-hub").error
