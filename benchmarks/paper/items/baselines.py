"""`tab:baselines`, the MLP columns, and `tab:harder-bench`: seven methods on 52 pairs, and on grafts and merges."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.paper.experiment import Bench, Experiment, Row, claim, differs
from benchmarks.paper.parts.families import Edits, Family
from benchmarks.paper.parts.mlp import CLEAN, OURS, WIDE, Judges, Scores, baseline_families
from benchmarks.paper.parts.models import Networks, grafted, merged
from benchmarks.paper.parts.scores import auroc, least_auroc, spearman

PAPER = {
    OURS: (1.00, 53.0),
    "weight cosine": (1.00, 76.3),
    "aligned Frobenius": (1.00, 72.0),
    "singular values": (1.00, 7.9),
    "SVCCA": (1.00, 45.4),
    "CKA": (0.83, 8.6),
    "IPGuard": (0.70, -3.5),
}
"""AUROC and Gap-Z."""
NOTES = {
    OURS: "the spread of the related scores decides, and with it how fast was fine-tuned, which the paper does not say",
    "weight cosine": "the spread of the related scores decides, and with it how fast was fine-tuned",
    "aligned Frobenius": "a plain distance relative to the reference's norm; the paper does not define its own",
    "singular values": "relative distances, matrix by matrix; the paper does not define its own, and to ours a model "
    "fine-tuned to another target is as far as an independent one",
    "SVCCA": "the paper names neither the inputs nor the layers it compares; here the stream after every block",
    "CKA": "the paper names neither the inputs nor the layers it compares; here the stream after every block",
    "IPGuard": "the paper's analogue is not given; ours is a rate of agreement, which does not leave [0, 1]",
}


def scores(bench: Bench, edits: Edits) -> Scores:
    """Return what the seven methods say of the pairs."""
    found = Scores()
    for family in baseline_families(bench, edits):
        judges = Judges(family)
        chosen = {name: {**judges.by_weights, **judges.by_outputs}[name] for name in PAPER}
        for pair in family.pairs:
            found.note(chosen, pair.related, [pair.suspect])
    return found


def separated(bench: Bench) -> Sequence[Row]:
    """Return AUROC and Gap-Z of every method, and ours on edits of three strengths."""
    found, wide = scores(bench, CLEAN.edits), scores(bench, WIDE)
    fast = Scores()
    for family in baseline_families(bench, rate=CLEAN.schedule.rate):
        judges = {name: Judges(family).by_weights[name] for name in (OURS, "weight cosine")}
        for pair in family.pairs:
            fast.note(judges, pair.related, [pair.suspect])
    measured = []
    for method, (area, gap) in PAPER.items():
        measured += [
            Row.beside(f"MLP, {method}: AUROC", area, found.auroc(method), NOTES[method]),
            Row(f"MLP, {method}: Gap-Z", gap, found.gap_z(method), remark(method, area, gap, found.gap_z(method))),
        ]
    note = "the pairs of the Reproducibility Statement: noise to 0.15, pruning to 85 %, 16 to 256 levels"
    return [
        *measured,
        Row("MLP, ours, edits of three strengths: AUROC", None, wide.auroc(OURS), note),
        Row(
            "MLP, ours, edits of three strengths: Gap-Z", None, wide.gap_z(OURS),
            f"{note}; 85 % pruning alone keeps the paper's 53.0 out of reach, so its table must be of the milder edits "
            "of section 3.1",
        ),
        *(
            Row(
                f"MLP, {method}, fine-tuned at the rate of training: Gap-Z", None, fast.gap_z(method),
                "the same pairs, fine-tuned three times as fast: the margin follows a choice that the paper does not "
                "print, and ours was made after seeing this figure beside the paper's",
            )
            for method in (OURS, "weight cosine")
        ),
        Row("MLP, pairs", 52, len(found.related[OURS]) + len(found.unrelated[OURS]), ""),
    ]  # fmt: skip


def remark(method: str, area: float, gap: float, ours: float) -> str:
    """Return why a Gap-Z differs, where it does, and whether the paper's figures can be true together."""
    bound = least_auroc(gap)
    inside, limit = (area >= bound, f"least {bound:.2f}") if gap > 0 else (area <= 1 - bound, f"most {1 - bound:.2f}")
    why = f"by Cantelli's inequality a Gap-Z of {gap:+} means an AUROC of at {limit}, not {area:.2f} as printed"
    return "; ".join([NOTES[method]] * differs(ours, gap) + [why] * (not inside))


def holds(rows: Mapping[str, Row]) -> None:
    """Ours separates all pairs, whether the edits are mild or strong, by a wider margin than CKA."""
    for name in ("MLP, ours: AUROC", "MLP, ours, edits of three strengths: AUROC"):
        claim(rows[name].number == 1, f"{name} is {rows[name].ours}")
    ours, rival = (rows[f"MLP, {method}: Gap-Z"].number for method in (OURS, "CKA"))
    claim(ours > rival and math.isfinite(ours), f"Gap-Z is {ours:.1f}, that of CKA {rival:.1f}")


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the blocks, or of the weights; related are those from one half on
DONORS = 2
MIXED = {
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
MIXED_NOTES = {
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


def ordered(bench: Bench) -> Sequence[Row]:
    """Return AUROC and Spearman's correlation of every method, for grafts and for merges."""
    found: dict[str, list[tuple[float, dict[str, float]]]] = {"graft": [], "merge": []}
    for family in baseline_families(bench):
        judges = Judges(family)
        chosen = {name: {**judges.by_weights, **judges.by_outputs}[name] for name in MIXED}
        for mixture in mixtures(family):
            scores = {name: judge(mixture.network) for name, judge in chosen.items()}
            found[mixture.kind].append((mixture.share, scores))
    rows = []
    for method, printed in MIXED.items():
        for number, (kind, pairs) in enumerate(found.items()):
            said, shares = [scores[method] for _, scores in pairs], [share for share, _ in pairs]
            related = [score for score, share in zip(said, shares, strict=True) if share >= 0.5]
            unrelated = [score for score, share in zip(said, shares, strict=True) if share < 0.5]
            note = MIXED_NOTES.get(method, "")
            rows += [
                Row.beside(f"{method}, {kind}: AUROC", printed[number], auroc(related, unrelated), note),
                Row.beside(f"{method}, {kind}: Spearman", printed[2 + number], spearman(said, shares), note),
            ]
    return [*rows, Row("pairs", 40, sum(map(len, found.values())))]


def ordered_by_share(rows: Mapping[str, Row]) -> None:
    """Ours tells halves from quarters and grows with the share."""
    for kind in ("graft", "merge"):
        reached, ordered = (rows[f"{OURS}, {kind}: {name}"].number for name in ("AUROC", "Spearman"))
        claim(reached >= 0.95, f"our AUROC of {kind}s is {reached:.2f}")
        claim(ordered >= 0.9, f"our score follows the share of {kind}s with a correlation of {ordered:.2f} only")


EXPERIMENTS = (
    Experiment("tab:baselines", "MLP columns", separated, holds),
    Experiment("tab:harder-bench", "grafts and merges", ordered, ordered_by_share),
)
