"""`tab:real-llm-baselines` and `tab:laundering-llm`: public checkpoints online, small Llamas else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.judges import evidence, lineage, of_weights
from benchmarks.paper.parts.laundering import in_another_order, preserved
from benchmarks.paper.parts.public import HUB, LAUNDERED, LLAMA, SUSPECTS
from benchmarks.paper.parts.results import Row
from hf_lineage import LineageError, Options

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
    "OpenLLaMA-7B": "printed as 4e-4, while caption, text and appendix have all seven below 5e-5",
    "Yi-6B": "of LLaMA-2-7B's sizes but for its attention, which the MLP path does not see",
}
COSINES = {
    "LLaMA-2 7B, Chat": 0.993,
    "LLaMA-3 8B, Instruct": 0.949,
    "Mistral 7B, Instruct": 0.934,
    "Qwen2.5 7B, Instruct": 0.948,
    "LLaMA-2 7B, OpenLLaMA": 0.089,
    "LLaMA-3 8B, Mistral 7B": 0.158,
}
"""What laundering takes from the weight cosine; of the last two, which are independent, the cosine itself."""
LATER = "public checkpoint, not run here: --online"
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


def case_study(bench: Bench) -> Sequence[Row]:
    """Return the score of every suspect with the base, and the library's verdicts."""
    if bench.online:
        return [publicly(name, paper) for name, paper in SCORES.items()]
    rows = []
    for name, role in (DESCENDANTS | STRANGERS).items():
        word, _ = evidence(BASE, HUB / name, Options())
        rows += [
            Row(f"{name}: score", None, lineage(BASE, HUB / name), role),
            Row(f"{name}: verdict", None, word, "hf-lineage compare, by default"),
        ]
    return [*rows, *(Row(f"{name}: score", paper, None, f"{LATER}{also(name)}") for name, paper in SCORES.items())]


def also(name: str) -> str:
    """Return what else there is to say of a suspect."""
    return f"; {NOTES[name]}" if name in NOTES else ""


def publicly(name: str, paper: float) -> Row:
    """Return the score of a public suspect, or why there is none."""
    suspect = SUSPECTS[name]
    try:
        return Row(f"{name}: score", paper, lineage(LLAMA.model, suspect.model), f"{suspect.model}{also(name)}")
    except (LineageError, KeyError) as error:
        return Row(f"{name}: score", paper, None, f"{suspect.model}: {error}")


def apart(rows: Mapping[str, Row]) -> None:
    """Every descendant scores far above every stranger."""
    known = {name.removesuffix(": score"): row.number for name, row in rows.items() if row.ours is not None}
    related = [known[name] for name in (*DESCENDANTS, *list(SCORES)[:3]) if name in known]
    unrelated = [known[name] for name in (*STRANGERS, *list(SCORES)[3:]) if name in known]
    claim(min(related) > 5 * max(unrelated), f"a descendant scores {min(related):.3g}, a stranger {max(unrelated):.3g}")


def permuted(model: str | Path, seed: int, folder: Path) -> None:
    """Save a model of Llama's design with the hidden units of its MLPs in another order.

    Raise FunctionError where a logit moves by more than the paper's 1e-4.
    """
    logging.disable_progress_bar()
    found = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
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


def pairs(bench: Bench) -> Iterator[tuple[str, float | None, str, str]]:
    """Yield name, the paper's figure, base and suspect of every pair."""
    if bench.online:
        for name, (base, suspect) in LAUNDERED.items():
            yield name, COSINES[name], base.model, suspect.model
    else:
        for name in (*DESCENDANTS, "otter/llama-independent"):
            yield name, None, str(BASE), str(HUB / name)


def laundering(bench: Bench) -> Sequence[Row]:
    """Return what a permutation of the suspect's hidden units takes from our score and from the weight cosine."""
    cosine, rows = of_weights(baselines.weight_cosine), []
    for name, paper, base, suspect in pairs(bench):
        other = bench.cache.kept_folder("permuted", [1, suspect], partial(permuted, suspect, 0))
        scores = [lineage(base, model) for model in (suspect, other)]
        cosines = [cosine(Path(base), Path(model)) for model in (suspect, other)]
        rows += [
            Row(
                f"{name}: change of our score", 0.0 if bench.online else None, abs(scores[0] - scores[1]), "1e-7 there"
            ),
            Row(f"{name}: cosine before", None, cosines[0], "of all W_up and W_down"),
            Row(f"{name}: cosine lost", paper, cosines[0] - cosines[1], "before less after"),
        ]
    if bench.online:
        return rows
    return [*rows, *(Row(f"{name}: cosine lost", paper, None, LATER) for name, paper in COSINES.items())]


def invariant(rows: Mapping[str, Row]) -> None:
    """Our score does not move, and the cosine of derivatives loses nearly all it had."""
    for name, row in rows.items():
        if name.endswith("change of our score"):
            claim(row.number < 1e-6, f"{name} is {row.number:.1e}")
    for name in (*DESCENDANTS, *list(COSINES)[:4]):
        if f"{name}: cosine before" in rows:
            before, lost = (rows[f"{name}: cosine {what}"].number for what in ("before", "lost"))
            claim(lost > 0.9 * before, f"{name}: the cosine loses {lost:.3f} of {before:.3f}")


EXPERIMENTS = (
    Experiment("tab:real-llm-baselines", "descendants and strangers of one base", case_study, apart),
    Experiment("tab:laundering-llm", "permutation of public derivatives", laundering, invariant),
)
