"""What a plain check costs: how often each file is opened and each folder is listed, and which modules are imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoking import environment

HUB = Path(__file__).parents[2] / "examples" / "hub"
MODELS = {"acme/llama-base", "fern/llama-finetune-a"}
MOST_OPENED, MOST_LISTED = 8, 2
"""Of a file with weights, and of a folder."""
MOST_IMPORTED = 90
"""Modules of the package, without the files that make a folder a package."""
MOST_FILES, MOST_DEEP = 70, 24
"""Files of the package whose functions run, and calls of named functions of ours within each other in one thread."""
PROGRAM = """
import collections, inspect, json, os, sys, threading
from pathlib import Path

hub, events = sys.argv[1], collections.defaultdict(collections.Counter)

def note(event, arguments):
    if event in ("open", "os.scandir", "os.listdir") and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        events[event == "open"][os.path.relpath(path, hub)] += path.startswith(hub + os.sep)

sys.addaudithook(note)
import hf_lineage

root, files, deep, here = os.path.dirname(hf_lineage.__file__), set(), [0], threading.local()

def count(frame, event, _):
    code = frame.f_code
    named = not code.co_name.startswith("<") and code.co_flags & inspect.CO_OPTIMIZED  # and not the body of a class
    if event in ("call", "return") and named and code.co_filename.startswith(root):
        files.add(code.co_filename)
        here.calls = getattr(here, "calls", 0) + (1 if event == "call" else -1)
        deep[0] = max(deep[0], here.calls)

sys.setprofile(count)
threading.setprofile(count)
from hf_lineage.cli import main

code = main(["check", "fern/llama-finetune-a", "--local-hub", hub, "--seed", "0"])
sys.setprofile(None)
ours = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "hf_lineage"}
faces = {name for name, file in ours.items() if os.path.basename(file) == "__init__.py"}
print(json.dumps([code, events[True], events[False], sorted(ours.keys() - faces), sorted(files), deep[0]]))
"""


@pytest.fixture(scope="module")
def plain_check(tmp_path_factory):
    """Of a claim that holds: how often each file is opened and each folder is listed, and the modules."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(HUB)],
        env=environment(HF_LINEAGE_CACHE=str(tmp_path_factory.mktemp("cache")), CUDA_VISIBLE_DEVICES=""),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code, *counted = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return counted


def test_small_files_are_opened_once_and_weights_and_folders_a_few_times(plain_check):
    opened, listed, *_ = plain_check
    small = {path: count for path, count in opened.items() if path.endswith(("config.json", "README.md"))}
    assert small == {f"{model}/{file}": 1 for model in MODELS for file in ("config.json", "README.md")}
    weights = {path: count for path, count in opened.items() if path.endswith(".safetensors")}
    assert weights.keys() == {f"{model}/model.safetensors" for model in MODELS}
    assert max(weights.values()) <= MOST_OPENED
    folders = {path: count for path, count in listed.items() if count}
    assert folders.keys() == MODELS
    assert max(folders.values()) <= MOST_LISTED


FOREIGN = ("checkpoint.gguf.", "checkpoint.onnx.", "checkpoint.pickles.", "hub.client")
"""The beginnings of what a check of two folders with safetensors has no use for."""


def test_few_modules_are_imported_and_no_readers_of_other_forms_or_the_client_of_the_hub(plain_check):
    _, _, modules, *_ = plain_check
    assert len(modules) <= MOST_IMPORTED, "\n".join(modules)
    assert [name for name in modules if name.removeprefix("hf_lineage.").startswith(FOREIGN)] == []


def test_few_files_run_and_few_functions_within_each_other(plain_check):
    *_, files, deep = plain_check
    assert len(files) <= MOST_FILES, "\n".join(files)
    assert deep <= MOST_DEEP
