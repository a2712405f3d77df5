"""The parts of README.md that a program prints; `make docs` writes them, a test keeps them true."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from transformers import AutoModelForCausalLM

from hf_lineage import RECIPES, Options, compare
from hf_lineage.registry import factorizations
from hf_lineage.report import markdown
from tests import laundering

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
EDITS = {
    "hidden units reordered": laundering.permute_hidden,
    "up and down rescaled": laundering.rescale,
    "norm gains swapped": laundering.swap_gains,
    "means shifted": laundering.shift_means,
    "4 % dead units, ten times too large": laundering.add_dead_units,
}
TASK = re.compile(r"(?<=.)(For[A-Z]\w*|DoubleHeads\w*|(LMHead|WithLMHead)?Model(WithProjection|WithLMHead)?|LM)$")
FITS = {"llama-base": laundering.LLAMA_EDITS, "gpt2-base": laundering.GPT2_EDITS}


def demo_block() -> str:
    """What `make demo` prints."""
    ran = subprocess.run([sys.executable, ROOT / "examples" / "demo.py"], capture_output=True, text=True, check=True)
    return f"```text\n{ran.stdout.strip(chr(10))}\n```"


def laundering_block() -> str:
    """The scores of both bases against their laundered selves, under both recipes."""
    rows = [
        (base, words, *(f"{launder(base, edit)[name]:.3f}" for name in ("paper", "robust")))
        for base, fitting in FITS.items()
        for words, edit in EDITS.items()
        if edit in fitting
    ]
    return markdown.table(("Base", "Edit that leaves its outputs alone", "`paper`", "`robust`"), rows)


def launder(base: str, edit: Callable) -> dict[str, float]:
    """Return the exact scores of a base against its edited self, by recipe."""
    model = AutoModelForCausalLM.from_pretrained(
        ROOT / "examples/hub/acme" / base, dtype="float32", local_files_only=True
    )
    with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as after:
        model.save_pretrained(before)
        laundering.laundered(model, edit)
        model.save_pretrained(after)
        scores = {}
        for name, recipe in RECIPES.items():
            (row,) = compare(before, after, Options(recipe=replace(recipe, probes=None), permutations=99)).rows
            scores[name] = row.verdict.evidence["mlp"].comparison.score
    return scores


def speed_block() -> str:
    """What the last committed run of the benchmark measured."""
    found = json.loads((ROOT / "benchmarks/results/speed.json").read_text(encoding="utf-8"))
    rows = [
        (row["what"], row["target"], "–" if row["measured"] is None else f"{row['measured']:g} {row['unit']}")
        for row in found["rows"]
    ]
    machine = "{cores} cores of an {processor}, {memory}, {system}, torch {torch}".format(**found["machine"])
    return f"{machine}:\n\n" + markdown.table(("What", "Target", "Measured"), rows)


def network_block() -> str:
    """What the last committed run of the network benchmark moved."""
    found = json.loads((ROOT / "benchmarks/results/network.json").read_text(encoding="utf-8"))["rows"]
    shares = [row for row in found if row["unit"] in ("of its own bytes", "of the base's bytes")]
    rows = [(row["what"], row["target"].partition(" of")[0], f"{row['measured']:.2%}") for row in shares]
    return (
        "What a check of a child moves, in shares of a model's bytes (`python -m benchmarks.network`: 32 layers in\n"
        "the shape of a 7B, a sixteenth as wide, so that the signature takes a share thirty times as large):\n\n"
        + markdown.table(("Budget, source: model", "Target", "Moved"), rows)
    )


def classes_block() -> str:
    """The registry as a table: the families of classes, in one row for each factorization."""
    rows = [f"| {found.name} | {', '.join(families(found.classes))} |" for found in factorizations()]
    return "\n".join(("| Factorization | Families of classes |", "| --- | --- |", *rows))


def families(classes: Iterable[str]) -> list[str]:
    """Return what stands before the task in the names of some classes: Bert for BertForMaskedLM and BertModel."""
    return sorted({re.sub(TASK, "", name) for name in classes})


BLOCKS = {
    "demo": demo_block,
    "network": network_block,
    "laundering": laundering_block,
    "speed": speed_block,
    "classes": classes_block,
}


def block(text: str, name: str) -> re.Match[str]:
    """Return where a generated block stands."""
    found = re.search(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", text, re.DOTALL)
    assert found, f"README.md has no block {name}"
    return found


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, render in BLOCKS.items():
        found = block(text, name)
        text = f"{text[: found.start(2)]}{render()}\n{text[found.start(3) :]}"
    README.write_text(text, encoding="utf-8")
