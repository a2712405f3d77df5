"""Judging: what `compare` does once it has read the weights, for models of which many pairs are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.scores import signature
from hf_lineage import Options, Recipe, extract
from hf_lineage.evidence.criteria import MINIMUM_EFFECT, Criteria
from hf_lineage.evidence.evaluate import judge_path
from hf_lineage.evidence.measure import Pair, measure
from hf_lineage.evidence.verdict import Evidence, Verdict
from hf_lineage.signature.values import PathSignature

DEFAULT = Options(seed=0)
"""The library's, and one order of layers and units, so that a run can be repeated."""
RELATED, UNRELATED = KINDS = "related", "unrelated"
FAINT = "faint"
"""Descendants that hold a small share of the reference."""
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Group:
    """Models of one shape, by name, and which pairs of them are looked at, by kind."""

    name: str
    models: Mapping[str, Callable[[Recipe], PathSignature]]
    pairs: Mapping[str, Pairs]


def of_networks(networks: Mapping[str, Networks]) -> dict[str, Callable[[Recipe], PathSignature]]:
    """Return the models of a group that are residual MLPs."""
    return {name: partial(signature, network.blocks) for name, network in networks.items()}


def of_folders(folders: Mapping[str, Path]) -> dict[str, Callable[[Recipe], PathSignature]]:
    """Return the models of a group that are checkpoints, read by the library's `extract`."""
    return {name: partial(_extracted, folder) for name, folder in folders.items()}


def _extracted(folder: Path, recipe: Recipe) -> PathSignature:
    return extract(str(folder), Options(recipe=recipe)).paths["mlp"]


def evidence(a: PathSignature, b: PathSignature, permutations: int = DEFAULT.permutations) -> Evidence:
    """Return what the library measures between two models along one path."""
    criteria = Criteria(permutations=permutations, seed=DEFAULT.seed or 0)
    return measure([Pair.along("mlp", a, b)], criteria)["mlp"]


def verdict(found: Evidence, alpha: float = DEFAULT.alpha, floor: float = MINIMUM_EFFECT) -> Verdict:
    """Return the verdict of the library on some evidence, at its own thresholds or at others."""
    return judge_path(found, Criteria(alpha, minimum_effect=floor))
