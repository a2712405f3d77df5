"""`tab:factorization` and `tab:vision-speech`: products of the registry, bottlenecks, and models beyond language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.plots import matrix, panels
from benchmarks.paper.parts.training import pairing
from benchmarks.paper.parts.vision import bottleneck, vit
from hf_lineage import inspect
from hf_lineage.architecture.registry import factorizations, slots
from hf_lineage.architecture.schema import Factorization, MatrixSet, as_sets
from hf_lineage.checking.inspect import Pairing
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import NothingToCompare
from hf_lineage.source.headers import headers
from hf_lineage.source.locate import locate, weights


@dataclass(frozen=True)
class Kind:
    """What the matrix sets of an architecture have."""

    product: str  # as the paper writes it
    branch: str
    roles: set[str]
    lacks: set[str] = field(default_factory=set)
    normalization: tuple[str, ...] = ("rms_norm", "layer_norm", "batch_norm")
    factors: int = 2

    def has(self, found: Factorization) -> bool:
        sets = as_sets(getattr(found.branches, self.branch))
        return found.normalization in self.normalization and any(self._is(each) for each in sets)

    def _is(self, each: MatrixSet) -> bool:
        roles = {slot.role for slot in slots(each)}
        factors = 2 + (self.branch == "mlp" and bool(each.latent))
        return self.roles <= roles and not self.lacks & roles and factors == self.factors


KINDS = {
    "Transformer MLP": Kind("W_2 W_1", "mlp", {"up", "down"}, {"gate"}, ("rms_norm", "layer_norm")),
    "BasicBlock": Kind("W_2 W_1", "mlp", {"up", "down"}, {"gate"}, ("batch_norm",)),
    "Attention V/O path": Kind("W_O W_V", "attention", {"value", "output"}),
    "Attention Q/K path": Kind("W_Q W_Kᵀ", "attention", {"query", "key"}),
    "Bottleneck ResNet": Kind("W_3 W_2 W_1", "mlp", {"up", "down"}, {"gate"}, ("batch_norm",), factors=3),
    "SwiGLU MLP": Kind("W_down W_up", "mlp", {"up", "gate", "down"}),
}
"""By the paper's architecture."""


def registered(bench: Bench) -> Sequence[Row]:  # noqa: ARG001 (the registry has one size)
    """Return for every product of the table how many factorizations and classes of transformers have it."""
    rows = []
    for architecture, kind in KINDS.items():
        having = [found for found in factorizations() if kind.has(found)]
        classes = {name for found in having for name in found.classes}
        ours = f"{kind.product}: {len(having)} factorizations, {len(classes)} classes"
        examples = ", ".join(f"{found.name}.yaml" for found in having[:3])
        rows.append(Row(architecture, kind.product, ours, f"{examples}{' and others' if len(having) > 3 else ''}"))
    return rows


def complete(rows: Mapping[str, Row]) -> None:
    """The registry has every product of the table."""
    for architecture in KINDS:
        claim(": 0 " not in str(rows[architecture].ours), f"the registry has no product for {architecture}")


MODELS = {"ResNet-50": (1.00, 1.000), "ResNet-101": (1.00, 0.995), "ResNet-152": (0.91, 0.964)}
"""The paper's pair accuracy and AUC of the complete product in layer3."""
WHOLE = "W_3 W_2 W_1"
NAIVE = "the paper says chance"
SMALL = "a small ResNet, see benchmarks/paper/parts/vision.py, trained on the digits"


def pairings(model: str) -> tuple[Pairing, Pairing]:
    """Return the pairing experiment of a bottleneck ResNet's longest stage without W_2, and with it.

    That stage is layer3 in all three of the paper's. Convolutions are summed over their kernels, as everywhere.
    """
    opened = headers(weights(model, locate(model)))
    checkpoint, layout = opened.checkpoint, opened.layout
    stages: dict[int, list[list[torch.Tensor]]] = {}
    for number in layout.numbers("mlp"):
        names = sorted(name for name in layout.sets("mlp")[number][0].tensors if name.endswith("convolution.weight"))
        factors = [torch.from_numpy(single(checkpoint.read(name)).sum(axis=(2, 3))) for name in names]
        stages.setdefault(factors[0].shape[1], []).append(factors)
    longest = max(stages.values(), key=len)
    naive = pairing([(first, third) for first, _, third in longest])
    return naive, pairing([(second @ first, third) for first, second, third in longest])


@dataclass(frozen=True)
class Bottlenecks:
    """The pairing experiment of one model, each as pair accuracy and AUC."""

    blocks: int
    naive: Sequence[float]  # without the middle factor
    whole: Sequence[float]

    @classmethod
    def of(cls, model: str) -> Self:
        naive, whole = pairings(model)
        return cls(len(naive.scores), (naive.accuracy, naive.auc), (whole.accuracy, whole.auc))


def measured(name: str, found: Bottlenecks, note: str) -> list[Row]:
    """Return pair accuracy and AUC of a model without the middle factor and with it."""
    blocks = f"{found.blocks} blocks, chance is {1 / found.blocks:.3f}"
    return [
        Row(f"{name}, W_3 W_1: pair accuracy", None, found.naive[0], f"{NAIVE}; {blocks}"),
        Row(f"{name}, W_3 W_1: AUC", None, found.naive[1], f"{NAIVE}, which is 0.5"),
        Row(f"{name}, W_3 W_2 W_1: pair accuracy", None, found.whole[0], f"{note}; {blocks}"),
        Row(f"{name}, W_3 W_2 W_1: AUC", None, found.whole[1], note),
    ]


