"""Bad input of every command: one clear line, exit code 2 (4 of the network), and nothing half-written."""

import shutil

import pytest

from tests.invoking import lineage
from tests.models import EXAMPLES, WEIGHTS
from tests.server.client import connect_to_nothing

BASE, CHILD = EXAMPLES.resolve() / "acme/llama-base", EXAMPLES.resolve() / "fern/llama-finetune-a"
READING = (
    ("identify", "{}"), ("index", "add", "{}"), ("inspect", "{}"), ("extract", "{}"),
    ("annotate", "{}", "--base", str(BASE)), ("compare", str(BASE), "{}"),
)  # fmt: skip
"""Commands that read a model, which stands in place of the braces."""
ASKING = (
    ("check", "org/model"), ("annotate", "org/model"), ("extract", "org/model"), ("compare", str(BASE), "org/model"),
    ("identify", "org/model"), ("identify", str(BASE), "--index", "org/index"), ("tree", "--author", "org"),
    ("tree", "--index", "org/index"), ("index", "add", "org/model"), ("index", "list", "--index", "org/index"),
)  # fmt: skip
"""Commands that ask the Hub."""


def words(command):
    """A command as the name of its test."""
    return " ".join(command).replace(f"{EXAMPLES.resolve()}/", "")


NAME = "a\nb\x1b[31mc"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory and an index of its own; nothing is asked of the Hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LINEAGE_INDEX", str(tmp_path / "index"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def refused(*arguments, code=2):
    """What is said, of which there is one line that can be printed."""
    shown = lineage(*arguments)
    assert (shown.code, shown.out) == (code, "")
    assert shown.err.endswith("\n")
    assert shown.err[:-1].isprintable()
    return shown.err


@pytest.mark.parametrize("command", READING, ids=words)
def test_an_empty_folder_is_no_model(place, command):
    (place / "empty").mkdir()
    assert "empty has no config.json" in refused(*(word.format("./empty") for word in command))
    assert [*(place / "empty").iterdir()] == []


@pytest.mark.parametrize("command", READING, ids=words)
def test_a_truncated_file_is_named(place, command):
    shutil.copytree(BASE, place / "cut")
    (place / "cut" / WEIGHTS).write_bytes((BASE / WEIGHTS).read_bytes()[:5000])
    assert f"{WEIGHTS}: the header claims 5944 bytes in a file of 5000" in refused(
        *(word.format("./cut") for word in command)
    )
    assert sorted(file.name for file in place.iterdir()) == ["cut"]


@pytest.mark.parametrize(
    "command",
    [
        *READING, ("check", "{}"), ("check", str(BASE), "--policy", "{}"), ("check", str(BASE), "--index", "{}"),
        ("tree", "--author", "{}"), ("tree", "--index", "{}"), ("identify", str(BASE), "--index", "{}"),
        ("index", "list", "--index", "{}"), ("index", "build", "--from", "{}"), ("registry", "{}"),
        ("check", str(BASE), "--format", "{}"), ("compare", str(BASE), str(CHILD), "-o", "{}/report.txt"),
    ],
    ids=words,
)  # fmt: skip
def test_a_name_with_line_ends_and_escapes_is_shown_on_one_line(command):
    assert r"a\nb\x1b[31mc" in refused(*(word.format(NAME) for word in command))


@pytest.mark.parametrize("command", ASKING, ids=words)
def test_where_no_request_is_allowed_that_is_said(place, command):
    shown = lineage(*command)
    assert (shown.code, "HF_HUB_OFFLINE" in shown.err + shown.out) == (2, True)
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("command", ASKING, ids=words)
def test_where_nothing_answers_that_is_said(place, monkeypatch, command):
    connect_to_nothing(place / "cache", monkeypatch)
    message = refused(*command, code=2 if command[1] == "add" else 4)  # of several models, one cannot be read
    assert "Connection refused" in message
    assert not (place / "index").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("index", "add", str(BASE), "--index", "file/index"),
        ("index", "build", "--from", "list", "--index", "file/index"),
        ("check", str(CHILD), "-o", "json=file/report.json"),
        ("tree", str(BASE), "-o", "file/tree.txt"),
        ("identify", str(BASE), "-o", "file/found.txt"),
        ("extract", str(BASE), "-o", "file/signature.safetensors"),
    ],
    ids=words,
)
def test_where_nothing_can_be_written_the_place_is_named(place, command):
    (place / "file").write_text("", encoding="utf-8")
    (place / "list").write_text(f"{BASE}\n", encoding="utf-8")
    message = refused(*command)
    assert "file" in message
    assert "[Errno" not in message
    assert "-o" not in command or "there is no folder 'file' that can be written to; make it first" in message
    assert sorted(file.name for file in place.iterdir()) == ["file", "list"]


def test_only_who_checks_a_folder_is_told_of_its_own_policy():
    assert "or `own` for lineage.yaml" in refused("check", BASE, "--policy", "absent.yaml")
