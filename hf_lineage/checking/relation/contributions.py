"""Shares: what every parent gave to a merge, beside the recipe that the merge declares.

Shares change no verdict. RELATED says that a merge and a parent share ancestry; any two models of one family do, so
that a parent which gave nothing is RELATED as well, and only its share shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hf_lineage.architecture.registry import PATHS
from hf_lineage.checking.results import MERGE, Row
from hf_lineage.checking.source import FromWeights, OpenedModel
from hf_lineage.claims import MergeRecipe, merge_recipe
from hf_lineage.evidence import Kind, Verdict
from hf_lineage.evidence.derivation import MOST_LEFT, Parent, Readers, Share, Shares, shares_of
from hf_lineage.hub import RepoRef

MOST = 16
"""Parents of one merge whose shares are measured: more of them cannot be separated."""
NOT_COMPARED = "the weights and those of the other parents were not compared along the same path"


def with_shares(source: RepoRef, rows: Sequence[Row], model: OpenedModel | Verdict) -> tuple[Row, ...]:
    """Return the rows of a model, those of the parents of a merge with what each of them gave."""
    places = [place for place, row in enumerate(rows) if row.claim.relation == MERGE and not row.claim.problem]
    if len(places) < 2:
        return tuple(rows)
    parents = dict(zip(places, _parents([rows[place] for place in places], merge_recipe(source), model), strict=True))
    return tuple(replace(row, parent=parents.get(place)) for place, row in enumerate(rows))


def _parents(rows: Sequence[Row], recipe: MergeRecipe | None, model: OpenedModel | Verdict) -> list[Parent]:
    """What is declared and measured of each parent."""
    reasons = {place: reason for place, row in enumerate(rows) if (reason := _obstacle(row))}
    left = [place for place in range(len(rows)) if place not in reasons]
    if len(left) == 1 or len(left) > MOST:
        many = f"the contributions of at most {MOST} parents are measured"
        few = "no other parent can be compared" if len(left) == 1 else many
        reasons |= dict.fromkeys(left, few)
        left = []
    declared = [_declared(row, recipe, _tensors(row, model)) for row in rows]
    measured = {path: _along(path, [rows[place] for place in left], declared, left) for path in _paths(rows, left)}
    parents = []
    for place, parent in enumerate(declared):
        if place in reasons:
            parents.append(replace(parent, reason=reasons[place]))
            continue
        along = {path: _own(shares, left.index(place)) for path, shares in measured.items()}
        own = {path: share for path, share in along.items() if not isinstance(share, str)}
        remainders = {path: shares.remainder for path in own if not isinstance(shares := measured[path], str)}
        reason = "" if own else "; ".join(dict.fromkeys(map(str, along.values())))
        parents.append(
            replace(parent, shares=own, remainders=remainders, reason=reason or ("" if own else NOT_COMPARED))
        )
    return parents


def _own(shares: Shares | str, place: int) -> Share | str:
    """The share of one parent, or why it is not known."""
    return shares if isinstance(shares, str) else shares.parents[place]


def _obstacle(row: Row) -> str:
    """Why nothing can be measured of one parent; empty if it can."""
    outcome = row.verdict
    if not outcome.is_related:
        return f"it is {outcome.words}"
    if not outcome.evidence:
        return NOT_COMPARED
    if outcome.kind is Kind.INDIRECT:
        return "another model was compared in its place"
    if any(evidence.readers is None for evidence in outcome.evidence.values()):
        return (
            "merge contributions are measured on weights, but this check used a signature or probes=exact; --set "
            "recompute=yes reads the weights"
        )
    return ""


def _paths(rows: Sequence[Row], places: Sequence[int]) -> list[str]:
    """The paths along which all of these parents were compared."""
    paths = [list(rows[place].verdict.evidence) for place in places]
    return [path for path in (paths[0] if paths else ()) if all(path in others for others in paths)]


def _along(path: str, rows: Sequence[Row], declared: Sequence[Parent], places: Sequence[int]) -> Shares | str:
    """The shares of all parents along one path, or why they are not known."""
    measured: list[Readers] = [r for row in rows if (r := row.verdict.evidence[path].readers) is not None]
    shares = shares_of(measured, rows[0].layers or 1)
    if isinstance(shares, str) or shares.remainder <= MOST_LEFT or any(declared[place].is_base for place in places):
        return shares
    return (
        f"the parents do not explain all of the merge: the remainder is {shares.remainder:.2f} times the distance "
        "between them, and `mergekit_config.yml` declares no base to take differences from"
    )


def _declared(row: Row, recipe: MergeRecipe | None, tensors: Mapping[str, str]) -> Parent:
    """What a merge declares of one parent."""
    if recipe is None:
        return Parent()
    name = row.claim.base.casefold()
    weights = {path: recipe.weight(name, tensor) for path, tensor in tensors.items()}
    known = {path: weight for path, weight in weights.items() if weight is not None}
    return Parent(declared=known, method=recipe.method, is_base=bool(recipe.base) and recipe.base == name)


def _tensors(row: Row, model: OpenedModel | Verdict) -> dict[str, str]:
    """By path the first tensor that its shares are measured on; empty names where the weights are not at hand."""
    if not isinstance(model, FromWeights):
        return dict.fromkeys(row.verdict.evidence, "")
    sets = {path: model.opened.layout.sets(path)[0][0] for path in row.verdict.evidence}
    return {path: layer_set.slots[PATHS[path].reader].tensor for path, layer_set in sets.items()}