def bottlenecks(bench: Bench) -> Sequence[Row]:
    """Return the pairing experiment of a small ResNet, before and after training."""
    rows = []
    for blocks in bench.sized((5,), (8, 12)):
        plan = bottleneck(epochs=bench.sized(5, 15), blocks=blocks + 1)
        name, trained = f"tiny ResNet of {blocks}", plan.folder(bench.cache)
        begun = Bottlenecks.of(str(plan.begun(bench.cache)))
        rows += measured(name, Bottlenecks.of(str(trained)), SMALL)
        rows += measured(f"{name}, untrained", begun, "before training")
        rows.append(Row(f"{name}: told right", None, plan.right(trained), "digits held out"))
    later = [Row(f"{name}, {WHOLE}: pair accuracy", paper, None, "--online") for name, (paper, _) in MODELS.items()]
    return [*rows, *later]


def middle(rows: Mapping[str, Row]) -> None:
    """Most trained blocks find their partners by the complete product, and few without its middle factor."""
    for name in [name.removesuffix(": told right") for name in rows if name.endswith("told right")]:
        whole, naive = (rows[f"{name}, {product}: pair accuracy"].number for product in (WHOLE, "W_3 W_1"))
        claim(whole > 0.5, f"{name}: the complete product pairs {whole:.0%}")
        claim(naive < whole / 2, f"{name}: without the middle factor {naive:.0%} are paired")


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


def paired_along(model: str | Path, path: str = "mlp") -> Pairing:
    """Return the pairing experiment along one path; raise NothingToCompare with the reason where there is none."""
    found = inspect(str(model)).pairings[path]
    if isinstance(found, str):
        raise NothingToCompare(found)
    return found


def vision_and_speech(bench: Bench) -> Sequence[Row]:
    """Return the pairing experiment of a small ViT trained here."""
    plan = bench.sized(vit(10, layers=4, rate=2e-3, decay=3.0), vit(40))
    plans = [replace(plan, seed=seed) for seed in bench.sized((0,), (0, 1, 2))]
    begun, trained = [plan.begun(bench.cache) for plan in plans], [plan.folder(bench.cache) for plan in plans]
    bench.draw("vision-speech", drawn(paired_along(begun[0]), paired_along(trained[0])))
    right = float(np.mean([plan.right(folder) for folder in trained]))
    found = [Row("tiny ViT: told right", None, right, "digits held out")]
    for path, product in PATHS.items():
        before, after = ([paired_along(folder, path) for folder in folders] for folders in (begun, trained))
        each = ", ".join(f"{one.accuracy:.0%}" for one in after)
        found += [
            Row(f"tiny ViT, {product}: pair accuracy", None, mean_of(after, "accuracy"), f"{TINY}; by seed {each}"),
            Row(f"tiny ViT, {product}: AUC", None, mean_of(after, "auc")),
            Row(f"tiny ViT, {product}: share of negative traces", None, float(np.mean([p.signs < 0 for p in after]))),
            Row(f"tiny ViT, {product}, untrained: pair accuracy", None, mean_of(before, "accuracy"), CHANCE),
        ]
    for hasty in bench.sized((), (vit(40, rate=2e-3),)):
        accuracy = paired_along(hasty.folder(bench.cache)).accuracy
        found.append(Row("tiny ViT at twice the rate, W_2 W_1: pair accuracy", None, accuracy, RECIPE))
    for name, (accuracy, auc) in (PUBLIC | MODELS).items():
        remark = LAYER3 if name in MODELS else BOTH_STACKS if name.startswith("Whisper") else ""
        note = f"--online; {remark}" if remark else "--online"
        found += [Row(f"{name}: pair accuracy", accuracy, None, note), Row(f"{name}: AUC", auc, None, note)]
    return found


def mean_of(pairings: Sequence[Pairing], figure: str) -> float:
    return float(np.mean([getattr(one, figure) for one in pairings]))


def drawn(before: Pairing, after: Pairing) -> Figure:
    """Draw the score matrices of the ViT's MLPs before and after training."""
    figure, axes = panels(2, size=(3.0, 2.5))
    most = float(after.scores.max())
    for panel, found, title in zip(axes, (before, after), ("tiny ViT, untrained", "tiny ViT, trained"), strict=True):
        matrix(panel, found.scores, title, most)
    return figure


def partners(rows: Mapping[str, Row]) -> None:
    """On all paths together most projections of the trained ViT find their partners, few of the untrained one do."""
    after, before = (
        float(np.mean([rows[f"tiny ViT, {product}{state}: pair accuracy"].number for product in PATHS.values()]))
        for state in ("", ", untrained")
    )
    claim(after >= 0.75, f"the trained ViT pairs {after:.0%}")
    claim(before <= 0.4, f"the untrained ViT pairs {before:.0%}")


EXPERIMENTS = (
    Experiment("tab:factorization", "products of the registry", registered, complete),
    Experiment("tab:factorization", "bottlenecks without their middle factor", bottlenecks, middle),
    Experiment("tab:vision-speech", "vision and speech", vision_and_speech, partners),
)
