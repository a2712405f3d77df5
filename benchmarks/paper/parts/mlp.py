"""The paper's two benchmarks of residual MLPs, and the scores of the methods on their pairs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.baselines import by_layer, cka, fingerprint, ipguard, svcca
from benchmarks.paper.parts.families import Edits, Family, Plan, family
from benchmarks.paper.parts.models import Networks, Shape, alone, outputs, streams
from benchmarks.paper.parts.scores import auroc, gap_z, score, signature
from benchmarks.paper.parts.training import Schedule

OURS = "ours"
SMOKE = Plan(
    Shape(inputs=8, width=24, hidden=24, layers=5),
    samples=256, schedule=Schedule(60), tuning=Schedule(15, rate=3e-4), distillation=Schedule(30), tuned=2,
    edits=Edits((0.02, 0.1), (0.3, 0.7), (32, 256)), independent=4, other_task=1, untrained=1, students=2,
)  # fmt: skip
DEEP = Plan(Shape(layers=24))  # the 159 pairs: three references, 25 related and 28 unrelated suspects each
CLEAN = replace(
    DEEP, shape=Shape(layers=16), tuned=3, edits=Edits((0.02,) * 3, (0.3,) * 3, (256,) * 3),
    independent=8, other_task=0, untrained=0,
)  # fmt: skip
"""The 52 pairs as section 3.1 describes them: two references, 15 related and 11 unrelated suspects each."""
WIDE = Edits((0.01, 0.05, 0.15), (0.1, 0.5, 0.85), (16, 64, 256))
"""How strong the edits of the 52 pairs are in the Reproducibility Statement."""


def survival_families(bench: Bench) -> list[Family]:
    """Return the families of the 159 pairs; smoke has fewer."""
    plan, roots = bench.sized((SMOKE, 2), (DEEP, 3))
    return [family(bench.cache, plan, root) for root in range(roots)]


def baseline_families(bench: Bench, edits: Edits = CLEAN.edits, rate: float = CLEAN.tuning.rate) -> list[Family]:
    """Return the families of the 52 pairs, fine-tuned at a rate; smoke has fewer."""
    smaller = replace(SMOKE, other_task=0, untrained=0)
    plan = bench.sized(smaller, CLEAN)
    plan = replace(plan, edits=edits, tuning=replace(plan.tuning, rate=rate))
    return [family(bench.cache, plan, root) for root in range(2)]


Judge = Callable[[Networks], float]  # scores a suspect


@dataclass(frozen=True)
class Judges:
    """The methods, each of which knows one reference."""

    family: Family
    probes: int = 512  # how many inputs the methods that run the models see

    @cached_property
    def inputs(self) -> torch.Tensor:
        """Inputs of the reference's task that nobody was trained on (b, in)."""
        return self.family.task.data(self.probes, stream=1)[0]

    @cached_property
    def by_weights(self) -> Mapping[str, Judge]:
        """Ours, and the rivals that read weights."""
        reference = self.family.reference
        ours, blocks = signature(reference.blocks), baselines.arrays(reference.blocks)

        def rival(method: Callable[[baselines.Blocks, baselines.Blocks], float]) -> Judge:
            return lambda suspect: method(blocks, baselines.arrays(suspect.blocks))

        found: dict[str, Judge] = {OURS: lambda suspect: score(ours, signature(suspect.blocks))}
        return found | {name: rival(method) for name, method in baselines.METHODS.items()}

    @cached_property
    def by_outputs(self) -> Mapping[str, Judge]:
        """The rivals that run the models."""
        reference, inputs = self.family.reference, self.inputs
        activations = list(streams(reference, inputs))
        noise = torch.randn(len(inputs), reference.shape.width, generator=torch.Generator().manual_seed(0))
        branches = list(alone(reference, noise))

        def says(networks: Networks) -> Callable[[torch.Tensor], torch.Tensor]:
            return lambda inputs: outputs(networks, inputs)[0, :, 0]

        prints = fingerprint(says(reference), inputs[:100])
        with torch.no_grad():
            boundary = float(says(reference)(inputs[:100]).median())
        return {
            "SVCCA": lambda suspect: by_layer(svcca, activations, streams(suspect, inputs)),
            "SVCCA, block by block": lambda suspect: by_layer(svcca, branches, alone(suspect, noise)),
            "CKA": lambda suspect: by_layer(cka, activations, streams(suspect, inputs)),
            "IPGuard": lambda suspect: ipguard(says(reference), says(suspect), prints, boundary),
        }


@dataclass
class Scores:
    """The scores of some methods on related and unrelated pairs."""

    related: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    unrelated: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, judges: Mapping[str, Judge], related: bool, suspects: Iterable[Networks]) -> None:
        """Add what every method says of some suspects."""
        into = self.related if related else self.unrelated
        for suspect in suspects:
            for method, judge in judges.items():
                into[method].append(judge(suspect))

    def auroc(self, method: str) -> float:
        return auroc(self.related[method], self.unrelated[method])

    def gap_z(self, method: str) -> float:
        return gap_z(self.related[method], self.unrelated[method])
