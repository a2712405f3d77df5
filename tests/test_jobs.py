"""The job of examples/jobs: the installed client accepts it, and what it runs builds and pushes an index."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.client import remote
from tests.server.commits import Commits

ROOT = Path(__file__).parents[1]
JOBS = ROOT / "examples" / "jobs"
INDEX = "wren/index"
SCRIPTS = sorted(JOBS.glob("*.sh"))
BIN = Path(sys.executable).parent
SHELLCHECK = shutil.which("shellcheck", path=str(BIN))


def run(command, folder, **environment):
    settings = {**environment, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=120, check=False)


def test_the_client_accepts_the_job(tmp_path):
    done = run([JOBS / "build-index.sh", INDEX, "--dry-run"], tmp_path, HF_TOKEN="hf_x", HF_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for line in (
        "image    python:3.13",
        "flavor   cpu-upgrade",
        "timeout  12h",
        f"env      INDEX={INDEX}",
        "HF_TOKEN=***",
    ):
        assert line in done.stdout
    assert 'hf-lineage index push "$INDEX"' in done.stdout


def test_without_the_name_of_an_index_the_usage_is_shown(tmp_path):
    done = run([JOBS / "build-index.sh"], tmp_path)
    assert done.returncode != 0
    assert "name a repository of data on the Hub, such as org/index" in done.stderr


def test_what_the_job_runs_builds_an_index_and_goes_on_where_it_was(served, tmp_path):
    names = sorted(served.published)
    (tmp_path / "commits").mkdir()
    server = Commits(served, tmp_path / "commits").attach()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models.txt").write_text("".join(f"{name}\n" for name in names))
    served.publish(INDEX, tmp_path / "data")
    settings = remote(served, tmp_path / "home", HF_TOKEN="hf_x", INDEX=INDEX, WORKERS="1")
    done = run([JOBS / "in-the-job.sh"], tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert f"Keys and signatures of {len(names)} models" in server.file(INDEX, "main", "README.md").decode()
    served.forget()
    shutil.rmtree(tmp_path / "index")
    again = run([JOBS / "in-the-job.sh"], tmp_path, **settings)
    assert again.returncode == 0, again.stderr
    assert f"0 added, {len(names)} already there," in again.stdout
    assert not any(name in part.file for part in served.parts for name in names)


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.name)
def test_shellcheck_has_nothing_against_it(script):
    done = subprocess.run([str(SHELLCHECK), script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
