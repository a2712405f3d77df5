"""Merges: what every parent gave to a model, read matrix by matrix, beside the declared recipe.

Any two models of one family are RELATED, so that only its share, which changes no verdict, shows who gave nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hf_lineage.architecture.layers import LayerSet
from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.registry import Slot
from hf_lineage.checking.declared import is_named
from hf_lineage.checking.report import Combination
from hf_lineage.checking.result import ClaimResult, ModelOrVerdict
from hf_lineage.checkpoint.rounding import DIGITS, Matrix, find_grid, shortest, spacing
from hf_lineage.claims.sources import merge_recipe
from hf_lineage.evidence import merge
from hf_lineage.evidence.merge import Blend, Parent, Products, Share, StoredMatrix, blend_of, inner_products
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.sample import Sample
from hf_lineage.source.model import FromWeights
from hf_lineage.source.options import Options
from hf_lineage.source.rows import UNSEEN, digits_of, matrix, rows_of, weights_of

Models = Sequence[FromWeights]
Rows = Sequence[ClaimResult]
ALIKE = 0.3  # The least cosine with the matrix of a parent that may have given a part; unrelated ones are near 0
GLANCE = 16  # Rows of a matrix by which the layer of a parent is found that a layer of the model is most like
MOST, TOGETHER = 16, 3  # Parents whose shares are measured, and models of an index that may be parents together
NOT_COMPARED = "the weights and those of the other parents were not compared along the same path"


def read_matrices(
    parents: Sequence[FromWeights], model: FromWeights, layers: Sequence[int], sample: Sample, sampled: bool
) -> list[Products]:
    """Return the matrices of some layers beside those of parents; if `sampled`, no more than a sample is here."""
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
    parents: Models, model: FromWeights, layer: int, places: Sequence[Mapping[int, int]], sample: Sample, sampled: bool
) -> Iterator[Products]:
    for branch, sets in ((branch, sets[layer]) for branch, sets in model.headers.layout.branches.items()):
        others, names = list[LayerSet | None](), set[str]()
        for parent, place in zip(parents, places, strict=True):
            of_branch, at = parent.headers.layout.branches.get(branch, ()), place.get(layer, -1)
            others.append(of_branch[at][0] if 0 <= at < len(of_branch) and of_branch[at] else None)
        for role, slot in sets[0].slots.items() if sets else ():
            if slot.tensor in names or (sampled and role in UNSEEN) or not _readable(model, slot, sampled):
                continue
            names.add(slot.tensor)
            rows = rows_of(model, role, sets[0], layer, sample, sampled)
            numbers, alike = matrix(model, slot, rows), []
            shape = model.headers.checkpoint.tensors[slot.tensor].shape
            for number, (parent, other) in enumerate(zip(parents, others, strict=True)):
                same = other.slots.get(role) if other else None
                if not same or same.roles != slot.roles or not _readable(parent, same, sampled):
                    continue
                if parent.headers.checkpoint.tensors[same.tensor].shape == shape:
                    other_numbers = matrix(parent, same, rows)
                    if _cosine(other_numbers, numbers) >= ALIKE:
                        alike.append((number, StoredMatrix(other_numbers)))
            one = inner_products(layer, branch, alike, _read_stored(model, slot, numbers)) if alike else None
            if one is not None:
                yield one


def _readable(model: FromWeights, slot: Slot, sampled: bool) -> bool:
    checkpoint = model.headers.checkpoint
    return checkpoint.rows(slot.tensor) is not None if sampled else checkpoint.at_hand(slot.tensor)


def _read_stored(model: FromWeights, slot: Slot, numbers: Matrix) -> StoredMatrix:
    """Return a matrix of the model with the spacing of its format, and of the quantization on whose grid it lies."""
    checkpoint = model.headers.checkpoint
    decoded = slot.tensor in checkpoint.decoded_names
    digits = shortest(numbers, digits_of(checkpoint, slot.tensor))
    grid = find_grid(numbers, DIGITS["F32"] if decoded else digits)
    gap = None if decoded else spacing(numbers, digits)
    return StoredMatrix(numbers, 0 if decoded or grid else digits, gap, grid.step if grid else None)


def _cosine(one: Matrix, other: Matrix) -> float:
    if one.shape != other.shape:
        return 0.0
    sizes = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.vdot(one, other)) / sizes if sizes > 0 else 0.0


def with_shares(
    source: RepoRef, rows: Sequence[ClaimResult], model: ModelOrVerdict, names: Sequence[str], options: Options
) -> tuple[tuple[ClaimResult, ...], Combination | None]:
    """Return the rows, those of a merge's parents with their shares, and all together; `names` are declared bases."""
    reasons, blend = dict[int, str](), None
    for place, row in enumerate(rows):
        if not row.verdict.is_related:
            reasons[place] = f"it is {row.verdict.label}"
        elif not row.verdict.evidence:
            reasons[place] = NOT_COMPARED
        elif not all(weights_of(one, options) for one in (row.base_model, model)):
            used = "but a signature was used in their place; --no-cache reads the weights"
            reasons[place] = f"merge contributions are measured on weights, {used}"
    left = [place for place in range(len(rows)) if place not in reasons]
    if len(left) == 1 or len(left) > MOST:
        many = f"the contributions of at most {MOST} parents are measured"
        reasons |= dict.fromkeys(left, "no other parent can be compared" if len(left) == 1 else many)
        left = []
    if left:
        declared = [place for place, row in enumerate(left) if is_named(rows[row].claim.base, names)]
        some = [rows[place] for place in left]
        models = [model, *(row.base_model for row in some)]
        own, *parents = (one for each in models if (one := weights_of(each, options)))
        blend = blend_of(read_beside(own, parents, some, options, models), len(parents), own.layers, declared)
    if sum(row.claim.relation == "merge" and not row.claim.problem for row in rows) > 1:
        rows = _as_merge(source, rows, model, reasons, left, blend)
    if blend is None:
        return tuple(rows), None
    bases = tuple(rows[place].claim.base for place in left)
    known = (*names, *(row.claim.base for row in rows if is_named(row.claim.base, names)))
    return tuple(rows), Combination(bases, blend, tuple(not names or is_named(base, known) for base in bases))


