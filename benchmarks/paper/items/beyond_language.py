"""`tab:vision-speech`: projections of vision and speech models find their partners, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.items.factorizations import MODELS
from benchmarks.paper.parts.plots import matrix, panels
from benchmarks.paper.parts.vision import vit
from hf_lineage import inspect
from hf_lineage.checking.inspect import Pairing
from hf_lineage.errors import NothingToCompare

PUBLIC = {
    "ViT-B/16": (1.0, 1.00),
    "Whisper tiny": (1.0, 0.85),
    "Whisper base": (1.0, 0.85),
    "Whisper small": (1.0, 0.85),
}
"""Pair accuracy and AUC, of which the paper gives one for all of Whisper."""
BOTH_STACKS = "encoder and decoder blocks in one matrix, 2L of them; the paper has one AUC for three sizes"
LAYER3 = "layer3, see tab:factorization; the paper rounds the three AUCs to 0.96, which is ResNet-152's"
PATHS = {"mlp": "W_2 W_1", "value_output": "W_O W_V", "query_key": "W_Q W_Kᵀ"}
RECIPE = "seed 0: how well so small a model pairs its MLPs depends on the recipe; the one above was chosen for it"
CHANCE = "a random permutation finds one partner on average"
TINY = "layers of width 64, trained on the digits; see benchmarks/paper/parts/vision.py"


def pairing(model: str | Path, path: str = "mlp") -> Pairing:
    """Return the pairing experiment along one path; raise NothingToCompare with the reason where there is none."""
    found = inspect(str(model)).pairings[path]
    if isinstance(found, str):
        raise NothingToCompare(found)
    return found


def rows(bench: Bench) -> Sequence[Row]:
    """Return the pairing experiment of a small ViT trained here."""
    plan = bench.sized(vit(10, layers=4, rate=2e-3, decay=3.0), vit(40))
    plans = [replace(plan, seed=seed) for seed in bench.sized((0,), (0, 1, 2))]
    begun, trained = [plan.begun(bench.cache) for plan in plans], [plan.folder(bench.cache) for plan in plans]
    bench.draw("vision-speech", drawn(pairing(begun[0]), pairing(trained[0])))
    right = float(np.mean([plan.right(folder) for folder in trained]))
    found = [Row("tiny ViT: told right", None, right, "digits held out")]
    for path, product in PATHS.items():
        before, after = ([pairing(folder, path) for folder in folders] for folders in (begun, trained))
        each = ", ".join(f"{one.accuracy:.0%}" for one in after)
        found += [
            Row(f"tiny ViT, {product}: pair accuracy", None, mean(after, "accuracy"), f"{TINY}; by seed {each}"),
            Row(f"tiny ViT, {product}: AUC", None, mean(after, "auc")),
            Row(f"tiny ViT, {product}: share of negative traces", None, float(np.mean([p.signs < 0 for p in after]))),
            Row(f"tiny ViT, {product}, untrained: pair accuracy", None, mean(before, "accuracy"), CHANCE),
        ]
    for hasty in bench.sized((), (vit(40, rate=2e-3),)):
        accuracy = pairing(hasty.folder(bench.cache)).accuracy
        found.append(Row("tiny ViT at twice the rate, W_2 W_1: pair accuracy", None, accuracy, RECIPE))
    for name, (accuracy, auc) in (PUBLIC | MODELS).items():
        remark = LAYER3 if name in MODELS else BOTH_STACKS if name.startswith("Whisper") else ""
        note = f"--online; {remark}" if remark else "--online"
        found += [Row(f"{name}: pair accuracy", accuracy, None, note), Row(f"{name}: AUC", auc, None, note)]
    return found


def mean(pairings: Sequence[Pairing], figure: str) -> float:
    """Return the mean of `accuracy` or `auc`."""
    return float(np.mean([getattr(one, figure) for one in pairings]))


def drawn(before: Pairing, after: Pairing) -> Figure:
    """Draw the score matrices of the ViT's MLPs before and after training."""
    figure, axes = panels(2, size=(3.0, 2.5))
    most = float(after.scores.max())
    for panel, found, title in zip(axes, (before, after), ("tiny ViT, untrained", "tiny ViT, trained"), strict=True):
        matrix(panel, found.scores, title, most)
    return figure


def holds(rows: Mapping[str, Row]) -> None:
    """On all paths together most projections of the trained ViT find their partners, few of the untrained one do."""
    after, before = (
        float(np.mean([rows[f"tiny ViT, {product}{state}: pair accuracy"].number for product in PATHS.values()]))
        for state in ("", ", untrained")
    )
    claim(after >= 0.75, f"the trained ViT pairs {after:.0%}")
    claim(before <= 0.4, f"the untrained ViT pairs {before:.0%}")


EXPERIMENTS = (Experiment("tab:vision-speech", "vision and speech", rows, holds),)
