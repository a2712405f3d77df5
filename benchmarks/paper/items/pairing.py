"""The pairing of MLPs by the trace of their product: `tab:transformer-family`, `tab:path-breakdown`, three figures."""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.examples import stand_ins
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judges import layers, lineage_signature
from benchmarks.paper.parts.plots import matrix, panels
from benchmarks.paper.parts.scores import paired
from hf_lineage import inspect
from hf_lineage.checking.inspect import Pairing
from hf_lineage.errors import NothingToCompare

PATHS = ("mlp", "mlp_gate", "joint (mean of scores)", "joint (sum of products)", "value_output", "query_key")
VERSION = 1
Matrix = NDArray[np.float64]
Plain = tuple[dict[str, Tensor], float]


@dataclass(frozen=True)
class Seen:
    """What one model shows: its paths, and the share of layers that Frobenius norms pair rightly."""

    paths: dict[str, Pairing]
    frobenius: float

    @classmethod
    def of(cls, plain: Plain) -> Self:
        scores, frobenius = plain
        return cls({path: paired(found.numpy()) for path, found in scores.items()}, frobenius)

    @property
    def plain(self) -> Plain:
        return {path: torch.from_numpy(found.scores) for path, found in self.paths.items()}, self.frobenius


def seen(model: Path | str) -> Seen:
    """Return the pairing experiment of a model, by the library along its paths, and along both readings of `joint`.

    The paper names `joint` without a definition. One reading is the mean of the two score matrices, the other the score
    of the sum of the two products, W_down (W_up + W_gate). Raise NothingToCompare where the MLPs cannot be paired.
    """
    pairings = inspect(str(model)).pairings
    if isinstance(pairings["mlp"], str):
        raise NothingToCompare(f"{model}: {pairings['mlp']}")
    found = {path: paired(pairing.scores) for path, pairing in pairings.items() if not isinstance(pairing, str)}
    if "mlp_gate" in found:
        found[PATHS[2]] = paired((found["mlp"].scores + found["mlp_gate"].scores) / 2)
        several = zip(layers(model), layers(model, "mlp_gate"), strict=True)
        both = [inn + gate for (inn, _), (gate, _) in several]
        found[PATHS[3]] = paired(trace_scores((out for _, out in layers(model)), both))
    matched = baselines.frobenius_pairing(layers(model))
    return Seen(found, float(np.mean(matched == np.arange(len(matched)))))


def trace_scores(writers: Iterable[Tensor], readers: Sequence[Tensor], probes: int = 256) -> Matrix:
    """Return s(W_out,i W_in,j) for all pairs of layers; norms are estimated from random signs in wider models.

    One writer is held at a time.
    """
    width = readers[0].shape[1]
    random = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (width, probes), generator=random) * 2.0 - 1
    through = torch.eye(width) if width <= probes else signs / probes**0.5
    seen = [(reader, reader @ through) for reader in readers]
    scores = [
        [abs(float((out.mT * inn).sum())) / float(torch.linalg.vector_norm(out @ product)) for inn, product in seen]
        for out in writers
    ]
    return np.array(scores)


def untrained(cache: Cache, model: Path, seed: int) -> Seen:
    """Return what a model of the same configuration shows with fresh weights."""
    described = json.loads((model / "config.json").read_text(encoding="utf-8"))

    def made() -> Plain:
        torch.manual_seed(seed)
        architecture = getattr(transformers, described["architectures"][0])
        config = AutoConfig.from_pretrained(model, local_files_only=True)
        with tempfile.TemporaryDirectory() as folder:
            architecture(config).save_pretrained(folder)
            return seen(folder).plain

    return Seen.of(cache.kept("untrained", [VERSION, described, seed], made))


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


OFFLINE = "the paper's GPT-2 family needs --online; trained models at hand stand in for it"
ROOT = "a GPT-2-lite root"
FRESH = "gpt2-base, fresh weights"
NORMS = "0.67 down to 0.52 in the paper"
BARS = (("0.1", ""), ("0.9", "////"), ("0.6", ""))


def here(bench: Bench) -> dict[str, str]:
    """Return the folders of the models at hand that stand in for the paper's, by name."""
    root = str(Benchmark.of(bench).root(0))
    return {one.name.split()[0].rsplit("/", 1)[-1]: str(one.folder) for one in stand_ins()} | {ROOT: root}


def seen_here(bench: Bench) -> dict[str, Seen]:
    return {name: seen(folder) for name, folder in here(bench).items()}