def read_beside(
    model: FromWeights, parents: Models, rows: Rows, options: Options, models: Sequence[ModelOrVerdict | None] = (None,)
) -> list[Products]:
    """Return matrices beside parents': of all layers or, from the Hub, of those that the rows of `models` read."""
    evidence = [one for row in rows for one in row.verdict.evidence.values()]
    cached = any(not isinstance(one, FromWeights) for one in models)
    remote = any(one.headers.checkpoint.remote for one in (model, *parents))
    layers = list(range(model.layers))
    if remote:
        layers = sorted(set.intersection({*layers}, *({*one.layers[1]} for one in evidence)))
    if remote and cached:
        # Where signatures come from the cache.
        layers = [layers[at] for at in sorted({round(at) for at in np.linspace(0, len(layers) - 1, 8)})]
    some = remote and (cached or any(one.sampled for one in evidence))
    return read_matrices(parents, model, layers, Sample(options.seed or 0), some)


def find_blend(
    model: FromWeights, bases: Models, others: Models, rows: Rows, options: Options
) -> tuple[tuple[int, ...], Blend] | None:
    """Return a model as a combination of all bases, numbered first, and the fewest others that show; else None."""
    parents = (*bases, *others)
    matrices = read_beside(model, parents, rows, options)
    blends = dict[tuple[int, ...], Blend]()
    for size in range(1, TOGETHER + 1):
        for some in itertools.combinations(range(len(bases), len(parents)), size):
            parts = (*range(len(bases)), *some)
            chosen = [one for whole in matrices if (one := whole.only(parts))]
            blends[parts] = blend_of(chosen, len(parts), model.layers)
    how = merge.BlendPlace
    for showing in ((how.BLEND,), (how.BLEND, how.SHARED, how.FROM_MODEL, how.PIECES, how.NEAR)):
        for parts, blend in blends.items():
            if all(place in showing for place in blend.places[len(bases) :]):
                return parts, blend
    return None


def _as_merge(
    source: RepoRef, rows: Rows, model: ModelOrVerdict, reasons: Mapping[int, str], left: list[int], blend: Blend | None
) -> tuple[ClaimResult, ...]:
    """Return the rows with what is declared and measured of each parent of a merge."""
    recipe, parents = merge_recipe(source), dict[int, Parent]()
    for place, row in enumerate(rows):
        if row.claim.relation != "merge" or row.claim.problem:
            continue
        name, known = row.claim.base.casefold(), dict[str, float]()
        for path in row.verdict.evidence if recipe else ():
            # Weights are declared by tensor: the first one of the path counts, where the weights are at hand.
            first = model.headers.layout.sets(path)[0][0] if isinstance(model, FromWeights) else None
            tensor = first.slots[PATHS[path].reader].tensor if first else ""
            if recipe and (weight := recipe.weight(name, tensor)) is not None:
                known[path] = weight
        is_base = bool(recipe and recipe.base and recipe.base == name)
        parents[place] = Parent(declared=known, method=recipe.method, is_base=is_base) if recipe else Parent()
    based = any(parent.is_base for parent in parents.values())
    for place, parent in parents.items():
        if place in reasons or blend is None:
            parents[place] = replace(parent, reason=reasons.get(place, NOT_COMPARED))
        else:
            parents[place] = _with_own(parent, rows[place], blend, left.index(place), based)
    return tuple(replace(row, parent=parents.get(place)) for place, row in enumerate(rows))


def _with_own(parent: Parent, row: ClaimResult, blend: Blend, place: int, based: bool) -> Parent:
    """Return one parent with its shares along every path on which it was compared."""
    own, remainders, reasons = dict[str, Share](), dict[str, float](), dict[str, None]()
    for path in row.verdict.evidence:
        shares = blend.by_branch.get(PATHS[path].branch)
        share = shares.parents[place] if shares else NOT_COMPARED
        if shares and shares.remainder > merge.MOST_LEFT and not based:
            left = f"what remains is {shares.remainder:.2f} times the distance between them"
            none = "`mergekit_config.yml` declares no base from which differences could be taken"
            share = f"the parents do not explain all of the merge: {left}, and {none}"
        if isinstance(share, str) or shares is None:
            reasons[str(share)] = None
        else:
            own[path], remainders[path] = share, shares.remainder
    return replace(parent, shares=own, remainders=remainders, reason="" if own else "; ".join(reasons))
