"""`tab:real-llm-baselines` and `tab:laundering-llm`: public checkpoints online, small Llamas else."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.baselines import weight_cosine
from benchmarks.paper.parts.judges import evidence, layers, lineage
from benchmarks.paper.parts.laundering import in_another_order, preserved
from benchmarks.paper.parts.online import Look, look, said, some
from benchmarks.paper.parts.public import HUB, LAUNDERED, LLAMA, SUSPECTS
from benchmarks.paper.parts.results import Row
from hf_lineage import Options
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.repo import RepoRef

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
"""What laundering takes from the weight cosine; of the independent ones the cosine itself."""
INDEPENDENT = frozenset({"LLaMA-2 7B, OpenLLaMA", "LLaMA-3 8B, Mistral 7B"})
CHANGE, COSINE, LOST = "change of our score", "cosine before", "cosine lost"
FIGURES = {CHANGE: "1e-7 there", COSINE: "of all W_up and W_down", LOST: "before less after"}
"""What is measured of a pair, and what there is to say of it."""
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
        return publicly(bench)
    rows = []
    for name, role in (DESCENDANTS | STRANGERS).items():
        verdict, _ = evidence(BASE, HUB / name, Options(seed=0))
        rows += [
            Row(f"{name}: score", None, lineage(BASE, HUB / name), role),
            Row(f"{name}: verdict", None, verdict.label, "hf-lineage compare, by default"),
        ]
    return [*rows, *(Row(f"{name}: score", paper, None, also(name, LATER)) for name, paper in SCORES.items())]


def also(name: str, note: str) -> str:
    """Return what there is to say of a suspect."""
    return f"{note}; {NOTES[name]}" if name in NOTES else note


def publicly(bench: Bench) -> Sequence[Row]:
    """Return the score of every public suspect, or why there is none."""
    found = some({name: look(bench.cache, "lineage", lineage, LLAMA, suspect) for name, suspect in SUSPECTS.items()})
    return [Row(f"{name}: score", SCORES[name], one.found, also(name, one.note)) for name, one in found.items()]


def apart(rows: Mapping[str, Row]) -> None:
    """Every descendant scores far above every stranger, of those that are there."""
    known = {name.removesuffix(": score"): row.number for name, row in rows.items() if row.ours is not None}
    related = [known[name] for name in (*DESCENDANTS, *list(SCORES)[:3]) if name in known]
    unrelated = [known[name] for name in (*STRANGERS, *list(SCORES)[3:]) if name in known]
    if related and unrelated:
        least, most = min(related), max(unrelated)
        claim(least > 5 * most, f"a descendant scores {least:.3g}, a stranger {most:.3g}")


def permuted(model: Path, seed: int, folder: Path) -> None:
    """Save a model of Llama's design with the hidden units of its MLPs in another order.

    Raise FunctionError where a logit moves by more than the paper's 1e-4.
    """
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


def loaded(model: Path) -> Any:
    """Return the causal language model in a folder, in float32; NothingToCompare where transformers cannot load it."""
    logging.disable_progress_bar()
    try:
        found = AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float32, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise NothingToCompare(f"transformers cannot load {model.name}: {said(error)}") from None
    return found.eval()


def launder(scratch: Path, base: RepoRef, suspect: RepoRef) -> dict[str, float]:
    """Return what a permutation of the suspect's hidden units takes from our score and from the weight cosine.

    The permuted model, in float32, lies in the scratch folder meanwhile.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        permuted(suspect.folder, 0, Path(folder))
        models = (str(suspect), folder)
        before, after = (lineage(str(base), model) for model in models)
        whole, left = (weight_cosine(layers(str(base)), layers(model)) for model in models)
    return {CHANGE: abs(before - after), COSINE: whole, LOST: whole - left}


def looks(bench: Bench) -> dict[str, Look[dict[str, float]]]:
    """Return what a permutation does to every pair, by name: public ones online, small Llamas else."""
    find = partial(launder, bench.cache.folder)
    if bench.online:
        return some({name: look(bench.cache, "laundering", find, *pair) for name, pair in LAUNDERED.items()})
    here = {name: RepoRef(str(HUB / name), HUB / name) for name in (*DESCENDANTS, "otter/llama-independent")}
    return {name: Look(find(RepoRef(str(BASE), BASE), suspect), "") for name, suspect in here.items()}


def laundering(bench: Bench) -> Sequence[Row]:
    """Return what a permutation of the suspect's hidden units does to every pair."""
    rows = [
        Row(f"{name}: {figure}", printed(name, figure), one.read(itemgetter(figure)), one.also(note))
        for name, one in looks(bench).items()
        for figure, note in FIGURES.items()
    ]
    told = [row for row in rows if (row.paper, row.ours) != (None, None)]
    if bench.online:
        return told
    figures = {name: COSINE if name in INDEPENDENT else LOST for name in COSINES}
    return [*told, *(Row(f"{name}: {figure}", COSINES[name], None, LATER) for name, figure in figures.items())]


def printed(name: str, figure: str) -> float | None:
    """Return the paper's figure: of derivatives what the cosine loses, of independent models the cosine itself."""
    if name not in COSINES:
        return None
    return {CHANGE: 0.0, COSINE if name in INDEPENDENT else LOST: COSINES[name]}.get(figure)


def invariant(rows: Mapping[str, Row]) -> None:
    """Our score does not move, and the cosine of derivatives loses nearly all it had, of those that are there."""
    there = {name: row.number for name, row in rows.items() if row.ours is not None}
    for name, change in there.items():
        if name.endswith(CHANGE):
            claim(change < 1e-6, f"{name} is {change:.1e}")
    for name in (*DESCENDANTS, *(name for name in COSINES if name not in INDEPENDENT)):
        if f"{name}: {COSINE}" in there:
            before, lost = there[f"{name}: {COSINE}"], there[f"{name}: {LOST}"]
            claim(lost > 0.9 * before, f"{name}: the cosine loses {lost:.3f} of {before:.3f}")


EXPERIMENTS = (
    Experiment("tab:real-llm-baselines", "descendants and strangers of one base", case_study, apart),
    Experiment("tab:laundering-llm", "permutation of public derivatives", laundering, invariant),
)
