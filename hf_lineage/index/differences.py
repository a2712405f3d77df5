"""Differences: how far related models are from each other, and the tree along which distances add up.

All of it follows from the inner products of aligned sketches, whose layers each have norm 1: of models i, j and an
ancestor h, ⟨φ_i - φ_h, φ_j - φ_h⟩ = G_ij - G_ih - G_jh + G_hh. The models are leaves of the tree at first: an inner
node that coincides with a model becomes that model, and one whose branches share no more than siblings do is left out.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hf_lineage.evidence.comparison import Pairs
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.values import PathSignature

# The cosine of two differences from a common ancestor that siblings stay below: on the example models those that were
SIBLINGS = 0.5  # trained on the same data reach .3, and a merge has .75 with each of its two parents
BEYOND = 0.25  # least excess of a merge over its other parent along one parent, as a cosine; an intermediate has none


def normalise(sketch: Array) -> Array:
    """Return a sketch (L, d, k) with every layer of norm 1; zero where a layer is zero."""
    result = np.zeros_like(sketch)
    for layer, out in zip(sketch, result, strict=True):
        if (size := float(np.linalg.norm(layer))) > 0:
            np.divide(layer, np.float32(size), out=out)
    return result


def align_sketches(relative: PathSignature, pairs: Pairs, layers: int) -> Array:
    """Return the sketches of a relative's layers in the order of a model's `layers`, of norm 1, or zero if unpaired."""
    sketches = np.asarray(relative.sketch)
    result = np.zeros((layers, *sketches.shape[1:]), np.float32)
    for row, partner in zip(*pairs, strict=True):
        result[partner] = normalise(sketches[row : row + 1])[0]
    return result


def products(sketches: Sequence[Array]) -> Vector:
    """Return the mean inner product of the layers of aligned sketches, (n, n), over those that all have."""
    common = np.logical_and.reduce([sketch.any(axis=(1, 2)) for sketch in sketches])
    gram = np.zeros((len(sketches), len(sketches)))
    for layer in np.flatnonzero(common):
        rows = np.stack([sketch[layer].ravel() for sketch in sketches]).astype(np.float64)
        gram += rows @ rows.T
    return gram / max(1, int(common.sum()))


def along(gram: Vector, ancestor: int) -> Vector:
    """Return the cosine of every two models' differences from one of them, (n, n); 0 for the ancestor itself."""
    inner = _from(gram, ancestor)
    squares = _beyond_rounding(np.diag(inner))
    sizes = np.sqrt(np.outer(squares, squares))
    return np.asarray(np.divide(inner, sizes, out=np.zeros_like(inner), where=sizes > 0))


def apart(gram: Vector) -> Vector:
    """Return the distances of models, (n, n), in the mean over the layers that they have in common."""
    own = np.diag(gram)
    return np.sqrt(_beyond_rounding(own[:, None] + own[None, :] - 2 * gram))


def distances(gram: Vector) -> Vector:
    """Return squared distances, (n, n), that add up along a tree, as what training adds is nearly orthogonal to all."""
    cosines: Vector = -2 * np.log(np.clip(gram, 1e-3, 1.0))
    np.fill_diagonal(cosines, 0.0)
    return cosines


class Merge(NamedTuple):
    """A model that lies along the differences of several others, which are unlike each other."""

    model: int
    parents: tuple[int, ...]
    ancestor: int  # the model from which the differences were taken
    strength: float  # the lesser of its cosines with two parents


def merges(gram: Vector) -> list[Merge]:
    """Return what may be a merge of others, the strongest first.

    A merge M of X and Y lies along both, and beyond what X and Y have in common: an intermediate model, through which
    both come, has no more in common with Y than X has. No additive tree holds a merge.
    """
    candidates = []
    for ancestor in range(len(gram)):
        inner, cosines = _from(gram, ancestor), along(gram, ancestor)
        sizes = np.sqrt(_beyond_rounding(np.diag(inner)))
        for model in range(len(gram)):
            if model == ancestor or not sizes[model]:
                continue
            lies = cosines[model] >= SIBLINGS
            lies[[model, ancestor]] = False
            apart = inner[model][None, :] - inner
            beyond = np.divide(apart, sizes[model] * sizes, out=np.zeros_like(inner), where=sizes > 0)
            pairs = np.outer(lies, lies) & (cosines < SIBLINGS) & (beyond >= BEYOND) & (beyond.T >= BEYOND)
            if pairs.any():
                parents = tuple(map(int, np.flatnonzero(pairs.any(axis=1))))
                strength = float(np.minimum.outer(cosines[model], cosines[model])[pairs].max())
                candidates.append(Merge(model, parents, ancestor, strength))
    return sorted(candidates, key=lambda merge: -merge.strength)


