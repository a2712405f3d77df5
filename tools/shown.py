"""Shown: the blocks that show what the program prints about the models in examples/hub."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from hf_lineage.cli import main

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "hf-lineage check fern/llama-finetune-a --local-hub examples/hub",
    "hf-lineage check otter/llama-independent --base acme/llama-base --local-hub examples/hub",
)
HUB = "examples/hub"
CONTINUED = " \\\n    "
"""How a command goes on in the next line."""
KNOWN = ("acme/llama-base", "acme/gpt2-base", "fern/llama-finetune-a", "fern/llama-finetune-b")
ASKED = ("fern/llama-merge-a-b", "magpie/llama-liar")
ASKED_BY = (
    ("hf-lineage annotate fern/llama-finetune-a", 14),
    ("hf-lineage check magpie/llama-liar", None),
    ("hf-lineage check magpie/llama-grafted --audit", None),
)
"""What a publisher, a reviewer and an auditor run, and how many lines of the answer are shown."""
MODELS = sorted("/".join(file.parent.parts[-2:]) for file in (ROOT / HUB).glob("*/*/model.safetensors"))


def demo_block() -> str:
    """What `make demo` prints."""
    ran = subprocess.run([sys.executable, ROOT / "examples" / "demo.py"], capture_output=True, text=True, check=True)
    return f"```text\n{ran.stdout.strip(chr(10))}\n```"


def use_block() -> str:
    """What the commands print that the README tells about, and what they return."""
    return "```console\n" + "\n".join(map(_ran, COMMANDS)) + "\n```"


def _ran(command: str, most: int | None = None) -> str:
    """A command, its output or the first lines of it, and its exit code."""
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        code = main(shlex.split(command)[1:])
    lines = printed.getvalue().strip("\n").splitlines()
    lines = lines if most is None else [*lines[:most], "..."]
    return "\n".join((f"$ {command}", *lines, "$ echo $?", str(code)))


def audiences_block() -> str:
    """What each of them sees who publish, review or audit."""
    publisher, reviewer, auditor = (_ran(f"{command} --local-hub {HUB}", most) for command, most in ASKED_BY)
    sections = {"Publisher": publisher, "Reviewer": reviewer, "Auditor": auditor}
    return "\n\n".join(f"## {who}\n\n```console\n{shown}\n```" for who, shown in sections.items())


def identify_block() -> str:
    """What `identify` prints of a merge, with its base and both parents in the index, and of a liar."""
    return _identified(KNOWN, ASKED)


def identify_adapter_block() -> str:
    """What `identify` prints of an adapter whose card names another base."""
    return _identified((*KNOWN, "otter/llama-independent"), ("magpie/llama-lora-liar",))


def _identified(known: Sequence[str], models: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as index:
        added = f"hf-lineage index add {' '.join(known)} --index {index} --local-hub {HUB}"
        asked = [f"hf-lineage identify {model} --index {index} --local-hub {HUB}" for model in models]
        printed = "\n".join(map(_ran, (added, *asked)))
    return "```console\n" + printed.replace(f" --index {index} ", f"{CONTINUED}--index ./index ") + "\n```"


def tree_block() -> str:
    """The family tree of all example models that have weights of their own."""
    return (
        "```console\n"
        + _ran(f"hf-lineage tree {' '.join(MODELS)} --local-hub {HUB}").replace(
            f" {' '.join(MODELS)} --local-hub {HUB}",
            CONTINUED.join(["", *textwrap.wrap(" ".join(MODELS), 90, break_on_hyphens=False), f"--local-hub {HUB}"]),
        )
        + "\n```"
    )
