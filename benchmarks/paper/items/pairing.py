"""`tab:transformer-family` and `tab:path-breakdown`: trace concentration pairs the matrices of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.examples import stand_ins
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.pairing import PATHS, Seen, seen, untrained

ACCURACY = {"GPT-2": 1.0, "BERT": 1.0, "LLaMA-2": 1.0, "Mistral": 1.0, "Qwen2.5": 1.0, "DeepSeek-R1": 1.0}
AUC = {"GPT-2": 1.0, "BERT": 0.97, "LLaMA-2": 1.0, "Mistral": 1.0, "Qwen2.5": 1.0, "DeepSeek-R1": 1.0}
GATE = {"LLaMA-2": 1.0, "Mistral": 1.0, "Qwen2.5": 0.68, "DeepSeek-R1": 0.84}
ROOTS = "GPT-2-lite roots"
CHANCE = "chance is 1/L, 17 % with the six layers of these models and 3 % with 32; at most 0.04 in the paper"
SHORT = "width 64, of a short training: trace concentration grows with training, and lineage scores do not need it"
SMALL = "a small model of a short training beside 32 layers of a long one"


def printed(family: str, path: str) -> float | None:
    """Return the paper's accuracy along a path; GPT-2 has none along attention."""
    if path == "mlp":
        return ACCURACY[family]
    if family == "GPT-2":
        return None
    if path in ("value_output", "query_key"):
        return 1.0
    return GATE.get(family) if path == "mlp_gate" else 1.0


@dataclass(frozen=True)
class Model:
    """One model, or several that count as one."""

    family: str
    name: str
    seen: Sequence[Seen]
    note: str = ""

    def mean(self, path: str, figure: str) -> float:
        """Return the mean of `accuracy` or `auc` along a path."""
        return float(np.mean([getattr(one.paths[path], figure) for one in self.seen]))


def models(bench: Bench) -> list[Model]:
    """Return the models at hand."""
    benchmark = Benchmark.of(bench)
    roots = [seen(benchmark.root(number)) for number in benchmark.everything]
    here = [Model(one.family, one.name, [seen(one.folder)]) for one in stand_ins()]
    return [*here, Model("GPT-2", ROOTS, roots, SHORT)]


def families(bench: Bench) -> Sequence[Row]:
    """Return accuracy and AUC of the MLP path of every model, and those of fresh weights."""
    found = []
    there = models(bench)
    for model in there:
        name, family = f"{model.family}, {model.name}", model.family
        found += [
            Row(f"{name}: accuracy", ACCURACY[family], model.mean("mlp", "accuracy"), model.note),
            Row(f"{name}: AUC", AUC[family], model.mean("mlp", "auc"), model.note),
        ]
    missing = sorted(set(ACCURACY) - {model.family for model in there})
    found += [
        Row(f"{family}: accuracy", ACCURACY[family], None, "public checkpoints only: --online") for family in missing
    ]
    for name, several in fresh(bench).items():
        accuracy = float(np.mean([one.paths["mlp"].accuracy for one in several]))
        found.append(Row(f"{name}, fresh weights: accuracy", 0.04, accuracy, CHANCE))
    return found


def fresh(bench: Bench) -> dict[str, list[Seen]]:
    """Return what is seen of the configurations at hand with fresh weights, by model."""
    seeds = range(bench.sized(2, 32))
    return {one.name: [untrained(bench.cache, one.folder, seed) for seed in seeds] for one in stand_ins()}


def concentrated(rows: Mapping[str, Row]) -> None:
    """Well-trained models pair all their MLPs, fresh ones hardly any."""
    trained = [row for name, row in rows.items() if name.endswith(": accuracy") and row.ours is not None]
    chance = [row.number for row in trained if "fresh weights" in row.name]
    claim(max(chance) < 0.6, f"fresh weights pair {max(chance):.0%} of their layers")
    for row in trained:
        if "fresh weights" not in row.name and ROOTS not in row.name:
            claim(row.number == 1, f"{row.name} is {row.number:.0%}")


def breakdown(bench: Bench) -> Sequence[Row]:
    """Return the accuracy along every path of every model, and of fresh weights."""
    found = []
    for model in models(bench):
        for path in [path for path in PATHS if path in model.seen[0].paths]:
            paper, ours = printed(model.family, path), model.mean(path, "accuracy")
            note = "" if paper == ours else model.note or SMALL
            found.append(Row(f"{model.family}, {model.name}, {path}: accuracy", paper, ours, note))
    for name, several in fresh(bench).items():
        for path in [path for path in PATHS if path in several[0].paths]:
            accuracy = float(np.mean([one.paths[path].accuracy for one in several]))
            found.append(
                Row(f"{name}, fresh weights, {path}: accuracy", None, accuracy, f"{CHANCE} (0 to 0.09 by path)")
            )
    return found


def canonical(rows: Mapping[str, Row]) -> None:
    """No path pairs more layers than the MLP's."""
    seen = {name: row.number for name, row in rows.items() if row.ours is not None}
    accuracies = {name: number for name, number in seen.items() if "fresh weights" not in name and ROOTS not in name}
    for name, accuracy in accuracies.items():
        model = name.rsplit(", ", 1)[0]
        canonical = accuracies[f"{model}, mlp: accuracy"]
        claim(accuracy <= canonical, f"{name} is {accuracy:.0%}, along mlp it is {canonical:.0%}")


EXPERIMENTS = (
    Experiment("tab:transformer-family", "pairing along the MLP path", families, concentrated),
    Experiment("tab:path-breakdown", "pairing along every path", breakdown, canonical),
)
