"""As an extension of `hf`: installed and run by the real command line, of which only GitHub and `uv` are ours."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import extensions
from tests.invoking import environment
from tests.server import serving
from tests.server.client import QUIET

ROOT = Path(__file__).parents[2]
HF = Path(sys.executable).with_name("hf")
EXAMPLES = ROOT / "examples/hub"


def run(home, *command, **changes):
    settings = environment(HOME=str(home), **dict.fromkeys(QUIET, "1")) | changes
    return subprocess.run([*map(str, command)], cwd=home, env=settings, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home of somebody who has installed it."""
    folder = tmp_path_factory.mktemp("home")
    uv = folder / "bin/uv"
    uv.parent.mkdir()
    uv.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{extensions.__file__}" uv "$@"\n')
    uv.chmod(uv.stat().st_mode | stat.S_IXUSR)
    path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
    done = run(folder, sys.executable, extensions.__file__, "extensions", "install", "acme/hf-lineage", PATH=path)
    assert done.returncode == 0, done
    assert "Python extension installed" in done.stdout
    return folder


def test_it_is_among_the_commands_with_its_description(home):
    listed = " ".join(run(home, HF, "--help").stdout.split())
    assert "lineage" in listed
    assert "Tell from weights alone whether a model" in listed
    assert run(home, HF, "lineage", "--help").stdout.startswith("Usage: hf-lineage ")


def test_a_check_runs_in_its_own_environment_and_passes_its_code_on(home):
    done = run(home, HF, "lineage", "check", "magpie/llama-liar", "--local-hub", EXAMPLES, "--set", "permutations=99")
    assert done.returncode == 1, done
    assert "UNRELATED" in done.stdout
    script = home / ".local/share/hf/extensions/hf-lineage/venv/bin/hf-lineage"
    assert script.is_file()
    python = script.with_name("python")
    where = run(home, python, "-c", "import hf_lineage; print(hf_lineage.__file__)").stdout
    assert where.startswith(str(home.resolve()))


def test_the_token_that_hf_stored_is_read_by_us(home):
    token = home / ".cache/huggingface/token"
    token.parent.mkdir(parents=True)
    token.write_text("hf_stored")
    with serving() as hub:
        for name in ("acme/llama-base", "fern/llama-finetune-a"):
            hub.publish(name, EXAMPLES / name)
        online = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        done = run(home, HF, "lineage", "check", "fern/llama-finetune-a", "--set", "permutations=99", **online)
    assert done.returncode == 0, done
    assert "RELATED" in done.stdout
    assert "Bearer hf_stored" in hub.tokens
