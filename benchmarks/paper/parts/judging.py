"""Judging: what `compare` does once it has read the weights, for models of which many pairs are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.scores import signature
from hf_lineage import Options, Recipe, extract
from hf_lineage.calibrate import sequential_null
from hf_lineage.comparison import compare_paths
from hf_lineage.evaluate import MINIMUM_EFFECT, Criteria, judge_path
from hf_lineage.signature import PathSignature
from hf_lineage.verdict import Evidence, Verdict

DEFAULT = Options(order_seed=0)
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
    """Return what is measured between two models along one path, without the layers that write next to nothing."""
    a, b = (each.of(np.flatnonzero(each.writing)) for each in (a, b))
    null = sequential_null(a, b, permutations, DEFAULT.seed)
    layers = tuple(range(len(a.trace))), tuple(range(len(b.trace)))
    return Evidence(compare_paths(a, b), null, None, null.p_value, layers)


def verdict(found: Evidence, alpha: float = DEFAULT.alpha, floor: float = MINIMUM_EFFECT) -> Verdict:
    """Return the verdict of the library on some evidence, at its own thresholds or at others."""
    return judge_path(found, Criteria(alpha, minimum_effect=floor))
