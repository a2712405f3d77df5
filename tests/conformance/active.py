"""Rules of activity: the activation, the norm that feeds a branch and the router are the module's; each returns what is
not.

They are proved on one run of the real model with nothing made transparent.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.activity.curves import ZERO, Activation
from hf_lineage.architecture.matrix_sets import LayerSet
from hf_lineage.signature.products.matrices import activation
from tests.conformance.tiny import TinyModel, runner
from tests.conformance.traffic import TOKENS, Array, Traffic, Units, by_token, key

CLOSE = 1e-4
"""How far the output of a unit may be from the prediction, as a part of the largest value."""


def inactive(tiny: TinyModel) -> dict[str, list[str]]:
    """By the name of what noticed them, the writers of the sets of which a file says something that is not so."""
    named = [each for _, each in tiny.sets("mlp") if each.activation is not None]
    if not named:
        return {}
    traffic = Traffic(tiny)
    seen = {
        "activations_mistaken": _writers(each for each in named if not _acts(tiny, traffic, each)),
        "feeding_mistaken": _writers(each for each in named if not _fed(tiny, traffic, each)),
        "routing_mistaken": _writers(each for each in named if not _routed(tiny, traffic, each)),
        "activations_unproved": _unproved(tiny, traffic),
    }
    return {name: writers for name, writers in seen.items() if writers}


def _writers(sets: Iterable[LayerSet]) -> list[str]:
    return sorted({each.slots["down"].tensor for each in sets})


def _acts(tiny: TinyModel, traffic: Traffic, each: LayerSet) -> bool:
    """Whether what the writer was given is what the activation makes of what the readers gave."""
    factors: dict[int, Array] = {}
    activated: Activation = activation(each, tiny.read)  # type: ignore[assignment]
    for number, inside, beside, hidden in Units(tiny, traffic, each):
        expected, sure = _expected(each, activated, inside, beside)
        if expected.shape != hidden.shape:
            return False
        scale = max(np.abs(hidden).max(initial=0), 1e-2)
        if (np.abs(expected - hidden) <= CLOSE * scale)[sure].all():
            continue
        if not each.stacked:
            return False
        # A mixture may multiply what an expert gives a token before it is written: with one number for all its units.
        expert = number // each.units
        factor = np.divide(hidden, expected, out=np.zeros_like(hidden), where=np.abs(expected) > CLOSE * scale)
        if not _alike(factor, factors.setdefault(expert, factor.copy())):
            return False
    return True


def _expected(each: LayerSet, activated: Activation, inside: Array, beside: Array) -> tuple[Array, NDArray[np.bool]]:
    """What a unit gives, and where that is sure: not where a coarser type than that of the proof gives zero."""
    sure = np.greater(inside, activated.curve.cuts[0] if activated.curve.left == ZERO else -np.inf)
    value = activated.value(inside)
    if "gate" not in each.slots:
        return value, sure
    return value * (np.clip(beside, -activated.limit, activated.limit) + activated.offset), sure


def _alike(factor: Array, known: Array) -> bool:
    """Whether a factor for each token is the one that is known; what nothing is known of is learned."""
    known[known == 0] = factor[known == 0]
    both = (factor != 0) & (known != 0)
    return bool(np.allclose(factor[both], known[both], rtol=1e-3))


def _fed(tiny: TinyModel, traffic: Traffic, each: LayerSet) -> bool:
    """Whether the branch reads the output of the norm that feeds it according to the file, if there is one."""
    if (name := each.fed_by or each.norm) is None:
        return True
    given = traffic.outputs.get(tiny.owner(name), [])
    rows = np.concatenate([call for call in given if call.shape[-1] == each.width] or [np.zeros((0, each.width))])
    read = Units(tiny, traffic, each).read
    return all(_among(row, rows) for call in read for row in call[:3] if row.any())


def _among(row: Array, rows: Array) -> bool:
    """Whether a row is one of several but for a factor: a router may have weighed what an expert is given."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(row)
    return bool((rows @ row > (1 - CLOSE**2) * lengths).any())


def _routed(tiny: TinyModel, traffic: Traffic, each: LayerSet) -> bool:
    """Whether the tokens that reach an expert are those whose best scores are its own."""
    if each.router is None or each.routed is None:
        return True
    logits = np.array([np.concatenate(traffic.given.get(key(row), [])) for row in by_token(tiny.read(each.router))])
    added = by_token(tiny.read(each.correction)).reshape(-1, 1) if each.correction else np.zeros((1, 1))
    softmax = np.exp(logits) / np.exp(logits).sum(0)
    reached = Units(tiny, traffic, each).reached
    best = [_best(scores + added, each.routed) for scores in (each.scores.chosen_by(logits), softmax)]
    if each.table:
        (tokens,) = tiny.inputs(runner(tiny.model), 1, TOKENS)["input_ids"].tolist()
        best = [np.bincount(tiny.read(each.table)[tokens].ravel(), minlength=len(logits)).tolist()]
    return any([counts[expert] for expert in _experts(each)] == reached for counts in best)


def _best(scores: Array, count: int) -> list[int]:
    """How many tokens each expert is among the best of."""
    chosen = np.argsort(-scores, axis=0)[:count]
    return [int(count) for count in np.bincount(chosen.flatten(), minlength=len(scores))]


def _experts(each: LayerSet) -> Iterable[int]:
    """The experts that a set holds."""
    return range(each.stacked[0]) if each.stacked else (each.expert,)


def _unproved(tiny: TinyModel, traffic: Traffic) -> list[str]:
    """Writers of which no unit ran, but those of experts beside one of which one did."""
    ran: dict[tuple[int, bool], bool] = {}
    for layer, each in tiny.sets("mlp"):
        kind = layer, each.router is not None
        ran[kind] = ran.get(kind, False) or bool(Units(tiny, traffic, each).read)
    return [str(layer) for (layer, _), seen in ran.items() if not seen]