def pairing(bench: Bench) -> Sequence[Row]:
    """Draw S(i, j) of every model, and of one with fresh weights."""
    found = {name: one.paths["mlp"] for name, one in seen_here(bench).items()}
    found[FRESH] = untrained(bench.cache, stand_ins()[0].folder, 0).paths["mlp"]
    drawing, axes = panels(3, rows=-(-len(found) // 3), size=(2.9, 2.6))
    for place, (name, scored) in zip(axes, found.items(), strict=False):
        matrix(place, scored.scores, name)
    for place in axes[len(found) :]:
        place.remove()
    bench.draw("gpt2-pairing", drawing)
    return [
        Row(f"{name}: accuracy", None if name == FRESH else 1.0, one.accuracy, OFFLINE) for name, one in found.items()
    ]


def diagonal(rows: Mapping[str, Row]) -> None:
    """The diagonal of trained models dominates."""
    for name, row in rows.items():
        if row.ours is not None and "fresh" not in name and name != f"{ROOT}: accuracy":
            claim(row.number == 1, f"{name} is {row.number:.0%}")


def traces(bench: Bench) -> Sequence[Row]:
    """Draw tr(W_out W_in) of every layer, negative ones dark."""
    found = {name: lineage_signature(folder).trace for name, folder in here(bench).items()}
    drawing, axes = panels(len(found), size=(2.6, 2.4))
    for place, (name, trace) in zip(axes, found.items(), strict=True):
        for chosen, (grey, hatch), label in ((trace < 0, BARS[0], "negative"), (trace >= 0, BARS[1], "positive")):
            heights = np.where(chosen, trace, 0.0)
            place.bar(range(len(trace)), heights, color=grey, hatch=hatch, edgecolor="0.1", linewidth=0.5, label=label)
        place.axhline(0, color="0.3", linewidth=0.6)
        place.set(title=name, xlabel="layer", ylabel="tr(W_out W_in)")
    drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    bench.draw("gpt2-trace", drawing)
    shares = {name: float(np.mean(trace < 0)) for name, trace in found.items()}
    mean = Row(
        "share of negative traces, all models", 0.86, float(np.mean(list(shares.values()))),
        f"{OFFLINE}; of four small models, which differ among themselves",
    )  # fmt: skip
    return [*(Row(f"{name}: share of negative traces", None, share) for name, share in shares.items()), mean]


def negative(rows: Mapping[str, Row]) -> None:
    """Some model's traces are mostly negative: of all-MiniLM-L6-v2, the one that was trained at length, or of GPT-2."""
    shares = [row.number for name, row in rows.items() if row.ours is not None and ROOT not in name]
    claim(max(shares) > 0.5, "no model has mostly negative traces")


def methods(bench: Bench) -> Sequence[Row]:
    """Draw the share of layers paired by trace, by Frobenius norm, and by trace of fresh weights."""
    found = seen_here(bench)
    fresh = [untrained(bench.cache, stand_ins()[0].folder, seed) for seed in range(bench.sized(2, 32))]
    baseline = float(np.mean([one.paths["mlp"].accuracy for one in fresh]))
    bars = {
        "trace": [one.paths["mlp"].accuracy for one in found.values()],
        "Frobenius norm": [one.frobenius for one in found.values()],
        "chance, 1/L": [1 / len(one.paths["mlp"].scores) for one in found.values()],
    }
    drawing, (axes,) = panels(size=(6.0, 2.8))
    places = np.arange(len(found))
    for number, ((label, heights), (grey, hatch)) in enumerate(zip(bars.items(), BARS, strict=True)):
        axes.bar(places + 0.27 * (number - 1), heights, 0.25, color=grey, hatch=hatch, edgecolor="0.1", label=label)
    axes.set_xticks(places, list(found))
    axes.set(ylabel="share of layers paired rightly", ylim=(0, 1.25))
    axes.legend(ncols=3, loc="upper center")
    bench.draw("gpt2-methods", drawing)
    rows = []
    for name, one in found.items():
        rows.append(Row(f"{name}, trace: accuracy", 1.0, one.paths["mlp"].accuracy, OFFLINE))
        rows.append(Row(f"{name}, Frobenius norm: accuracy", None, one.frobenius, NORMS))
    return [
        *rows,
        Row(
            f"{FRESH}, trace: accuracy",
            0.08,
            baseline,
            "chance is 1/L; 0.08 down to 0.02 in this figure of the paper, at most 0.04 in tab:transformer-family",
        ),
    ]


def traces_lead(rows: Mapping[str, Row]) -> None:
    """Traces pair at least as many layers as norms do."""
    for name, row in rows.items():
        if name.endswith("Frobenius norm: accuracy") and ROOT not in name:
            ours = rows[name.replace("Frobenius norm", "trace")].number
            claim(row.number <= ours, f"{name} is {row.number:.0%}, by trace {ours:.0%}")


EXPERIMENTS = (
    Experiment("tab:transformer-family", "pairing along the MLP path", families, concentrated),
    Experiment("tab:path-breakdown", "pairing along every path", breakdown, canonical),
    Experiment("fig:gpt2-pairing", "score matrices", pairing, diagonal),
    Experiment("fig:gpt2-trace", "traces by layer", traces, negative),
    Experiment("fig:gpt2-methods", "trace against norm", methods, traces_lead),
)
