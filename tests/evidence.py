"""Evidence as it could have been measured, for verdicts and reports that are made of it."""

import numpy as np

from hf_lineage.calibrate import EmpiricalNull, PermutationNull
from hf_lineage.comparison import Comparison
from hf_lineage.inherited import Inherited
from hf_lineage.verdict import Evidence

LAYERS = 4


def inheriting(*shares, error=0.0):
    """Layers that write alike and of which these shares are inherited."""
    return Inherited(np.array(shares, dtype=float), np.full(len(shares), 1 / len(shares)), error)


def evidence(score=0.9, p=0.001, usable=LAYERS, empirical=None, coordinates=128, shares=(1.0,) * LAYERS, **others):
    """Evidence of four layers; nothing about units where `shares` is empty."""
    numbers = tuple(range(LAYERS))
    return Evidence(
        comparison=Comparison(
            similarity=np.eye(LAYERS) * score,
            gate=np.ones((LAYERS, LAYERS)),
            pairs=(np.arange(LAYERS), np.arange(LAYERS)),
            usable=np.arange(LAYERS) < usable,
            concentration=(np.ones(LAYERS), np.ones(LAYERS)),
            standard_error=0.0,
        ),
        permutation=PermutationNull(score, np.zeros(999), seed=0, coordinates=coordinates),
        empirical=empirical and EmpiricalNull({"other": empirical}, "a test"),
        p_value=p,
        **{"layers": (numbers, numbers), "inherited": inheriting(*shares) if shares else None} | others,
    )
