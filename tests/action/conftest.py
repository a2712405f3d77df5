"""What the runner of GitHub gives to a step of the action, and what comes back, in this process."""

import pytest

from hf_lineage import action
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
