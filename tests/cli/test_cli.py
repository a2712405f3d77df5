import json
import os
import re
import resource
import secrets
from pathlib import Path

import pytest

from hf_lineage import cli
from tests.invoking import check, lineage
from tests.models import WEIGHTS
from tests.server.client import connect_to_nothing

RAISE_IT = "raise the limit on the size of files (ulimit -f)"


@pytest.mark.parametrize(("options", "message"), [
    ("--nose", "No such option '--nose'"),
    ("--format xml", "Invalid value for '--format': 'xml' is not one of 'text', 'json', 'markdown'"),
    ("--alpha nan", "alpha must lie between 1e-06 and 0.5, not nan"),
    ("--alpha low", "Invalid value for '--alpha': 'low' is not a number"),
    ("--seed 0x1", "Invalid value for '--seed': '0x1' is not a whole number"),
    ("--seed -1", "seed must lie between 0 and 1.844674e+19, not -1"),
    ("--paths=", "or some of mlp, mlp_gate, value_output, query_key, each once, not "),
    ("--paths mlp,nose", "each once, not mlp, nose"),
    ("--null /no/such", "/no/such is neither a folder nor a Hub name such as org/model or org/model@revision"),
    ("--local-hub /no/such", "/no/such is not a folder, so it cannot be a local hub; check --local-hub"),
    ("-o /no/such/report", "there is no folder '/no/such' that can be written to; make it first"),
    ("-o /", "Invalid value for '-o' / '--output': '/' is a folder; name a file in it"),
    ("--output=", "'.' is a folder; name a file in it"),
    ("-o json=/", "'/' is a folder; name a file in it"),
    ("-o json=", "'json=' is not FORMAT=FILE; the formats are text, json, "),
    ("-o =x.json", "'=x.json' is not FORMAT=FILE"),
    ("-o xml=x.xml", "'xml=x.xml' is not FORMAT=FILE"),
    ("-o json=gone/x.json", "there is no folder 'gone' that can be written to; make it first"),
    ("HF_LINEAGE_MAX_MEMORY=lots", "of memory lots is not a size; write a size such as 8GiB or 500MB"),
    ("HF_LINEAGE_MAX_MEMORY=nanGB", "the limit of memory nanGB is not a size"),
    ("HF_LINEAGE_MAX_MEMORY=1KB", "one layer needs 0 MiB and no device has that much; raise HF_LINEAGE_MAX_MEM"),
])  # fmt: skip
def test_an_option_out_of_range_is_one_line_and_of_a_file_before_anything_is_read(hub, monkeypatch, options, message):
    if options.startswith("HF_"):
        monkeypatch.setenv(*options.split("="))
        options = ""
    model = "no/such-model" if options.startswith("-o") else "fern/child"
    assert message in lineage("check", model, "--local-hub", hub, *options.split()).error


@pytest.mark.parametrize("typed", ["check", "compare a", "extract", "inspect", "nose", "check --base"])
def test_wrong_usage_is_one_line_that_names_the_help_and_no_command_shows_it(typed):
    assert lineage(*typed.split()).error.endswith("(--help shows the usage)")
    outcome = lineage()
    assert (outcome.code, outcome.out, outcome.err.startswith("Usage: hf-lineage ")) == (2, "", True)


@pytest.mark.parametrize(("arguments", "exit_code", "code", "remedy"), [
    ("--nose", 2, "usage", ""),
    ("./none", 2, "no-model", ""),
    ("acme/none", 4, "network", "check the connection and try again"),
    ("./acme/base --paths nose", 2, "option", ""),
    ("./fern/child", 2, "damaged", "put the weights there"),
])  # fmt: skip
def test_an_error_is_json_where_that_is_the_format(hub, monkeypatch, arguments, exit_code, code, remedy):
    connect_to_nothing(hub / "cache", monkeypatch)
    monkeypatch.chdir(hub)
    (hub / "fern/child" / WEIGHTS).write_bytes(b"damaged")
    for form in (["--format", "json"], ["--format=json"]):
        shown = lineage("check", *arguments.split(), *form)
        error = json.loads(shown.out)["error"]
        assert (shown.code, error["code"], error["remedy"]) == (exit_code, code, remedy)
        assert shown.err == f"hf-lineage: {'; '.join(filter(None, (error['message'], error['remedy'])))}\n"


