"""What the runner of GitHub gives to a step of the action, and what comes back, in this process."""

import json
import subprocess

import pytest

from hf_lineage import action
from tests.cli.test_pre_commit import committed
from tests.github import commands, outputs


@pytest.fixture
def room(tmp_path, monkeypatch):
    """What the runner gives to every step, and a place to look at what comes back."""
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    for name in ("OUTPUT", "STEP_SUMMARY"):
        monkeypatch.setenv(f"GITHUB_{name}", str(tmp_path / name))
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def step(room, monkeypatch, capsys):
    """Run a command of the action on these inputs: exit status, outputs, commands heard."""

    def run(command="check", **inputs):
        (room / "OUTPUT").write_text("")
        with monkeypatch.context() as patched:
            for name, value in inputs.items():
                patched.setenv(f"LINEAGE_{name.upper()}", str(value))
            code = action.main([command])
        return code, outputs((room / "OUTPUT").read_text("utf-8")), commands(capsys.readouterr().out)

    return run


REPOSITORY, FORK = {"id": 1}, {"id": 2}


def commit(folder, **files):
    """Write files, commit everything in the folder, and return the commit."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8", newline="")
    committed(folder)
    return git(folder, "rev-parse", "HEAD")


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def started(room, name, sha, told=None, ref="refs/heads/main"):
    """The environment of a step whose workflow an event started; the repository has the number 1."""
    file = room / "event.json"
    file.write_text(json.dumps({} if told is None else told))
    return {
        "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(file), "GITHUB_SHA": sha, "GITHUB_REF": ref,
        "GITHUB_REPOSITORY_ID": "1",
    }  # fmt: skip


def request(head, base=REPOSITORY, sha="0" * 40):
    """What the event of a pull request tells of both sides."""
    return {"pull_request": {"head": {"repo": head, "sha": sha}, "base": {"repo": base}}}
