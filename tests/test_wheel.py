"""The built wheel works by itself: code, registry, schema and console script are in it, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run(unpacked, *arguments):
    command = [sys.executable, "-P", "-m", "hf_lineage.cli", *map(str, arguments)]
    environment = {"PYTHONPATH": str(unpacked), "PATH": ""}
    return subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True)


def test_it_carries_the_whole_registry(unpacked):
    packed = {
        path.relative_to(unpacked / "hf_lineage/data/registry") for path in unpacked.rglob("data/registry/**/*.yaml")
    }
    assert packed == {path.relative_to(ROOT / "registry") for path in (ROOT / "registry").rglob("*.yaml")}


def test_it_checks_a_model_with_its_own_code_and_registry(unpacked):
    hub = ROOT / "examples" / "hub"
    done = run(unpacked, "compare", hub / "acme/llama-base", hub / "fern/llama-finetune-a", "--permutations", 99)
    assert (done.returncode, done.stderr) == (0, "")
    assert "RELATED" in done.stdout


def test_it_holds_neither_tests_nor_examples(unpacked):
    assert {path.name.partition("-")[0] for path in unpacked.iterdir()} == {"hf_lineage"}
    assert (unpacked / "hf_lineage/py.typed").exists()
    assert (unpacked / "hf_lineage/report/schema.json").exists()
    assert (unpacked / "hf_lineage/report/page.css").exists()
