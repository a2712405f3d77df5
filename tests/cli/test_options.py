"""-q: nothing but errors is printed, the exit code tells, and files are written as ever."""

import json
import logging

import click
import pytest
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars

from hf_lineage import check
from hf_lineage.cli import cli
from hf_lineage.cli.index import progress
from hf_lineage.options import SETTINGS
from tests.invoking import Outcome, lineage
from tests.models import EXAMPLES

RELATED, UNRELATED = EXAMPLES / "fern/llama-finetune-a", EXAMPLES / "otter/llama-independent"
BASE = EXAMPLES / "acme/llama-base"


def test_what_is_quiet_writes_files_and_errors_and_keeps_warnings_back(monkeypatch, caplog, tmp_path):
    file = tmp_path / "a=b.json"  # an equals sign in the name of a file belongs to it
    assert lineage("compare", BASE, RELATED, "-q", "-o", f"json={file}") == Outcome(0, "", "")
    assert json.loads(file.read_text("utf-8"))["code"] == "inherited"
    assert "gone is neither a folder nor a Hub name" in lineage("check", tmp_path / "gone", "-q").error

    def warn_and_check(*arguments, **named):
        logging.getLogger("hf_lineage").warning("something happened")
        return check(*arguments, **named)

    monkeypatch.setattr("hf_lineage.checking.check.check", warn_and_check)
    for quiet, warnings in ((["-q"], []), ([], ["something happened"])):
        assert (lineage("check", RELATED, "--base", BASE, *quiet).code, caplog.messages) == (0, warnings)


@pytest.mark.long
def test_what_a_command_finds_is_told_by_its_exit_code_and_the_next_one_prints_again(tmp_path):
    there = ("--index", tmp_path / "index")
    for words, code in (
        (("check", RELATED, "--base", BASE), 0), (("check", UNRELATED, "--base", BASE), 1),
        (("extract", RELATED, "-o", tmp_path / "stored"), 0), (("tree", BASE, RELATED), 0), (("registry",), 0),
        (("index", "add", RELATED, *there), 0), (("index", "list", *there), 0),
        (("identify", UNRELATED, *there), 3), (("identify", BASE, *there), 0),
        (("index", "remove", RELATED, *there), 0),
    ):  # fmt: skip
        assert lineage(*words, "-q") == Outcome(code, "", ""), words
    assert (tmp_path / "stored").exists()
    assert lineage("index", "list", *there).out == "0 models\n"
    assert "is not in the index" in lineage("index", "remove", "a/b", *there, "-q").error


def test_no_progress_is_shown_meanwhile(monkeypatch):
    enable_progress_bars()  # which transformers switches off for whoever asks it to
    seen = []

    def watched(*_, **__):
        seen.append((are_progress_bars_disabled(), progress("Reading", [1])))
        raise KeyboardInterrupt

    monkeypatch.setattr("hf_lineage.index.build.every", watched)
    monkeypatch.setattr("tqdm.tqdm", lambda models, **named: named["disable"])
    assert (lineage("tree", "a/b", "-q").code, seen) == (130, [(True, True)])
    assert not are_progress_bars_disabled()


def test_every_option_is_named_once_and_what_running_a_model_needs_is_one_line(monkeypatch):
    check = cli.get_command(None, "check")
    options = [option for option in check.get_params(click.Context(check)) if isinstance(option, click.Option)]
    assert len(options) <= 21 + len(("--debug", "--quiet", "--help"))
    shown = lineage("check", "--help").out
    flags = [row.flag or f"--{name.replace('_', '-')}" for name, row in SETTINGS.items() if row.help]
    assert [flag for flag in flags if shown.count(f"  {flag}") != 1] == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    refused = lineage("check", BASE, "--run")
    assert (refused.code, "pip install 'hf-lineage[run] @ git+" in refused.error) == (2, True)
