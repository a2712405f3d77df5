"""`tab:harder-bench`: 40 models that come from the reference in part, as grafts of its blocks or as linear merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.families import Family
from benchmarks.paper.parts.mlp import OURS, Judges, baseline_families
from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.scores import auroc, spearman
from benchmarks.paper.parts.transformations import grafted, merged

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the blocks, or of the weights; related are those from one half on."""
DONORS = 2
PAPER = {
    OURS: (0.98, 1.00, 0.96, 0.96),
    "aligned Frobenius": (1.00, 1.00, 0.99, 0.99),
    "weight cosine": (1.00, 1.00, 0.98, 0.96),
    "singular values": (1.00, 0.45, 0.99, 0.23),
    "SVCCA": (1.00, 1.00, 0.97, 0.99),
    "SVCCA, block by block": (1.00, 1.00, 0.97, 0.99),
    "CKA": (0.81, 0.78, 0.73, 0.75),
    "IPGuard": (0.05, 0.45, -0.83, 0.22),
}
"""AUROC of grafts and merges, Spearman's correlation of grafts and merges."""
NOTES = {
    OURS: "ours are in perfect order; the paper's 0.98 means that a graft of 4 blocks scored above one of 8",
    "singular values": "halfway between unrelated matrices singular values are smallest, so they do not tell the share",
    "CKA": "of the stream after every block; the paper names neither inputs nor layers",
    "SVCCA": "a grafted block reads another stream than at home, so activations hide grafts; the paper's "
    "order comes out where every block is given the same inputs",
    "IPGuard": "the paper's analogue is not given; which grafts and merges still work at all decides its score",
}


@dataclass(frozen=True)
class Mixture:
    """A model of which a share comes from the reference."""

    kind: str
    share: float
    network: Networks


def mixtures(family: Family) -> Iterator[Mixture]:
    """Yield the grafts, blocks drawn at random, and the merges of one reference with two independent models."""
    random = torch.Generator().manual_seed(family.root)
    layers = family.plan.shape.layers
    for donor in list(family.unrelated["independent"])[:DONORS]:
        for share in SHARES:
            chosen = torch.randperm(layers, generator=random)[: round(share * layers)].tolist()
            yield Mixture("graft", share, grafted(family.reference, donor, chosen))
            yield Mixture("merge", share, merged(family.reference, donor, share))


def rows(bench: Bench) -> Sequence[Row]:
    """Return AUROC and Spearman's correlation of every method, for grafts and for merges."""
    found: dict[str, list[tuple[float, dict[str, float]]]] = {"graft": [], "merge": []}
    for family in baseline_families(bench):
        judges = Judges(family)
        chosen = {name: {**judges.by_weights, **judges.by_outputs}[name] for name in PAPER}
        for mixture in mixtures(family):
            scores = {name: judge(mixture.network) for name, judge in chosen.items()}
            found[mixture.kind].append((mixture.share, scores))
    rows = []
    for method, printed in PAPER.items():
        for number, (kind, pairs) in enumerate(found.items()):
            said, shares = [scores[method] for _, scores in pairs], [share for share, _ in pairs]
            related = [score for score, share in zip(said, shares, strict=True) if share >= 0.5]
            unrelated = [score for score, share in zip(said, shares, strict=True) if share < 0.5]
            note = NOTES.get(method, "")
            rows += [
                Row.beside(f"{method}, {kind}: AUROC", printed[number], auroc(related, unrelated), note),
                Row.beside(f"{method}, {kind}: Spearman", printed[2 + number], spearman(said, shares), note),
            ]
    return [*rows, Row("pairs", 40, sum(map(len, found.values())))]


def holds(rows: Mapping[str, Row]) -> None:
    """Ours tells halves from quarters and grows with the share."""
    for kind in ("graft", "merge"):
        reached, ordered = (rows[f"{OURS}, {kind}: {name}"].number for name in ("AUROC", "Spearman"))
        claim(reached >= 0.95, f"our AUROC of {kind}s is {reached:.2f}")
        claim(ordered >= 0.9, f"our score follows the share of {kind}s with a correlation of {ordered:.2f} only")


EXPERIMENTS = (Experiment("tab:harder-bench", "grafts and merges", rows, holds),)
