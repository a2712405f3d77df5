"""Identify: which models of an index a model is related to, and which of them is nearest.

The keys only say whom to test. Each candidate is then judged by the exact test on coordinates that no key is made of.
The test is corrected for the number of candidates that are tested (Bonferroni).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.checking.report import Blended
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge_signatures
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.differences import SIBLINGS, aligned, scaled
from hf_lineage.index.shard import BITS, Entry, entries_at, for_testing, key_of, similarities
from hf_lineage.index.store import Catalogue, entry_of
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.values import Signature

CHANCE = 4.0 * np.pi / 2 / np.sqrt(BITS)
"""Four standard errors of the cosine of two unrelated keys: what lies below is not tested."""
TESTED = 5
"""Candidates that are tested at most, by default."""


@dataclass(frozen=True)
class Relative:
    """A model of the index that was tested."""

    entry: Entry
    similarity: float
    """The cosine of the keys, by which it was chosen."""
    verdict: Verdict
    distance: float
    """‖φ_B - φ_A‖ in the mean over the layers that are paired: 0 for equal weights, √2 for unrelated ones."""
    along: float = 0.0
    """The cosine of the model's difference from the ancestor with this relative's: whether it comes through it."""


@dataclass(frozen=True)
class Identification:
    """The relatives of a model in an index, along one path."""

    model: str
    commit: str | None
    path: str
    searched: int
    """Entries of the index along this path, with a stream of the same width and a signature of the same recipe."""
    of: int
    """Entries of the index along this path, one for each model."""
    related: tuple[Relative, ...]
    """Tested models that the exact test calls RELATED: first those through which the model comes, then the ancestor."""
    ancestor: Relative | None
    """The relative in the middle of all of them, from which differences are taken; None where none is related."""
    others: tuple[Relative, ...]
    """Tested models that it does not call RELATED."""
    width: int = 0
    """Width of the model's stream."""
    otherwise: int = 0
    """Entries of the index along this path that are no part of the search: of another width, or another recipe."""
    blended: Blended | None = None
    """The relatives that together make up the model, by their weights; None where it is no blend of them, or the
    weights are not at hand."""


def identify(
    signature: Signature, path: str, catalogue: Catalogue, criteria: Criteria, most: int = TESTED
) -> Identification:
    """Return the models of an index to which a model is related, by its signature along one path.

    The model itself, at the same commit, is left out; what cannot be read of the index is passed over.
    """
    known, asked = catalogue.shards(), entry_of(signature, path)
    alike = [shard for shard in known if shard.group == asked.group]
    key = key_of(signature.paths[path])
    cosines = np.concatenate([np.zeros(0), *(similarities(key, keys) for shard in alike for keys in shard.pieces())])
    # Twice as many, because the model itself may be among them, and others twice.
    order = [int(row) for row in np.argsort(-cosines, kind="stable")[: 2 * most + 2] if cosines[row] > CHANCE]
    rows = zip(order[::-1], entries_at(alike, order)[::-1], strict=True)
    itself = (asked.model, asked.commit)
    candidates = {entry: row for row, entry in rows if (entry.model, entry.commit) != itself}
    chosen = sorted(candidates, key=lambda entry: -cosines[candidates[entry]])
    tests = max(1, min(most, len(chosen)))
    criteria = replace(criteria, analyses=tests, paths=(path,))
    tested, sketches = list[Relative](), []
    for entry in chosen:
        other = catalogue.tested(entry) if len(tested) < most else None
        if other is None:
            continue
        verdict = judge_signatures(for_testing(other, path), for_testing(signature, path), criteria)
        pairs = verdict.evidence[path].comparison.pairs
        tested.append(Relative(entry, float(cosines[candidates[entry]]), verdict, 0.0))
        sketches.append(aligned(other.paths[path], pairs, len(signature.paths[path].trace)))
    kin = [number for number, one in enumerate(tested) if one.verdict.is_related]
    own = scaled(np.asarray(signature.paths[path].sketch))
    related, ancestor = _ranked(own, [sketches[at] for at in kin], [tested[at] for at in kin])
    along = sum(shard.rows for shard in known if shard.group.path == path)
    return Identification(
        *(signature.model, signature.commit, path, len(cosines), along, related, ancestor),
        others=tuple(one for number, one in enumerate(tested) if number not in kin),
        width=asked.width,
        otherwise=along - len(cosines),
    )


def _ranked(
    model: Array, sketches: Sequence[Array], relatives: Sequence[Relative]
) -> tuple[tuple[Relative, ...], Relative | None]:
    """Return the relatives in order, and the ancestor: the one with the least sum of distances from all others.

    Of models that gave a part alone it is the nearest: others are alike to that part because they are of its family.
    """
    if not relatives:
        return (), None
    apart = _apart([model, *sketches])
    middle = min(range(len(relatives)), key=lambda at: (float(apart[at + 1, 1:].sum()), float(apart[0, at + 1])))
    parts = [at for at, one in enumerate(relatives) if one.verdict.code is Code.PART]
    middle = min(parts, key=lambda at: float(apart[0, at + 1])) if middle in parts else middle
    # A layer has norm 1 or is left out, so squared distances give cosines of differences as well.
    squares = np.square(apart)
    measured = [
        replace(relative, distance=float(apart[0, row]), along=_cosine(squares, 0, row, middle + 1))
        for row, relative in enumerate(relatives, 1)
    ]
    ancestor = measured[middle]
    others = sorted((one for one in measured if one is not ancestor), key=lambda one: (-one.along, one.distance))
    through = [one for one in others if one.along >= SIBLINGS]
    beside = others[len(through) :]
    return (*through, ancestor, *beside), ancestor


def _apart(sketches: Sequence[Array]) -> Vector:
    """Return the distances of aligned sketches, (n, n), over the layers that all have."""
    common = np.logical_and.reduce([one.any(axis=(1, 2)) for one in sketches])
    rows = [one if common.all() else one[common] for one in sketches]
    difference = np.empty_like(rows[0])
    apart = np.zeros((len(rows), len(rows)))
    for at, other in itertools.combinations(range(len(rows)), 2):
        np.subtract(rows[at], rows[other], out=difference)
        apart[at, other] = apart[other, at] = sum(float(np.vdot(layer, layer)) for layer in difference)
    return np.sqrt(apart / max(int(common.sum()), 1))


def _cosine(squares: Vector, first: int, second: int, ancestor: int) -> float:
    """Return the cosine of the differences of two from a third, by the squared distances of the three."""
    one, other, between = squares[first, ancestor], squares[second, ancestor], squares[first, second]
    sizes = float(np.sqrt(one * other))
    return float(one + other - between) / (2 * sizes) if sizes > 0 else 0.0
