"""`fig:gpt2-pairing`, `fig:gpt2-trace` and `fig:gpt2-methods`: score matrices, traces, and norms as a rival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.examples import stand_ins
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judges import lineage_signature
from benchmarks.paper.parts.pairing import Seen, seen, untrained
from benchmarks.paper.parts.plots import matrix, panels

OFFLINE = "the paper's GPT-2 family needs --online; trained models at hand stand in for it"
ROOT = "a GPT-2-lite root"
FRESH = "gpt2-base, fresh weights"
NORMS = "0.67 down to 0.52 in the paper"
BARS = (("0.1", ""), ("0.9", "////"), ("0.6", ""))


def here(bench: Bench) -> dict[str, str]:
    """Return the folders of the models at hand that stand in for the paper's, by name."""
    root = str(Benchmark.of(bench).root(0))
    return {one.name.split()[0].rsplit("/", 1)[-1]: str(one.folder) for one in stand_ins()} | {ROOT: root}


def paired(bench: Bench) -> dict[str, Seen]:
    """Return the pairing experiment of the models of the figures by name."""
    return {name: seen(folder) for name, folder in here(bench).items()}


def pairing(bench: Bench) -> Sequence[Row]:
    """Draw S(i, j) of every model, and of one with fresh weights."""
    found = {name: one.paths["mlp"] for name, one in paired(bench).items()}
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
    found = paired(bench)
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
    Experiment("fig:gpt2-pairing", "score matrices", pairing, diagonal),
    Experiment("fig:gpt2-trace", "traces by layer", traces, negative),
    Experiment("fig:gpt2-methods", "trace against norm", methods, traces_lead),
)