def _from(gram: Vector, ancestor: int) -> Vector:
    own = gram[ancestor]
    return np.asarray(gram - own[:, None] - own[None, :] + own[ancestor])


def _beyond_rounding(squares: Vector) -> Vector:
    return np.where(squares > 1e-9, squares, 0.0)


# The length of every edge, by both of its nodes; a node from the number of models on is an unknown ancestor.
Links = dict[int, dict[int, float]]
# The cosines of relatives' differences from a model that they come from stay below it: siblings reach .3 (see above),
COINCIDES = 0.4  # and three that are equally far from an unknown ancestor have .5


def join_neighbours(distances: Vector) -> Links:
    """Return the tree by neighbour joining of a matrix of distances (n, n); lengths below 0 are 0."""
    size = len(distances)
    links: Links = {node: {} for node in range(size)}
    table = np.zeros((2 * size, 2 * size))
    table[:size, :size] = distances
    active = list(range(size))
    while len(active) > 2:
        part, count = table[np.ix_(active, active)], len(active)
        total = part.sum(axis=1)
        criterion = (count - 2) * part - total[:, None] - total[None, :]
        np.fill_diagonal(criterion, np.inf)
        first, second = sorted(divmod(int(criterion.argmin()), count))
        apart = part[first, second]
        length = min(max(apart / 2 + (total[first] - total[second]) / (2 * (count - 2)), 0.0), max(apart, 0.0))
        new = len(links)
        links[new] = {}
        _link(links, new, active[first], float(length))
        _link(links, new, active[second], float(apart - length))
        to_new = np.maximum((part[first] + part[second] - apart) / 2, 0.0)
        table[new, active] = table[active, new] = to_new
        active = [node for at, node in enumerate(active) if at not in (first, second)] + [new]
    if len(active) == 2:
        _link(links, active[0], active[1], float(table[active[0], active[1]]))
    return links


def simplify_tree(links: Links, models: int, preferred: Sequence[int], barred: Sequence[bool]) -> Links:
    """Return the tree without inner nodes that nothing supports, and with those that are a model as that model.

    Of several the model counts that most others declare (`preferred`), then the one with most branches. `barred` models
    share with others a declared base that is not in the tree, and are not put in its place.
    """
    links = {node: dict(there) for node, there in links.items()}
    while candidates := list(_find_unsupported(links, models, barred)):
        _, node, inner = min(
            candidates,
            key=lambda one: (-preferred[one[1]], -len(links[one[1]]), one[0]) if one[1] < models else (0, 0, one[0]),
        )
        length = links[node].pop(inner)
        for other, further in links.pop(inner).items():
            if other != node:
                del links[other][inner]
                _link(links, node, other, length + further)
    return links


def _find_unsupported(links: Links, models: int, barred: Sequence[bool]) -> Iterator[tuple[float, int, int]]:
    """Yield inner nodes whose branches share no more than siblings do, as seen from the node in front."""
    for node, there in links.items():
        if node < models and barred[node]:
            continue
        for inner, length in there.items():
            if inner >= models:
                reach = sorted(further + nearest(links, other, inner, models)
                               for other, further in links[inner].items() if other != node)  # fmt: skip
                sizes = np.sqrt((length + reach[0]) * (length + reach[1]))
                cosine = length / sizes if sizes > 0 else 0.0
                if cosine < (COINCIDES if node < models else SIBLINGS):
                    yield float(cosine), node, inner


def nearest(links: Links, node: int, behind: int, models: int) -> float:
    """Return the distance from a node to the nearest model, away from the node `behind` it."""
    if node < models:
        return 0.0
    return min(length + nearest(links, other, node, models) for other, length in links[node].items() if other != behind)


def _link(links: Links, one: int, other: int, length: float) -> None:
    links[one][other] = links[other][one] = length
