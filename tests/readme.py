"""What a program prints of README.md and registry/README.md; `make docs` writes it, a test keeps it true."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from transformers import AutoModelForCausalLM

from benchmarks.paper.items import ours_rivals
from benchmarks.paper.parts.results import Results, file_name
from hf_lineage import RECIPES, Options, compare
from hf_lineage.coverage import coverage
from hf_lineage.registry import factorizations, registry_root
from hf_lineage.report import markdown
from hf_lineage.report.coverage import counted
from hf_lineage.schema import as_sets
from hf_lineage.unsupported import unsupported
from tests import laundering

ROOT = Path(__file__).parents[1]
README, REGISTRY = ROOT / "README.md", ROOT / "registry" / "README.md"
HEADLINES = (
    ("tab:survival", "AUROC", "159 pairs of residual MLPs: AUROC of our score"),
    ("tab:survival", "least related score", "the same: least score of a descendant"),
    ("tab:survival", "largest unrelated score", "the same: largest score of any other"),
    ("tab:gpt2-survival", "AUROC", "45 pairs of GPT-2, ours 64 wide: AUROC of our score"),
    ("tab:gpt2-survival", "least related score", "the same: least score of a descendant"),
    ("tab:gpt2-survival", "largest unrelated score", "the same: largest score of any other"),
    ("tab:laundering", "MLP, PD, ours: AUROC", "hidden units reordered and rescaled: AUROC of our score"),
    ("tab:laundering", "MLP, PD, Re-Basin+scale: AUROC", "the same, Re-Basin with scale"),
    ("tab:laundering", "MLP, PD, weight cosine: AUROC", "the same, weight cosine"),
    ("tab:laundering", "MLP, PD, aligned Frobenius: AUROC", "the same, aligned Frobenius distance"),
    ("tab:gpt2-latency", "Re-Basin+scale over ours: times", "time of Re-Basin, in times ours; one thread"),
    ("tab:harder-bench", "ours, graft: Spearman", "grafts: rank correlation of our score with the share"),
    ("fig:hero", "b, ResNet: pair accuracy", "24 blocks with skips that find their own W_in by trace"),
    ("fig:hero", "b, PlainNet: pair accuracy", "the same without skips"),
    ("fig:lineage-roc", "trace concentration alone: AUROC", "trace concentration alone as a verifier: AUROC"),
    ("fig:mechanism-triad", "b: share of s lost by shuffling", "trace concentration lost where gradients are shuffled"),
    ("tab:attack-pareto", "λ = 0.01: score", "score after training against it, utility kept (λ = 0.01)"),
)
"""Item, row, and what the row is in words."""
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


def paper_block() -> str:
    """Some figures of the paper beside ours, by the last committed run."""
    results = ROOT / "benchmarks/results"
    rows = []
    for item, name, words in HEADLINES:
        (row,) = (row for row in Results.read(results / file_name(item)).rows if row.name == name)
        rows.append((words, item, f"{row.paper:.3g}", f"{row.ours:.3g}"))
    return markdown.table(("What", "Item", "Paper", "Ours"), rows)


def rivals_block() -> str:
    """What each tool says of the same folders, by the last committed run."""
    found = Results.read(ROOT / "benchmarks/results/ours-rivals.json").rows
    return markdown.table(ours_rivals.COLUMNS, ours_rivals.summary({row.name: row for row in found}))


def classes_block() -> str:
    """The registry as a table: the families of classes, in one row for each factorization."""
    rows = [f"| {found.name} | {', '.join(families(found.classes))} |" for found in factorizations()]
    return "\n".join(("| Factorization | Families of classes |", "| --- | --- |", *rows))


def coverage_block() -> str:
    """How many of transformers' causal language models the registry covers."""
    return counted(coverage())


def unsupported_block() -> str:
    """The families that no factorization lists, or of those it lists in part the classes, each reason with its own."""
    listed = {family for found in factorizations() for family in families(found.classes)}
    classes: dict[str, dict[str, None]] = {}
    for name, reason in unsupported(registry_root()).items():
        (family,) = families([name])
        classes.setdefault(reason, {})[name if family in listed else family] = None
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in classes.items()]
    return "\n".join(("| Families or classes | Why |", "| --- | --- |", *rows))


def mlp_alone_block() -> str:
    """The factorizations that leave attention out."""
    alone = [found for found in factorizations() if not as_sets(found.branches.attention)]
    rows = [f"| [{found.name}]({found.name}.yaml) | {', '.join(families(found.classes))} |" for found in alone]
    return "\n".join(("| Factorization | Families of classes |", "| --- | --- |", *rows))


def families(classes: Iterable[str]) -> list[str]:
    """Return what stands before the task in the names of some classes: Bert for BertForMaskedLM and BertModel."""
    return sorted({re.sub(TASK, "", name) for name in classes})


BLOCKS: dict[str, tuple[Path, Callable[[], str]]] = {
    "demo": (README, demo_block),
    "laundering": (README, laundering_block),
    "network": (README, network_block),
    "speed": (README, speed_block),
    "paper": (README, paper_block),
    "rivals": (README, rivals_block),
    "coverage": (README, coverage_block),
    "classes": (README, classes_block),
    "unsupported": (REGISTRY, unsupported_block),
    "mlp alone": (REGISTRY, mlp_alone_block),
}


def block(text: str, name: str) -> re.Match[str]:
    """Return where a generated block stands."""
    found = re.search(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", text, re.DOTALL)
    assert found, f"there is no block {name}"
    return found


if __name__ == "__main__":
    for name, (file, render) in BLOCKS.items():
        text = file.read_text(encoding="utf-8")
        found = block(text, name)
        file.write_text(f"{text[: found.start(2)]}{render()}\n{text[found.start(3) :]}", encoding="utf-8")
