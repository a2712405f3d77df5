"""Terms of a branch made of random numbers, and what the cap leaves of their parts."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.devices import workers
from hf_lineage.signature.matrix_product import MatrixProduct, Probes
from hf_lineage.signature.recipe import RECIPES, Array
from hf_lineage.signature.residual import UnitStatistics, cap, measure_units

WIDTH = 10
EXACT = replace(RECIPES["paper"], probes=None, coordinates=4)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def branch(terms: int = 1, hidden: int = 7, **said: Any) -> list[MatrixProduct]:
    return [
        MatrixProduct(
            random(WIDTH, hidden, seed=2 * number), random(hidden, WIDTH, seed=2 * number + 1), **{"part": 1} | said
        )
        for number in range(terms)
    ]


def product(terms: list[MatrixProduct]) -> NDArray[np.float64]:
    return np.sum([term.out.astype(np.float64) @ term.inn.astype(np.float64) for term in terms], axis=0)


def measured_units(*terms: MatrixProduct) -> list[UnitStatistics]:
    with workers() as share:
        return [measure_units(term, Probes.draw(EXACT, WIDTH), share) for term in terms]


def capped(terms: list[MatrixProduct]) -> list[float]:
    units = measured_units(*terms)
    with np.errstate(all="ignore"):  # as in the workers
        cap(units)
    return [norm for found in units for norm in found.norm.tolist()]


def with_norms(norms: list[float]) -> MatrixProduct:
    reader, writer = np.zeros((len(norms), WIDTH), np.float32), np.zeros((WIDTH, len(norms)), np.float32)
    reader[:, 0] = norms
    writer[1] = 1.0
    return MatrixProduct(writer, reader, 1)
