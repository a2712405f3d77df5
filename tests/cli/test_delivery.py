"""Where a report goes, and where a name is one on the Hub though a folder bears it."""

import json

import pytest

from tests.models import WEIGHTS
from tests.running import check, lineage


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


@pytest.mark.parametrize("command", ["check", "annotate"])
def test_on_the_hub_no_folder_is_meant(hub, monkeypatch, command):
    monkeypatch.chdir(hub)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert lineage(command, "fern/child", "--base", "./acme/base").code == 0
    assert "HF_HUB_OFFLINE" in lineage(command, "fern/child", "--base", "./acme/base", "--on-hub").error
