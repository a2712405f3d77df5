"""The proof: everything in which a factorization differs from what the real module computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hf_lineage.running.model import PLAIN, TinyModel
from hf_lineage.running.proof.rules import RULES
from hf_lineage.running.run import FOLDED, Run
from hf_lineage.signature import Recipe
from hf_lineage.signature.products import matrix_products

ROUNDING = 1e-4


def faults(tiny: TinyModel) -> dict[str, Any]:
    """By the name of what noticed them; none if the factorization is the module's."""
    noticed = {
        "unclaimed": tiny.layout.unclaimed,
        "deviations": deviations(tiny),
        **{rule.__name__: rule(tiny) for rule in RULES},
    }
    return {name: seen for name, seen in noticed.items() if seen}


def deviations(tiny: TinyModel) -> dict[str, float]:
    """Path and recipe -> how far the worst product is from what the module computes, where that is not rounding."""
    everything = {
        f"{path} {'folded' if recipe.gains else 'plain'}": list(differences(tiny, path, recipe))
        for path in tiny.layout.paths
        for recipe in (PLAIN, FOLDED)
    }
    return {label: max(seen) for label, seen in everything.items() if not all(each < ROUNDING for each in seen)}


def differences(tiny: TinyModel, path: str, recipe: Recipe) -> Iterator[float]:
    """For every writer of a path the relative distance between the branch product and what the module gives out."""
    run = Run(tiny, path, recipe.gains).go()
    products: dict[Any, torch.Tensor] = {}
    for layer in range(tiny.layout.layers):
        sets = [each for at, each in tiny.sets(path) if at == layer]
        for each, term in zip(sets, matrix_products(tiny.layout, path, layer, recipe, tiny.read), strict=True):
            key = layer if path == "query_key" else run.exit(each)
            products[key] = products.get(key, torch.zeros(())) + torch.from_numpy(term.out @ term.inn)
    count = len(run.known)
    for key, product in products.items():
        if path == "query_key":
            scores = run.scores[key].flatten(0, -3).sum(0)
            scores = scores[:, scores.any(dim=0)][2 * count : 4 * count, : 2 * count]  # padding scores nothing
            rows, against = (scores[:count] - scores[count:]) / 2, run.known @ product @ run.known.mT
            seen = (rows[:, :count] - rows[:, count:]) / 2
            seen, expected = seen / seen.norm(), against / against.norm()  # the softmax has a scale of its own
        else:
            given = run.outputs[key]
            seen, expected = (given[:count] - given[count:]) / 2, run.known @ product.mT
        yield float((seen - expected).norm() / expected.norm())
