"""Units: what two models show unit by unit, in the coordinates in which they show most.

Units are compared through the tokens that both models know. If there are none, or they show little, units are compared
in the coordinates in which they fit those of the base best. The share of inherited units decides which of the two
counts. It does not depend on the order of units, so there is still one test of the order.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hf_lineage.architecture.schema import as_names
from hf_lineage.checkpoint.vocabulary import SharedTokens, shared_tokens
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.evidence.inherited import HALF, inherited_heads
from hf_lineage.evidence.unit_comparison import (
    PROCRUSTES,
    RESIDUAL,
    TOKEN,
    Coordinates,
    OrderSettings,
    UnitComparison,
    compare_units,
)
from hf_lineage.signature import coordinates as procrustes
from hf_lineage.signature.coordinates import (
    check_span,
    drawn_tokens,
    fit_tokens,
    prepare_rows,
    read_token_rows,
    seen_through,
)
from hf_lineage.signature.devices import return_freed_memory
from hf_lineage.signature.recipe import Array
from hf_lineage.signature.unit_rows import PATH, Layers, Numbers, OrderedUnits
from hf_lineage.signature.units import (
    MOST_KEPT,
    MOST_OF_LAYER,
    KnownWeights,
    View,
    head_products,
    heaviest,
    in_the_same_places,
    obstacle,
    unit_rows,
)
from hf_lineage.source.headers import Headers


def by_tokens(base: Headers, candidate: Headers) -> tuple[Coordinates, tuple[Array, Array]]:
    """Return the coordinates of the tokens that both know, and what the units of each are multiplied with.

    Raise NothingToCompare where there is none.
    """
    names = _embedding(base), _embedding(candidate)
    shared = _find_shared(base, candidate, names)
    widths = base.layout.width, candidate.layout.width
    chosen = drawn_tokens(len(shared.base), widths)
    numbers = shared.base[chosen], shared.candidate[chosen]
    order = 1 if widths[0] >= widths[1] else -1
    wide, narrow = list(zip((base, candidate), names, numbers, strict=True))[::order]
    with _name_in_errors(narrow[0]):
        narrow_rows = _prepare_rows(*narrow)
        check_span(narrow_rows, min(widths))
    with _name_in_errors(wide[0]):
        seen, through = fit_tokens(_prepare_rows(*wide), narrow_rows)
    return Coordinates(TOKEN, len(chosen), shared.by), (seen, through) if order == 1 else (through, seen)


def _find_shared(base: Headers, candidate: Headers, names: tuple[str, str]) -> SharedTokens:
    """Return the tokens that both know; `names` are the tensors with a row for each."""
    rows = base.checkpoint.tensors[names[0]].shape[0], candidate.checkpoint.tensors[names[1]].shape[0]
    try:
        shared = shared_tokens(base.model_config.repo, candidate.model_config.repo, rows)
    except CheckpointError as error:  # a tokenizer that is damaged hides no weights
        raise NothingToCompare(str(error)) from None
    if len(shared.base) < min(base.layout.width, candidate.layout.width):
        raise NothingToCompare(
            f"{base.model_config.repo} and {candidate.model_config.repo} share {len(shared.base)} tokens, fewer than "
            "the coordinates of their streams"
        )
    return shared


def _embedding(model: Headers) -> str:
    """Return the tensor with a row for each token; NothingToCompare if there is none that writes into the stream."""
    tensors, layout = model.checkpoint.tensors, model.layout
    names = (f"{name}.weight" for name in as_names(layout.factorization.embedding))
    name = next((name for name in names if name in tensors), None)
    if name is None or len(tensors[name].shape) != 2 or tensors[name].shape[1] != layout.width:
        raise NothingToCompare(f"{model.model_config.repo} has no token rows of the same width as its stream")
    return name


def _prepare_rows(model: Headers, name: str, numbers: Numbers) -> Array:
    rows = read_token_rows(model.checkpoint, name, numbers)
    prepare_rows(rows)
    return rows


@contextmanager
def _name_in_errors(model: Headers) -> Iterator[None]:
    try:
        yield
    except NothingToCompare as error:
        raise NothingToCompare(f"{model.model_config.repo}: {error}") from None


ENOUGH = 0.5
"""With a larger share of inherited units no other coordinates are tried."""
COARSE, FEW_KEPT, FEW_PERMUTED = 64, 2**17, 256
"""Random sums to which the units of a wide stream are reduced at first; units of all layers of a model with experts
that are kept then, which are 200 MB; and units of a layer that are permuted."""
Analyses = Sequence[Collection[int]]
"""The layers that are read at each analysis; it ends the comparison where nothing shows (futility)."""


def compare_by_units(
    base: Headers, candidate: Headers, analyses: Analyses, at_first: str, test: OrderSettings, fit: bool = True,
    known: tuple[KnownWeights, KnownWeights] = (KnownWeights(), KnownWeights()), heads: bool = True,
) -> UnitComparison:  # fmt: skip
    """Return what some layers of two models show unit by unit, in the coordinates named `at_first` or in fitted ones.

    Without `fit`, coordinates are only fitted where the two share no tokens. `known` is what units of either weigh,
    which is not measured again. With `heads`, heads are compared too, where units are inherited.
    Raise NothingToCompare where they cannot be seen so, CheckpointError or RepositoryError where a file is damaged.
    """
    models = zip((base, candidate), known, strict=True)
    units = [_Units(model, analyses[-1], test.seed, own) for model, own in models]
    depth, few = len(candidate.layout.numbers(PATH)), replace(test, permuted=FEW_PERMUTED)

    def compare_in(coordinates: Coordinates, through: tuple[Array, Array]) -> UnitComparison:
        for number, layers in enumerate(analyses, 1):
            return_freed_memory()
            coarse = number < len(analyses)
            summed = coordinates.name != RESIDUAL and max(one.width for one in units) > len(through[0])
            sums = COARSE if coarse and summed else None
            bases, others = (
                one.project(layers, matrix[:sums], coordinates, coarse)
                for one, matrix in zip(units, through, strict=True)
            )
            comparison = compare_units(bases, others, depth, coordinates, few if coarse else test)
            if comparison.at_chance:
                break
        return _with_heads(comparison, base, candidate, through) if heads and comparison.least > HALF else comparison

    def by_known_coordinates() -> UnitComparison:
        if at_first == TOKEN:
            return compare_in(*by_tokens(base, candidate))
        return compare_in(Coordinates(RESIDUAL), (seen_through(base.layout.width),) * 2)

    def compare_fitted() -> UnitComparison:
        if min(one.width for one in units) > procrustes.DIRECTIONS:
            procrustes.screen(*(one.heaviest(analyses[0], procrustes.SCREENED) for one in units))
        return compare_in(Coordinates(PROCRUSTES), procrustes.between(*(one.heaviest(analyses[-1]) for one in units)))

    return _better(by_known_coordinates, compare_fitted, fit or at_first != TOKEN)


def _with_heads(
    comparison: UnitComparison, base: Headers, candidate: Headers, through: tuple[Array, Array]
) -> UnitComparison:
    """Return the comparison with the share of heads, read one layer after the other."""
    both = (
        (
            head_products(base.checkpoint, base.layout, partner, through[0]),
            head_products(candidate.checkpoint, candidate.layout, number, through[1]),
        )
        for number, partner in zip(comparison.layers[1], comparison.partners, strict=True)
    )
    heads = [(mine, other) for mine, other in both if other is not None]
    return replace(comparison, heads=inherited_heads(heads)) if heads else comparison


def _better(known: Callable[[], UnitComparison], fitted: Callable[[], UnitComparison], fit: bool) -> UnitComparison:
    """Return the coordinates that show more inherited units; fitted ones are tried if known ones show less than half.

    Raise NothingToCompare, with the reason of the first, if neither exists.
    """
    try:
        first = known()
    except NothingToCompare as unseen:
        try:
            return fitted()
        except NothingToCompare:
            raise unseen from None
    if first.inherited.share > ENOUGH:
        return first
    if not fit:
        return replace(first, searched=False)
    try:
        return max(first, fitted(), key=lambda comparison: comparison.inherited.share)
    except NothingToCompare:
        return replace(first, searched=None)


class _Units:
    """The hidden units of some layers of a model; their weights are measured only once."""

    def __init__(self, model: Headers, layers: Collection[int], seed: int, known: KnownWeights) -> None:
        if why := obstacle(model.layout):
            raise NothingToCompare(f"{model.model_config.repo} {why}")
        self._model, self._seed = model, seed
        self._most = min(MOST_KEPT // max(len(layers), 1), MOST_OF_LAYER)
        self._known = dict(known.weights) if known.exact else {}
        self._at_least_estimated = ChainMap(self._known, dict(known.weights))

    def project(self, layers: Collection[int], through: Array, coordinates: Coordinates, coarse: bool) -> Layers:
        """Return the units of some layers, seen through a matrix (s, d).

        If coarse, fewer units of many experts are enough, and no gates. Raise NothingToCompare where a number is not
        finite.
        """
        levelled = coordinates.name != RESIDUAL
        most = FEW_KEPT // len(layers) if coarse else self._most
        view = View(through, levelled, in_the_same_places(most, self._seed), gates=not coarse)
        return self._read(layers, view, coarse)

    def heaviest(self, layers: Collection[int], most: int | None = None) -> OrderedUnits:
        """Return those that write most in the model's own coordinates, one layer in memory besides what is kept.

        They are at most so many, or as many as the width of the stream needs.
        """
        numbers = [number for number in self._model.layout.numbers(PATH) if number in layers]
        each = procrustes.most_of_a_layer(self.width, len(numbers)) if most is None else -(-most // len(numbers))
        view = View(keep=heaviest(each), gates=False)
        units = procrustes.pool_units([self._read((number,), view, most is not None)[number] for number in numbers])
        return_freed_memory()
        return units

    @property
    def width(self) -> int:
        """The width of the stream."""
        return self._model.layout.width

    def _read(self, layers: Collection[int], view: View, coarse: bool) -> Layers:
        """Return units as they are seen; if coarse, weighed as a sample of their coordinates lets expect."""
        model = self._model
        known = self._at_least_estimated if coarse else self._known
        rows = unit_rows(model.checkpoint, model.layout, layers, view, known)
        if not rows or not all(layer.finite for layer in rows.values()):
            raise NothingToCompare(f"{model.model_config.repo} has no layers with finite hidden units")
        return rows
