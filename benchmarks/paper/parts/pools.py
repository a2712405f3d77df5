"""Pools: groups of models of which all pairs without a common ancestor are looked at, and all of a base and its own.

Models share no weights where their seeds differ: students too, which learn from another's answers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.families import Family, Plan, family
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judging import FAINT, RELATED, UNRELATED, Group, Pairs, of_folders, of_networks
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
SHARES = (0.05, 0.1, 0.125, 0.15, 0.2, 0.5)
"""Of the weights, in a merge."""
GRAFTS = (1, 2)
"""Blocks."""


def pools(bench: Bench) -> Iterator[Group]:
    """Yield deep residual MLPs, wide ones, the GPT-2 models and the Llamas of the example Hub."""
    yield of_families("deep MLP", survival_families(bench)[: bench.sized(1, None, None)])
    yield of_families("wide MLP", [family(bench.cache, bench.sized(SMOKE, WIDE, WIDE), 0)])
    yield gpt2(Benchmark.of(bench))
    folders = {name: HUB / name for name in (LLAMA, *LLAMAS[RELATED], *LLAMAS[UNRELATED])}
    pairs = [(LLAMA, name) for name in LLAMAS[RELATED]]
    strangers = list(combinations((LLAMA, *LLAMAS[UNRELATED]), 2))
    yield Group("Llama", of_folders(folders), {RELATED: pairs, UNRELATED: strangers})


def of_families(name: str, families: Sequence[Family]) -> Group:
    """Return residual MLPs: what comes from each reference, in full or in part, and all models of unlike seeds."""
    networks: dict[str, Networks] = {}
    pairs: dict[str, list[tuple[str, str]]] = {RELATED: [], FAINT: [], UNRELATED: []}
    strangers: list[str] = []
    for found in families:
        reference, own, others = str(found.root), named(found, found.related), named(found, found.unrelated)
        mixed = mixtures(found)
        networks |= {reference: found.reference, **own, **others, **mixed}
        pairs[RELATED] += [(reference, member) for member in own]
        pairs[FAINT] += [(reference, member) for member in mixed]
        strangers += [reference, *others]
    pairs[UNRELATED] += combinations(strangers, 2)
    return Group(name, of_networks(networks), pairs)


def named(found: Family, kinds: Mapping[str, Networks]) -> dict[str, Networks]:
    """Return the trained suspects of some kinds, by name."""
    return {
        f"{found.root}: {kind} {number}": network
        for kind, several in kinds.items()
        if kind != UNTRAINED
        for number, network in enumerate(several)
    }


def mixtures(found: Family) -> dict[str, Networks]:
    """Return merges of a reference with each of its independent models, and grafts of some of its blocks onto them."""
    layers, mixed = found.plan.shape.layers, {}
    for number, donor in enumerate(found.unrelated["independent"]):
        for share in SHARES:
            mixed[f"{found.root}: {merge(share)}, {number}"] = merged(found.reference, donor, share)
        for count in GRAFTS:
            places = [layers * (2 * place + 1) // (2 * count) for place in range(count)]
            mixed[f"{found.root}: {graft(count)}, {number}"] = grafted(found.reference, donor, places)
    return mixed


def merge(share: float) -> str:
    """Return what a merge is called."""
    return f"merge with {share:.3g} of the weights"


def graft(count: int) -> str:
    """Return what a graft is called."""
    return f"graft of {count} {'block' if count == 1 else 'blocks'}"


def only(group: Group, what: str) -> Pairs:
    """Return the pairs of a group with a suspect that is called so."""
    return [(a, b) for pairs in group.pairs.values() for a, b in pairs if f": {what}" in b]


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
