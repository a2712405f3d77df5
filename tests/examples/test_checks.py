"""What the Space does with what strangers type: only public models of the Hub, and only so much of everything."""

import importlib.util
import os
import sys

import pytest

from tests.github import ROOT

FILE = ROOT / "examples/space/checks.py"


@pytest.fixture(scope="module")
def checks():
    sys.path.insert(0, str(FILE.parent))
    spec = importlib.util.spec_from_file_location("space_checks", FILE)
    module = sys.modules["space_checks"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(FILE.parent))
    yield module
    del sys.modules["space_checks"], sys.modules["guard"]


@pytest.fixture
def hub(online, monkeypatch, tmp_path):
    """A Hub that both the Space and the process of a check ask."""
    monkeypatch.setenv("HF_ENDPOINT", online.url)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("LINEAGE_CACHE", str(tmp_path / "kept"))
    return online


@pytest.fixture
def program(checks, monkeypatch, tmp_path):
    """Let a shell script stand for the interpreter that the checks are run with."""

    if os.name == "nt":
        pytest.skip("the Spaces of the Hub run on Linux")

    def stand_in(script):
        file = tmp_path / "program"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setattr(checks.sys, "executable", str(file))

    return stand_in


@pytest.mark.parametrize(
    "name",
    ["", "model", "/etc/passwd", "./model", "../x/y", "org/model/../..", "--help", "-o/x", "org/model@../x", "a/b\nc",
     "https://evil.example/x", "<script>alert(1)</script>", "org/" + "m" * 200, "org/mo del", "~/x"],
)  # fmt: skip
def test_only_a_name_of_the_hub_is_a_model(checks, name):
    with pytest.raises(checks.Refused):
        checks.Request.of(name, "")
    if name:
        with pytest.raises(checks.Refused):
            checks.Request.of("org/model", name)


@pytest.mark.parametrize("name", ["org/model", " org/model ", "org/model@main", f"org/model@{'a' * 40}", "0/_m.x-y"])
def test_names_with_and_without_a_revision_are_taken(checks, name):
    assert checks.Request.of(name, name) == checks.Request(name.strip(), name.strip())


def test_what_is_refused_is_shown_as_text(checks):
    assert checks.refusal(checks.Refused("<b>&")) == '<p role="alert">&lt;b&gt;&amp;</p>'


def test_a_page_in_a_frame_stays_in_it(checks):
    frame = checks.frame('"><script>window.hacked = 1</script>')
    assert frame.count("<") == 2
    assert " sandbox " in frame
    assert "&quot;&gt;&lt;script&gt;" in frame


def test_a_model_that_is_not_there_is_refused_and_no_process_is_started(checks, hub, program):
    program("touch started")
    with pytest.raises(checks.Refused, match=r"fern/gone cannot be read without an account"):
        checks.page(checks.Request("fern/gone"))


def test_a_model_of_a_local_hub_is_found_before_the_hub_is_asked(checks, hub, program, monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "LOCAL_HUB", str(ROOT / "examples/hub"))
    program(f'echo "$@" > {tmp_path}/seen; exit 2')
    with pytest.raises(checks.Refused):
        checks.page(checks.Request("fern/llama-merge-a-b"))
    assert f"--local-hub {ROOT / 'examples/hub'} -- fern/llama-merge-a-b" in (tmp_path / "seen").read_text()
    assert hub.requests == []


def test_a_model_that_is_too_large_is_refused_before_anything_is_read(checks, hub, monkeypatch):
    monkeypatch.setattr(checks, "LARGEST_MODEL", 1000)
    with pytest.raises(checks.Refused, match="is larger than what is checked here"):
        checks.page(checks.Request("acme/llama-base"))
    assert not [request for request in hub.requests if "resolve" in request]


def test_the_process_sees_no_secret_and_has_a_folder_of_its_own(checks, hub, program, monkeypatch, tmp_path):
    for name in ("HF_TOKEN", "WEBHOOK_SECRET", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "HF_LINEAGE_TRUST"):
        monkeypatch.setenv(name, "a secret")
    program(f'{{ env; pwd; ulimit -f; echo "$@"; }} > {tmp_path}/seen; for last do file=$page page=$last; done; exit 2')
    with pytest.raises(checks.Refused, match="needed more memory"):
        checks.page(checks.Request("fern/llama-finetune-a", "acme/llama-base"))
    *_, folder, blocks, command = (tmp_path / "seen").read_text().splitlines()
    assert "a secret" not in (tmp_path / "seen").read_text()
    assert not os.path.exists(folder)  # noqa: PTH110
    assert int(blocks) <= checks.LARGEST_FILE
    assert command.startswith("-I -m hf_lineage.cli check --on-hub --set max-memory=4GiB --format html")
    assert command.endswith("--base acme/llama-base -- fern/llama-finetune-a")


def test_weights_as_large_as_any_that_are_checked_have_a_file(checks, hub, program):
    """As `hf_lineage.hub.ranges` makes one; the whole of it is never written."""
    program(f'truncate -s {checks.LARGEST_MODEL} weights && echo "hf-lineage: the file is there" >&2; exit 2')
    with pytest.raises(checks.Refused, match=r"^the file is there$"):
        checks.page(checks.Request("acme/llama-base"))


def test_a_check_that_takes_too_long_is_ended(checks, hub, program, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.2)
    program("exec sleep 60")
    with pytest.raises(checks.Refused, match="took longer than"):
        checks.page(checks.Request("acme/llama-base"))


def test_what_goes_wrong_is_told_in_the_words_of_the_program(checks, hub, program):
    program('echo "some warning" >&2; echo "hf-lineage: acme/llama-base is damaged" >&2; exit 2')
    with pytest.raises(checks.Refused, match=r"^acme/llama-base is damaged$"):
        checks.page(checks.Request("acme/llama-base"))


def test_a_page_that_is_too_large_is_not_shown(checks, hub, program, monkeypatch):
    monkeypatch.setattr(checks, "LARGEST_PAGE", 3)
    program("printf '<p>long</p>' > page.html")
    with pytest.raises(checks.Refused, match="too large to be shown"):
        checks.page(checks.Request("acme/llama-base"))


def test_signatures_are_kept_until_there_are_too_many(checks, hub, program, tmp_path, monkeypatch):
    (tmp_path / "kept/signatures").mkdir(parents=True)
    for number in range(4):
        (tmp_path / f"kept/signatures/{number}").write_bytes(bytes(10))
        os.utime(tmp_path / f"kept/signatures/{number}", (number, number))
    monkeypatch.setattr(checks, "LARGEST_CACHE", 25)
    program("printf '<p>page</p>' > page.html")
    assert checks.page(checks.Request("acme/llama-base")) == "<p>page</p>"
    assert sorted(file.name for file in (tmp_path / "kept/signatures").iterdir()) == ["2", "3"]
