"""The package `gguf` is asked for where a GGUF file is read, and missed nowhere else."""

import subprocess
import sys

import gguf as installed
import pytest

from hf_lineage.checkpoint.gguf.tensors import gguf
from hf_lineage.errors import NothingToCompare


def test_it_is_the_installed_package():
    assert gguf() is installed


def test_without_it_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(NothingToCompare) as caught:
        gguf()
    assert str(caught.value) == (
        "hf-lineage needs the package gguf to read a GGUF file; run `pip install 'hf-lineage[gguf] @ "
        "git+https://github.com/hf-lineage/hf-lineage'`"
    )


def test_the_program_starts_and_judges_plain_models_without_it():
    code = """
import sys
from hf_lineage import compare
hub = "examples/hub"
print(compare(f"{hub}/acme/llama-base", f"{hub}/fern/llama-finetune-a").rows[0].verdict.code, "gguf" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "inherited False\n"
