"""The hook, run by pre-commit itself in a model repository, in this environment, which nobody has to download."""

import os
import subprocess
import sys
import sysconfig

import pytest
import yaml

from tests.github import ROOT, installed
from tests.invoking import environment
from tests.models import family, tiny_llama

MANIFEST = ".pre-commit-hooks.yaml"


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A copy of the hook as a repository of its own, and a Python on the path that finds this project."""
    (hook,) = yaml.safe_load((ROOT / MANIFEST).read_text("utf-8"))
    source = tmp_path / "source"
    source.mkdir()
    (source / MANIFEST).write_text(yaml.safe_dump([hook | {"language": "system", "args": ["--local-hub", "../.."]}]))
    committed(source)
    installed(tmp_path / "venv")
    return tmp_path


def committed(folder, message="x"):
    identity = ("-c", "user.name=wren", "-c", "user.email=wren@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", message)):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


def hook(room, model, *arguments):
    committed(model)
    scripts = sysconfig.get_path("scripts", vars={"base": str(room / "venv")})
    settings = {"PRE_COMMIT_HOME": str(room / "cache"), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pre_commit", "try-repo", room / "source", "hf-lineage", "--color", "never"]
    done = subprocess.run(
        [*command, "--hook-stage", "pre-push", *arguments], cwd=model, env=environment(**settings),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.fixture
def model(room):
    """A model that declares a base of the local hub that it is in."""
    return family(room / "hub") / "fern/child"


def test_a_false_claim_stops_the_push_and_says_why(room, model):
    tiny_llama(room / "hub/acme/base", seed=1)
    code, output = hook(room, model, "--all-files")
    assert code == 1
    assert "- exit code: 1" in output
    assert "UNRELATED" in output


@pytest.mark.long
def test_what_the_repository_accepts_passes(room, model):
    tiny_llama(room / "hub/acme/base", seed=1)
    accepted = "{base: acme/base, code: unrelated, reason: distilled, expires: 2999-01-01}"
    (model / "lineage.yaml").write_text(f"accepted: [{accepted}]")
    assert hook(room, model, "--files", "lineage.yaml")[0] == 0


def test_files_that_say_nothing_of_lineage_are_let_pass(room, model):
    (model / "notes.txt").write_text("x")
    code, output = hook(room, model, "--files", "notes.txt")
    assert code == 0
    assert "(no files to check)Skipped" in output
