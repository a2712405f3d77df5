"""Evidence as it could have been measured, for verdicts and reports that are made of it."""

from dataclasses import replace

import numpy as np

from hf_lineage.evidence.comparison import Comparison
from hf_lineage.evidence.inherited import InheritedShare
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.permutation import PermutationNull, TriedElements
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.lora.gradient_alignment import Trace

LAYERS = 4


def trace(observed=4.0, directions=16.0, analyses=1, layers=(0, 1), size=0.05):
    """The test of an adapter of two projections in two layers, with 999 permutations between 0 and 1."""
    roles = tuple(role for role in ("value", "down") for _ in layers)
    column = np.concatenate([[observed], np.random.default_rng(0).permutation(np.linspace(0, 1, 999))])
    numbers = np.full(len(roles), directions), np.full(len(roles), size)
    return Trace(roles, layers * 2, np.tile(column[:, None], len(roles)), *numbers, seed=0, analyses=analyses)


def inheriting(*shares, error=0.0):
    """Layers that write alike and of which these shares are inherited."""
    return InheritedShare(np.array(shares, dtype=float), np.full(len(shares), 1 / len(shares)), error)


def null(observed, scores, first=None, coordinates=128, **others):
    """A permutation null of which both halves of the group give these scores."""
    half = TriedElements(observed, np.asarray(scores, dtype=float), first)
    return PermutationNull(half, half, seed=0, coordinates=coordinates, **others)


def permuted(score, chance=0.0, coordinates=128):
    """A permutation null all of whose scores are what chance gives."""
    return null(score, np.full(999, chance), coordinates=coordinates)


def independent(score, models=1):
    """So many independent models that all reach one score."""
    return EmpiricalNull({f"other {number}": score for number in range(models)}, "a test")


def nulls(permutation, empirical, score):
    """What a score is held against: permutations, and independent models where there are any."""
    return (permutation, *([replace(empirical, observed=score)] if empirical else []))


def evidence(score=0.9, p=0.001, usable=LAYERS, empirical=None, shares=(1.0,) * LAYERS, permutation=None, **others):
    """Evidence of four layers; nothing about units where `shares` is empty."""
    numbers = tuple(range(LAYERS))
    empirical = independent(empirical) if isinstance(empirical, float) else empirical
    return Evidence(
        comparison=Comparison(
            similarity=np.eye(LAYERS) * score,
            pairs=(np.arange(LAYERS), np.arange(LAYERS)),
            usable=np.arange(LAYERS) < usable,
            concentration=(np.ones(LAYERS), np.ones(LAYERS)),
            standard_error=0.0,
        ),
        nulls=nulls(permutation or permuted(score), empirical, score),
        p_value=p,
        **{"layers": (numbers, numbers), "inherited": inheriting(*shares) if shares else None} | others,
    )
