"""Pools: groups of models of which all pairs without a common ancestor are looked at, and all of a base and its own.

Models share no weights where their seeds differ: students too, which learn from another's answers alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.families import Family, Plan, family
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judging import RELATED, UNRELATED, Group, of_folders, of_networks
from benchmarks.paper.parts.mlp import SMOKE, survival_families
from benchmarks.paper.parts.models import Networks, Shape
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.training import Schedule
from benchmarks.paper.parts.transformations import grafted, merged

LLAMA = "acme/llama-base"
LLAMAS = {
    RELATED: (
        "fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged", "fern/llama-merge-a-b",
        "heron/llama-int8-rounded", "heron/llama-pruned-50", "magpie/llama-laundered", "moss/llama-continued",
    ),
    UNRELATED: ("otter/llama-independent", "magpie/llama-liar", "heron/llama-distilled"),
}  # fmt: skip
"""Of `examples/hub`: what comes from the base, and what does not."""
WIDE = Plan(
    Shape(width=160, hidden=160, layers=8), schedule=Schedule(60), distillation=Schedule(30), independent=11,
    other_task=0, untrained=0,
)  # fmt: skip
"""Residual MLPs that are wider than the test keeps coordinates."""
UNTRAINED = "untrained"
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Of the weights, in a merge."""
BLOCKS = (1, 2, 6)
"""In a graft."""


def pools(bench: Bench) -> Iterator[Group]:
    """Yield deep residual MLPs, wide ones, the GPT-2 models and the Llamas of the example Hub."""
    yield of_families("deep MLP", survival_families(bench))
    yield of_families("wide MLP", [family(bench.cache, bench.sized(SMOKE, WIDE, WIDE), 0)])
    yield gpt2(Benchmark.of(bench))
    folders = {name: HUB / name for name in (LLAMA, *LLAMAS[RELATED], *LLAMAS[UNRELATED])}
    pairs = [(LLAMA, name) for name in LLAMAS[RELATED]]
    strangers = list(combinations((LLAMA, *LLAMAS[UNRELATED]), 2))
    yield Group("Llama", of_folders(folders), {RELATED: pairs, UNRELATED: strangers})


def of_families(name: str, families: list[Family]) -> Group:
    """Return residual MLPs: every reference with its descendants, and all trained models of unlike seeds."""
    networks: dict[str, Networks] = {}
    roots, related = [], []
    for found in families:
        reference = f"{found.root}"
        networks[reference] = found.reference
        roots.append(reference)
        for kinds, into in ((found.related, None), (found.unrelated, roots)):
            for kind, several in kinds.items():
                if kind != UNTRAINED:
                    members = {f"{found.root} {kind} {number}": network for number, network in enumerate(several)}
                    networks |= members
                    if into is None:
                        related += [(reference, member) for member in members]
                    else:
                        into += members
    return Group(name, of_networks(networks), {RELATED: related, UNRELATED: list(combinations(roots, 2))})


def gpt2(benchmark: Benchmark) -> Group:
    """Return the GPT-2 models: roots, students, and what comes from each root."""
    folders: dict[str, Path] = {}
    related = []
    for number in benchmark.everything:
        folders |= {f"{number}": benchmark.root(number), f"{number} student": benchmark.student(number)}
        descendants = {f"{number} {kind}": folder for kind, folder in benchmark.descendants(number).items()}
        folders |= descendants
        related += [(f"{number}", name) for name in descendants]
    strangers = [name for number in benchmark.everything for name in (f"{number}", f"{number} student")]
    return Group("GPT-2", of_folders(folders), {RELATED: related, UNRELATED: list(combinations(strangers, 2))})


def faint(bench: Bench) -> Iterator[tuple[str, float, Group]]:
    """Yield what it is, the share of the reference in it, and a reference beside models that hold only so much."""
    found = survival_families(bench)[0]
    layers = found.plan.shape.layers
    donors = list(found.unrelated["independent"])
    for share in SHARES:
        mixed = [merged(found.reference, donor, share) for donor in donors]
        yield f"merge with {share:.0%} of the weights", share, _beside(found.reference, mixed)
    for count in (count for count in BLOCKS if count <= layers):
        places = [round((number + 0.5) * layers / count) % layers for number in range(count)]
        mixed = [grafted(found.reference, donor, places) for donor in donors]
        yield f"graft of {count} of {layers} blocks", count / layers, _beside(found.reference, mixed)


def _beside(reference: Networks, mixed: list[Networks]) -> Group:
    networks = {f"{number}": network for number, network in enumerate(mixed)}
    pairs = [("reference", name) for name in networks]
    return Group("deep MLP", of_networks({"reference": reference, **networks}), {RELATED: pairs, UNRELATED: []})
