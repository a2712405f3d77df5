"""Importing the package costs nothing, and each command imports no more than it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

import hf_lineage
from hf_lineage import Options, extract, save_signature

HUB = Path(__file__).parents[1] / "examples" / "hub"
HEAVY = ("torch", "accelerate", "transformers", "numpy", "scipy", "huggingface_hub", "rich")


def heavy_modules_after(program, *arguments):
    """Run a program in a fresh interpreter and return which of the heavy packages it has imported."""
    ending = f"\nimport sys; print(*({set(HEAVY)!r} & set(sys.modules)), file=sys.stderr)"
    command = [sys.executable, "-c", program + ending, *map(str, arguments)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


def test_help_and_the_package_import_none_of_the_heavy_packages():
    assert heavy_modules_after("from hf_lineage.cli import main; main(['check', '--help'])") == set()


def test_two_stored_signatures_are_compared_without_torch(tmp_path):
    files = [tmp_path / name for name in ("base", "tuned")]
    for file, name in zip(files, ("acme/llama-base", "fern/llama-finetune-a"), strict=True):
        save_signature(extract(name, Options(local_hub=HUB)), file)
    program = "import sys; from hf_lineage.cli import main; assert main(['compare', *sys.argv[1:]]) == 0"
    assert heavy_modules_after(program, *files).isdisjoint({"torch", "accelerate", "transformers"})


def test_every_public_name_is_there_and_an_unknown_one_is_not():
    for name in hf_lineage.__all__:
        assert getattr(hf_lineage, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hf_lineage.no_such_name


def test_a_public_function_can_be_called_whatever_was_imported_before():
    """A package of the same name takes the place of a function as soon as anything in it is imported."""
    names = ", ".join(name for name in hf_lineage.__all__ if name.islower())
    heavy_modules_after(
        f"import hf_lineage.checking.check; from hf_lineage import {names}; assert all(map(callable, ({names})))"
    )


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert hf_lineage.__version__ == version("hf-lineage")
