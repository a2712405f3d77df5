"""Shown: the blocks that show what the program prints about the models in examples/hub."""

from __future__ import annotations

import contextlib
import io
import shlex
import tempfile
from pathlib import Path

from hf_lineage.cli import main

ROOT = Path(__file__).parents[1]
FIVE = (
    "fern/llama-finetune-a fern/llama-lora magpie/llama-grafted",
    "magpie/llama-liar otter/llama-independent",
)
"""Models that show the four words, in two lines."""
HUB = "examples/hub"
OWNERS = ("fern", "heron", "magpie", "moss")
"""Owners of the models that the demonstration checks, in the order of its command."""
CONTINUED = " \\\n    "
"""How a command goes on in the next line."""
KNOWN = ("acme/llama-base", "acme/gpt2-base", "fern/llama-finetune-a", "fern/llama-finetune-b")
ASKED = ("fern/llama-merge-a-b", "magpie/llama-liar")
TREE = (
    "acme/llama-base fern/llama-finetune-a fern/llama-finetune-b fern/llama-lora-merged",
    "fern/llama-merge-a-b heron/llama-pruned-50 magpie/llama-grafted magpie/llama-liar",
)
"""Models of a family and one that is none of it, in two lines."""


def demo_block() -> str:
    """What `make demo` prints."""
    hub, printed = ROOT / HUB, io.StringIO()
    models = ["/".join(folder.parts[-2:]) for owner in OWNERS for folder in sorted((hub / owner).iterdir())]
    with contextlib.chdir(hub), contextlib.redirect_stdout(printed):
        main(["check", "--local-hub", ".", "--seed", "0", *models])
    return f"```text\n{printed.getvalue().strip(chr(10))}\n```"


def use_block() -> str:
    """Return what the command prints that the README shows, and what it returns."""
    return _of_several("check", FIVE)


def _of_several(command: str, models: tuple[str, str]) -> str:
    """A command of many models as a block, with the models in two lines."""
    ran = _ran(f"hf-lineage {command} {' '.join(models)} --local-hub {HUB}")
    return f"```console\n{ran.replace(' '.join(models), CONTINUED.join(models))}\n```"


def _ran(command: str, most: int | None = None) -> str:
    """A command, its output or the first lines of it, and its exit code."""
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        code = main(shlex.split(command)[1:])
    lines = printed.getvalue().strip("\n").splitlines()
    lines = lines if most is None else [*lines[:most], "..."]
    return "\n".join((f"$ {command}", *lines, "$ echo $?", str(code)))


def annotate_block() -> str:
    """Return what a publisher sees first of the section that `annotate` writes."""
    return f"```console\n{_ran(f'hf-lineage annotate fern/llama-finetune-a --local-hub {HUB}', 14)}\n```"


def review_block() -> str:
    """Return what a reviewer sees of a false claim, and of one that holds for a part of the model."""
    liar, graft = ("magpie/llama-liar", "magpie/llama-grafted")
    ran = [_ran(f"hf-lineage check {model} --local-hub {HUB} --seed 0") for model in (liar, graft)]
    return "```console\n" + "\n".join(ran) + "\n```"


def identify_block() -> str:
    """What `identify` prints of a merge, with its base and both parents in the index, and of a liar."""
    with tempfile.TemporaryDirectory() as index:
        added = f"hf-lineage index add {' '.join(KNOWN)} --index {index} --local-hub {HUB}"
        asked = [f"hf-lineage identify {model} --index {index} --local-hub {HUB}" for model in ASKED]
        printed = "\n".join(map(_ran, (added, *asked)))
    return "```console\n" + printed.replace(f" --index {index} ", f"{CONTINUED}--index ./index ") + "\n```"


def tree_block() -> str:
    """The family tree of some example models."""
    return _of_several("tree", TREE)