@pytest.mark.parametrize("typed", ["check {} -o link/a", "check {} -o json=link/a", "extract {} -o link/a",
                                   "index add {} --index link", "index add {} --index link/index"])  # fmt: skip
def test_a_link_of_the_working_directory_on_the_way_is_refused(hub, tmp_path, monkeypatch, typed):
    (tmp_path / "outside").mkdir()
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout/link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path / "checkout")
    outcome = lineage(*typed.format("fern/child").split(), "--local-hub", hub)
    assert "/checkout/link' is a link and is not followed; name the place that it leads to" in outcome.error
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.fixture
def limit_files():
    """A function that limits the size of files in bytes, or lets them be as large as before."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=before):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))

    yield limit
    limit()


def test_a_report_that_cannot_be_written_leaves_nothing_behind_and_the_old_one_alone(hub, monkeypatch, limit_files):
    link, token_hex = hub / "link", secrets.token_hex
    link.symlink_to(os.devnull)
    assert (check(hub, "-o", os.devnull).code, check(hub, "-o", link).code) == (0, 0)
    assert (Path(os.devnull).is_char_device(), link.is_symlink()) == (True, False)
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda path, mode: False)  # root may write whatever the mode is
        outcome = lineage("extract", "/no/such/model", "-o", hub / "model.sig")
        assert f"there is no folder {str(hub)!r} that can be written to; make it first" in outcome.error
    monkeypatch.setattr(
        "hf_lineage.files.atomic.secrets.token_hex", lambda size: (limit_files(100), token_hex(size))[1]
    )
    error = check(hub, "-o", hub / "report").error
    limit_files()
    assert error == f"{hub}/report cannot be written: File too large; {RAISE_IT}"
    assert sorted(file.name for file in hub.iterdir()) == ["acme", "fern", "link"]
    (hub / "report").write_text("old")
    (hub / "fern/child/config.json").write_text("{")
    assert check(hub, "-o", hub / "report").error
    assert (hub / "report").read_text() == "old"


def test_a_limit_on_files_is_named_where_it_stops_reading(hub, limit_files):
    """Of the header of a file a copy is made that is as large as the file."""
    assert lineage("extract", hub / "acme/base", "-o", hub / "signature").code == 0
    limit_files(100)
    model, base = lineage("check", hub / "fern/child"), lineage("compare", hub / "signature", hub / "fern/child")
    limit_files()
    assert model.error == f"{hub / 'fern/child' / WEIGHTS} cannot be read: File too large; {RAISE_IT}"
    assert base.error == f"{hub}/signature cannot be read as a signature: [Errno 27] File too large; {RAISE_IT}"


def usages(*words):
    """The words of every example in the help of a command, without the name of the program."""
    text = lineage(*words, "--help").out
    return [usage.split() for usage in re.findall(r"(?m)^    hf-lineage (.+)$", text.partition("Examples:\n")[2])]


@pytest.mark.parametrize("name", ["", *cli.cli.commands])
def test_every_command_says_its_exit_codes_and_shows_several_ways_to_call_it(name, tmp_path, monkeypatch):
    (tmp_path / "index").mkdir()
    (tmp_path / "models.txt").touch()  # a list of models, which an example reads
    monkeypatch.chdir(tmp_path)
    assert not name or "Exit codes: 0 " in cli.cli.commands[name].epilog
    assert len(usages(*name.split())) > 1
    for command, *arguments in usages(*name.split()):
        assert command == name or not name
        cli.cli.commands[command].make_context(command, arguments)
    for inner, command in cli.cli.commands["index"].commands.items() if name == "index" else ():
        own = [usage[2:] for usage in usages("index", inner) if usage[:2] == ["index", inner]]
        assert [command.make_context(inner, arguments) for arguments in own]
