"""The package as it is imported and installed: it costs nothing before it is used, and a wheel works by itself.

Code, registry, schema and console script are in the wheel, and nothing else.
"""

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import hf_lineage
from hf_lineage import Options, extract, save_signature

ROOT = Path(__file__).parents[1]
HUB = ROOT / "examples/hub"
PAIR = ("acme/llama-base", "fern/llama-finetune-a")
HEAVY = ("torch", "accelerate", "transformers", "numpy", "scipy", "huggingface_hub", "rich")


def heavy_modules_after(program, *arguments, then=""):
    """Run a program in a fresh interpreter and return which of the heavy packages it has imported."""
    ending = f"\nimport sys; print(*({set(HEAVY)!r} & set(sys.modules)), file=sys.stderr)\n"
    command = [sys.executable, "-c", program + ending + then, *map(str, arguments)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


def test_help_imports_nothing_heavy_and_functions_can_be_called_after_any_import():
    """A package of the same name takes the place of a function as soon as anything in it is imported."""
    names = ", ".join(name for name in hf_lineage.__all__ if name.islower())
    then = f"import hf_lineage.checking.check; from hf_lineage import {names}; assert all(map(callable, ({names})))"
    assert heavy_modules_after("from hf_lineage.cli import main; main(['check', '--help'])", then=then) == set()


def test_two_stored_signatures_are_compared_without_torch(tmp_path):
    files = [tmp_path / name for name in ("base", "tuned")]
    for file, name in zip(files, PAIR, strict=True):
        save_signature(extract(name, Options(local_hub=HUB)), file)
    program = "import sys; from hf_lineage.cli import main; assert main(['compare', *sys.argv[1:]]) == 0"
    assert heavy_modules_after(program, *files).isdisjoint({"torch", "accelerate", "transformers"})


def test_every_public_name_is_there_and_the_version_is_that_of_the_distribution():
    assert all(getattr(hf_lineage, name) is not None for name in hf_lineage.__all__)
    assert (hf_lineage.__version__, hasattr(hf_lineage, "no_such_name")) == (version("hf-lineage"), False)


def built(target, folder, source=ROOT):
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    zipfile.ZipFile(built("wheel", folder)).extractall(folder / "site")
    return folder / "site"


def test_it_checks_a_model_with_its_own_code_and_registry(unpacked):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hf_lineage.cli", "compare", *(HUB / name for name in PAIR)],
        cwd=unpacked, env={"PYTHONPATH": str(unpacked), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, "VERIFIED inherited" in done.stdout) == (0, "", True)


def test_it_carries_templates_and_the_whole_registry_and_neither_tests_nor_examples(unpacked):
    package = unpacked / "hf_lineage"
    assert {path.name.partition("-")[0] for path in unpacked.iterdir()} == {"hf_lineage"}
    assert all((package / name).exists() for name in ("py.typed", "report/schema.json", "report/page.css"))
    for inside, folder, kind in ((package, "hf_lineage", "*.j2"), (package / "data/registry", "registry", "*.yaml")):
        packed, there = ({path.relative_to(of) for path in of.rglob(kind)} for of in (inside, ROOT / folder))
        assert packed == there


def test_the_source_is_small_and_a_wheel_of_it_is_that_of_the_repository(unpacked, tmp_path):
    source = built("sdist", tmp_path / "sdist")
    assert source.stat().st_size < 4_000_000  # with the weights of the examples it was four times as large
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path / "source", filter="data")
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "action.yml", "hf_lineage/py.typed"} <= names
    assert {"examples/hub/README.md", "examples/hub/acme/llama-base/config.json", "tests/test_wheel.py"} <= names
    assert not [name for name in names if name.startswith("examples/") and name.endswith(".safetensors")]
    assert not [name for name in names if {"__pycache__", ".venv", ".git"} & set(name.split("/"))]
    (folder,) = (tmp_path / "source").iterdir()
    with zipfile.ZipFile(built("wheel", tmp_path / "dist", folder)) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert packed == {name for name in held if not name.endswith(".pyc")}
