"""`tab:real-llm-baselines` and `tab:laundering-llm`, with small Llamas in the place of public checkpoints."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers.utils import logging

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.baselines import weight_cosine
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.judges import evidence, layers, lineage
from benchmarks.paper.parts.language import loaded
from benchmarks.paper.parts.laundering import in_another_order, preserved
from hf_lineage import Options

LATER = "public checkpoint, not run here: --online"
SCORES = {
    "Llama-2-7B-chat": 0.995,
    "Vicuna-7B": 0.996,
    "CodeLlama-7B": 0.336,
    "OpenLLaMA-7B": 4e-4,
    "OpenLLaMA-7B-v2": -2e-5,
    "Amber": -3e-5,
    "Baichuan-7B": -5e-5,
    "Baichuan2-7B": -5e-6,
    "InternLM-7B": 2e-5,
    "Yi-6B": 2e-5,
}
NOTES = {
    "OpenLLaMA-7B": f"{LATER}; printed as 4e-4, while caption, text and appendix have all seven below 5e-5",
    "Yi-6B": f"{LATER}; of LLaMA-2-7B's sizes but for its attention, which the MLP path does not see",
}
COSINES = {
    "LLaMA-2 7B, Chat": 0.993,
    "LLaMA-3 8B, Instruct": 0.949,
    "Mistral 7B, Instruct": 0.934,
    "Qwen2.5 7B, Instruct": 0.948,
    "LLaMA-2 7B, OpenLLaMA": 0.089,
    "LLaMA-3 8B, Mistral 7B": 0.158,
}
"""What laundering takes from the weight cosine; of the independent ones the cosine itself."""
INDEPENDENT = frozenset({"LLaMA-2 7B, OpenLLaMA", "LLaMA-3 8B, Mistral 7B"})
CHANGE, COSINE, LOST = "change of our score", "cosine before", "cosine lost"
FIGURES = {CHANGE: "1e-7 there", COSINE: "of all W_up and W_down", LOST: "before less after"}
"""What is measured of a pair, and what there is to say of it."""
BASE = HUB / "acme" / "llama-base"
DESCENDANTS = {
    "fern/llama-finetune-a": "stands in for Llama-2-7B-chat",
    "fern/llama-finetune-b": "stands in for Vicuna-7B",
    "moss/llama-continued": "stands in for CodeLlama-7B: as many steps as the base had, at twice its rate",
}
STRANGERS = {
    "otter/llama-independent": "stands in for the independent models",
    "magpie/llama-liar": "stands in for the independent models",
    "heron/llama-distilled": "distilled from the base, of fresh weights",
}


def case_study(bench: Bench) -> Sequence[Row]:  # noqa: ARG001 (the models have one size)
    """Return the score of every suspect with the base, and the library's verdicts."""
    rows = []
    for name, role in (DESCENDANTS | STRANGERS).items():
        verdict, _ = evidence(BASE, HUB / name, Options(seed=0))
        rows += [
            Row(f"{name}: score", None, lineage(BASE, HUB / name), role),
            Row(f"{name}: verdict", None, verdict.label, "hf-lineage compare, by default"),
        ]
    return [*rows, *(Row(f"{name}: score", paper, None, NOTES.get(name, LATER)) for name, paper in SCORES.items())]


def apart(rows: Mapping[str, Row]) -> None:
    """Every descendant scores far above every stranger."""
    related, unrelated = ([rows[f"{name}: score"].number for name in names] for names in (DESCENDANTS, STRANGERS))
    least, most = min(related), max(unrelated)
    claim(least > 5 * most, f"a descendant scores {least:.3g}, a stranger {most:.3g}")


def permuted(model: Path, seed: int, folder: Path) -> None:
    """Save a model of Llama's design with the hidden units of its MLPs in another order.

    Raise FunctionError where a logit moves by more than the paper's 1e-4.
    """
    logging.disable_progress_bar()
    found = loaded(model)
    probe, random = torch.arange(64)[None], torch.Generator().manual_seed(seed)
    with torch.no_grad():
        before = found(input_ids=probe).logits
        for layer in found.model.layers:
            down = layer.mlp.down_proj.weight
            order = in_another_order(down.shape[1], random)
            for weight in (layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight):
                weight.copy_(weight[order])
            down.copy_(down[:, order])
        preserved(before, found(input_ids=probe).logits)
    found.save_pretrained(folder)


def launder(scratch: Path, suspect: Path) -> dict[str, float]:
    """Return what a permutation of the suspect's hidden units takes from our score and from the weight cosine.

    The permuted model, in float32, lies in the scratch folder meanwhile.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        permuted(suspect, 0, Path(folder))
        before, after = (lineage(BASE, model) for model in (suspect, folder))
        whole, left = (weight_cosine(layers(BASE), layers(model)) for model in (suspect, folder))
    return {CHANGE: abs(before - after), COSINE: whole, LOST: whole - left}


def laundering(bench: Bench) -> Sequence[Row]:
    """Return what a permutation of the suspect's hidden units does to every pair."""
    rows = []
    for name in (*DESCENDANTS, "otter/llama-independent"):
        found = launder(bench.cache.folder, HUB / name)
        rows += [Row(f"{name}: {figure}", None, found[figure], note) for figure, note in FIGURES.items()]
    figures = {name: COSINE if name in INDEPENDENT else LOST for name in COSINES}
    return [*rows, *(Row(f"{name}: {figure}", COSINES[name], None, LATER) for name, figure in figures.items())]


def invariant(rows: Mapping[str, Row]) -> None:
    """Our score does not move, and the cosine of derivatives loses nearly all it had."""
    for name, row in rows.items():
        claim(not name.endswith(CHANGE) or row.number < 1e-6, f"{name} is {row.number:.1e}")
    for name in DESCENDANTS:
        before, lost = (rows[f"{name}: {figure}"].number for figure in (COSINE, LOST))
        claim(lost > 0.9 * before, f"{name}: the cosine loses {lost:.3f} of {before:.3f}")


EXPERIMENTS = (
    Experiment("tab:real-llm-baselines", "descendants and strangers of one base", case_study, apart),
    Experiment("tab:laundering-llm", "permutation of public derivatives", laundering, invariant),
)
