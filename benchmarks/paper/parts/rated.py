"""Rated: the verdict of the library on two folders, beside the paper's score and the cosine of weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.paper.parts.baselines import arrays, weight_cosine
from benchmarks.paper.parts.judges import lineage_signature, tensors
from benchmarks.paper.parts.scores import auroc, score
from hf_lineage import Options, compare
from hf_lineage.evidence.verdict import Verdict

SHARED = ("VERIFIED", "RELATED")  # words of verdicts on models that share ancestry
UNDECIDED = 0.5  # what a verdict counts as where it decides nothing
Score = Callable[[Path, Path], float]


def paper_score(reference: Path, suspect: Path) -> float:
    return score(lineage_signature(reference), lineage_signature(suspect))


def cosine(reference: Path, suspect: Path) -> float:
    """Return the cosine of the weights of all MLPs; 0 for models of unlike shapes, which have none."""
    one, other = arrays(tensors(reference)), arrays(tensors(suspect))
    shapes = [[(reader.shape, writer.shape) for reader, writer in blocks] for blocks in (one, other)]
    return weight_cosine(one, other) if shapes[0] == shapes[1] else 0.0


RIVALS: Mapping[str, Score] = {"paper's score": paper_score, "weight cosine": cosine}  # by name


def verdict(reference: Path, suspect: Path, *paths: str) -> Verdict:
    """Return the verdict of `hf-lineage compare` on two folders by the usual paths or by these, one order of units."""
    options = Options(seed=0, paths=paths) if paths else Options(seed=0)
    return compare(str(reference), str(suspect), options).rows[0].verdict


@dataclass
class Rated:
    """Suspects of one kind: the verdicts on them, and their scores by method."""

    verdicts: list[Verdict] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=dict)

    def add(self, reference: Path, suspect: Path, rivals: Mapping[str, Score]) -> None:
        self.verdicts.append(verdict(reference, suspect))
        for name, method in rivals.items():
            self.scores.setdefault(name, []).append(method(reference, suspect))

    @property
    def said(self) -> str:
        """How many are related, of how many."""
        return f"{sum(verdict.is_related for verdict in self.verdicts)}/{len(self.verdicts)}"

    @property
    def p_values(self) -> Sequence[float]:
        return [found.p_value for verdict in self.verdicts for found in verdict.evidence.values()]

    @property
    def labels(self) -> str:
        """How often each verdict was given, in the words that reports print."""
        labels = [verdict.label for verdict in self.verdicts]
        return ", ".join(f"{labels.count(each)} {each}" for each in dict.fromkeys(labels))

    @property
    def ranks(self) -> list[float]:
        """1 for related, 0 for UNRELATED."""
        ranks = dict.fromkeys(SHARED, 1.0) | {"UNRELATED": 0.0}
        return [ranks.get(verdict.word, UNDECIDED) for verdict in self.verdicts]


def separation(related: Rated, others: Rated) -> dict[str, float]:
    """Return the AUROC of the library's verdict, and of every rival's score, by name."""
    found = {"hf-lineage's verdict": auroc(related.ranks, others.ranks)}
    for name, scores in related.scores.items():
        found[name] = auroc(*(np.nan_to_num(each).tolist() for each in (scores, others.scores[name])))
    return found
