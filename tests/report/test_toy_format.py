"""The table of formats: a new one is a module and a line, and the command line knows it at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hf_lineage import __version__
from tests.invoking import Outcome, environment

ROOT = Path(__file__).parents[2]
TOY = """
def render(report, explain):
    return f"{len(report.rows)} claim, explained: {explain}\\n"
"""
WITH_TOY = """
import sys
from hf_lineage.report import FORMATS, Format
FORMATS["toy"] = Format("toy_format")
from hf_lineage.cli import main
sys.exit(main())
"""


@pytest.fixture
def with_toy(tmp_path):
    """The command line with a format that is a module of its own and a line of the table, and nothing more."""
    (tmp_path / "toy_format.py").write_text(TOY)
    env = environment(PYTHONPATH=f"{tmp_path}:{ROOT}")

    def run(*arguments):
        command = [sys.executable, "-c", WITH_TOY, *map(str, arguments)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


def test_a_format_is_a_module_and_a_line_of_the_table(hub, tmp_path, with_toy):
    files = {form: tmp_path / f"report.{form}" for form in ("toy", "json")}
    asked = [word for form, file in files.items() for word in ("-o", f"{form}={file}")]
    outcome = with_toy("check", hub / "fern/child", "--local-hub", hub, "--format", "toy", *asked)
    assert outcome == Outcome(0, "1 claim, explained: False\n", "")
    assert files["toy"].read_text() == "1 claim, explained: True\n"
    assert json.loads(files["json"].read_text())["tool"] == {"name": "hf-lineage", "version": __version__}
