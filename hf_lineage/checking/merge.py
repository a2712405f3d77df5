"""Merges: what every parent gave to a model, read one layer after the other, beside the declared recipe.

No more than one matrix of the model and of each parent is in memory; of large matrices some rows are read.

Shares change no verdict. RELATED says that a merge and a parent share ancestry; any two models of one family do, so
that a parent which gave nothing is RELATED as well, and only its share shows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hf_lineage.architecture.layers import LayerSet
from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.registry import Slot
from hf_lineage.checking.declared import is_named
from hf_lineage.checking.report import Combination
from hf_lineage.checking.result import MERGE, ClaimResult
from hf_lineage.checkpoint.rounding import DIGITS, Matrix, find_grid, shortest, spacing
from hf_lineage.claims.merges import MergeRecipe
from hf_lineage.claims.sources import merge_recipe
from hf_lineage.evidence.merge import (
    MOST_LEFT,
    Blend,
    BlendPlace,
    Parent,
    Products,
    Share,
    StoredMatrix,
    blend_of,
    inner_products,
)
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.sample import Sample
from hf_lineage.source.model import FromWeights, OpenedModel
from hf_lineage.source.options import Options
from hf_lineage.source.rows import UNSEEN, digits_of, matrix, rows_of, weights_of

ALIKE = 0.3
"""The least cosine of a matrix with that of a parent of which it may be a part; of unrelated ones it is near 0."""
GLANCE = 16
"""Rows of a matrix by which the layer of a parent is found that a layer of the model is most like."""


def read_matrices(
    parents: Sequence[FromWeights], model: FromWeights, layers: Sequence[int], sample: Sample, sampled: bool
) -> list[Products]:
    """Return the matrices of these layers of a model beside those of its parents.

    `sampled` says that of the layers no more than a sample is on this disk, so that only layers of one number can be
    compared.
    """
    places = [_places(parent, model, layers, sampled) for parent in parents]
    return [one for layer in layers for one in _layer(parents, model, layer, places, sample, sampled)]


def _places(parent: FromWeights, model: FromWeights, layers: Sequence[int], sampled: bool) -> Mapping[int, int]:
    """Return for each layer of the model the layer of a parent that it is most like."""
    count, places = parent.headers.layout.layers, dict[int, int]()
    if sampled:
        return {layer: layer for layer in layers if layer < count}
    glances = {number: rows for number in range(count) if (rows := _glance(parent, number)) is not None}
    for layer in layers:
        own = _glance(model, layer)
        cosines = {} if own is None else {number: _cosine(rows, own) for number, rows in glances.items()}
        if cosines:
            nearest = max(cosines, key=lambda number: (cosines[number], number == layer))
            places[layer] = nearest if cosines[nearest] >= ALIKE else layer
    return places


def _glance(model: FromWeights, layer: int) -> Matrix | None:
    """Return a few rows of the first matrix of a layer; None of one that has no branch."""
    first = next((sets[layer][0] for sets in model.headers.layout.branches.values() if sets[layer]), None)
    return None if first is None else matrix(model, next(iter(first.slots.values())), (slice(0, GLANCE),))[:GLANCE]


def _layer(
    parents: Sequence[FromWeights],
    model: FromWeights,
    layer: int,
    places: Sequence[Mapping[int, int]],
    sample: Sample,
    sampled: bool,
) -> Iterator[Products]:
    for branch, sets in model.headers.layout.branches.items():
        if not sets[layer]:
            continue
        others = [_set(parent, branch, place.get(layer)) for parent, place in zip(parents, places, strict=True)]
        names = set[str]()
        for role, slot in sets[layer][0].slots.items():
            if slot.tensor in names or (sampled and role in UNSEEN) or not _readable(model, slot, sampled):
                continue
            names.add(slot.tensor)
            rows = rows_of(model, role, sets[layer][0], layer, sample, sampled)
            numbers, alike = matrix(model, slot, rows), []
            for number, (parent, other) in enumerate(zip(parents, others, strict=True)):
                same = other.slots.get(role) if other else None
                if not same or same.roles != slot.roles or _shape(parent, same) != _shape(model, slot):
                    continue
                if _readable(parent, same, sampled):
                    other_numbers = matrix(parent, same, rows)
                    if _cosine(other_numbers, numbers) >= ALIKE:
                        alike.append((number, StoredMatrix(other_numbers)))
            one = inner_products(layer, branch, alike, _read_stored(model, slot, numbers)) if alike else None
            if one is not None:
                yield one


def _set(parent: FromWeights, branch: str, layer: int | None) -> LayerSet | None:
    layers = parent.headers.layout.branches.get(branch, ())
    return layers[layer][0] if layer is not None and layer < len(layers) and layers[layer] else None


def _shape(model: FromWeights, slot: Slot) -> tuple[int, ...]:
    return model.headers.checkpoint.tensors[slot.tensor].shape


def _readable(model: FromWeights, slot: Slot, sampled: bool) -> bool:
    checkpoint = model.headers.checkpoint
    return checkpoint.rows(slot.tensor) is not None if sampled else checkpoint.at_hand(slot.tensor)


def _read_stored(model: FromWeights, slot: Slot, numbers: Matrix) -> StoredMatrix:
    """Return a matrix of the model with the spacing of its format, and of the quantization on whose grid it lies."""
    checkpoint = model.headers.checkpoint
    decoded = slot.tensor in checkpoint.decoded_names
    digits = shortest(numbers, digits_of(checkpoint, slot.tensor))
    grid = find_grid(numbers, DIGITS["F32"] if decoded else digits)
    return StoredMatrix(
        numbers,
        0 if decoded or grid else digits,
        None if decoded else spacing(numbers, digits),
        grid.step if grid else None,
    )


def _cosine(one: Matrix, other: Matrix) -> float:
    if one.shape != other.shape:
        return 0.0
    sizes = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.vdot(one, other)) / sizes if sizes > 0 else 0.0


MOST = 16
"""Parents of one model whose shares are measured: more of them cannot be told apart."""
TOGETHER = 3
"""Models of an index that may be parents of one model together."""
SHOWING = (BlendPlace.BLEND, BlendPlace.SHARED, BlendPlace.FROM_MODEL, BlendPlace.PIECES, BlendPlace.NEAR)
"""Outcomes with which a parent that nothing declares is reported."""
MOST_CACHED = 8
"""Layers of which rows are downloaded where signatures come from the cache."""
NOT_COMPARED = "the weights and those of the other parents were not compared along the same path"
NOT_READ = (
    "merge contributions are measured on weights, but a signature was used in their place; --no-cache reads the weights"
)


def with_shares(
    source: RepoRef, rows: Sequence[ClaimResult], model: OpenedModel | Verdict, names: Sequence[str], options: Options
) -> tuple[tuple[ClaimResult, ...], Combination | None]:
    """Return the rows of a model, those of the parents of a merge with what each of them gave; and all of it together.

    `names` are the bases that files of the model name. Where they name none, whoever asks for these bases names them.
    """
    reasons, left = dict[int, str](), list[int]()
    for place, row in enumerate(rows):
        if reason := _obstacle(row, model, options):
            reasons[place] = reason
        else:
            left.append(place)
    if len(left) == 1 or len(left) > MOST:
        many = f"the contributions of at most {MOST} parents are measured"
        reasons |= dict.fromkeys(left, "no other parent can be compared" if len(left) == 1 else many)
        left = []
    declared, blend = [place for place, row in enumerate(left) if is_named(rows[row].claim.base, names)], None
    if left:
        some = [rows[place] for place in left]
        models = [model, *(row.base_model for row in some)]
        own, *parents = (one for each in models if (one := weights_of(each, options)))
        blend = blend_of(read_beside(own, parents, some, options, models), len(parents), own.layers, declared)
    if sum(row.claim.relation == MERGE and not row.claim.problem for row in rows) > 1:
        rows = _as_merge(source, rows, model, reasons, left, blend)
    if blend is None:
        return tuple(rows), None
    bases = tuple(rows[place].claim.base for place in left)
    known = (*names, *(row.claim.base for row in rows if is_named(row.claim.base, names)))
    return tuple(rows), Combination(bases, blend, tuple(not names or is_named(base, known) for base in bases))


def _obstacle(row: ClaimResult, model: OpenedModel | Verdict, options: Options) -> str:
    """Return why nothing can be measured of one parent; empty if it can."""
    if not row.verdict.is_related:
        return f"it is {row.verdict.label}"
    if not row.verdict.evidence:
        return NOT_COMPARED
    return "" if all(weights_of(one, options) for one in (row.base_model, model)) else NOT_READ


def read_beside(
    model: FromWeights,
    parents: Sequence[FromWeights],
    rows: Sequence[ClaimResult],
    options: Options,
    models: Sequence[OpenedModel | Verdict | None] = (None,),
) -> list[Products]:
    """Return the matrices of a model beside those of its parents: of all layers or, from the Hub, of those in the rows.

    `models` are all of them as the rows were judged: unless that was by their weights, parts of a few layers are
    downloaded.
    """
    evidence = [one for row in rows for one in row.verdict.evidence.values()]
    cached = any(not isinstance(one, FromWeights) for one in models)
    remote = any(one.headers.checkpoint.remote for one in (model, *parents))
    layers = list(range(model.layers))
    if remote:
        layers = sorted(set.intersection({*layers}, *({*one.layers[1]} for one in evidence)))
    if remote and cached:
        layers = [layers[at] for at in sorted({round(at) for at in np.linspace(0, len(layers) - 1, MOST_CACHED)})]
    some = remote and (cached or any(one.sampled for one in evidence))
    return read_matrices(parents, model, layers, Sample(options.seed or 0), some)


def find_blend(
    model: FromWeights,
    bases: Sequence[FromWeights],
    others: Sequence[FromWeights],
    rows: Sequence[ClaimResult],
    options: Options,
) -> tuple[tuple[int, ...], Blend] | None:
    """Return a model as a combination of all bases with those others that show, few before many; None if none does.

    The parents are numbered, bases first.
    """
    parents = (*bases, *others)
    matrices = read_beside(model, parents, rows, options)
    choices = (
        (*range(len(bases)), *some)
        for size in range(1, TOGETHER + 1)
        for some in itertools.combinations(range(len(bases), len(parents)), size)
    )
    blends = {
        parts: blend_of([one for whole in matrices if (one := whole.only(parts))], len(parts), model.layers)
        for parts in choices
    }
    for showing in ((BlendPlace.BLEND,), SHOWING):
        for parts, blend in blends.items():
            if all(how in showing for how in blend.places[len(bases) :]):
                return parts, blend
    return None


def _as_merge(
    source: RepoRef,
    rows: Sequence[ClaimResult],
    model: OpenedModel | Verdict,
    reasons: Mapping[int, str],
    left: Sequence[int],
    blend: Blend | None,
) -> tuple[ClaimResult, ...]:
    """Return the rows with what is declared and measured of each parent of a merge."""
    recipe, parents = merge_recipe(source), dict[int, Parent]()
    for place, row in enumerate(rows):
        if row.claim.relation == MERGE and not row.claim.problem:
            parents[place] = _read_declared(row, recipe, model)
    based = any(parent.is_base for parent in parents.values())
    for place, parent in parents.items():
        if place in reasons:
            parents[place] = replace(parent, reason=reasons[place])
        else:
            parents[place] = _with_own(parent, rows[place], blend, left.index(place), based)
    return tuple(replace(row, parent=parents.get(place)) for place, row in enumerate(rows))


def _read_declared(row: ClaimResult, recipe: MergeRecipe | None, model: OpenedModel | Verdict) -> Parent:
    """Return what a merge declares of one parent, by the first tensor of each path where the weights are at hand."""
    if recipe is None:
        return Parent()
    name, known = row.claim.base.casefold(), dict[str, float]()
    for path in row.verdict.evidence:
        first = model.headers.layout.sets(path)[0][0] if isinstance(model, FromWeights) else None
        weight = recipe.weight(name, first.slots[PATHS[path].reader].tensor if first else "")
        if weight is not None:
            known[path] = weight
    return Parent(declared=known, method=recipe.method, is_base=bool(recipe.base) and recipe.base == name)


def _with_own(parent: Parent, row: ClaimResult, blend: Blend | None, place: int, based: bool) -> Parent:
    """Return one parent with its shares along every path on which it was compared."""
    if blend is None:
        return replace(parent, reason=NOT_COMPARED)
    own, remainders, reasons = dict[str, Share](), dict[str, float](), []
    for path in row.verdict.evidence:
        shares = blend.by_branch.get(PATHS[path].branch)
        share = shares.parents[place] if shares else NOT_COMPARED
        if shares and shares.remainder > MOST_LEFT and not based:
            share = (
                f"the parents do not explain all of the merge: what remains is {shares.remainder:.2f} times the "
                "distance between them, and `mergekit_config.yml` declares no base from which differences could be "
                "taken"
            )
        if isinstance(share, str) or shares is None:
            reasons.append(str(share))
        else:
            own[path], remainders[path] = share, shares.remainder
    return replace(parent, shares=own, remainders=remainders, reason="" if own else "; ".join(dict.fromkeys(reasons)))
