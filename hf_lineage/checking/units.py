"""Units: what two models show unit by unit, through common tokens or, if that is little, in fitted coordinates.

The share of inherited units decides; it does not depend on their order, so there is still one test of that.
"""

from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from hf_lineage.architecture.schema import as_names
from hf_lineage.checkpoint.vocabulary import shared_tokens
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.evidence import unit_comparison
from hf_lineage.evidence.inherited import HALF, inherited_heads
from hf_lineage.evidence.unit_comparison import PROCRUSTES, RESIDUAL, TOKEN, Coordinates, OrderSettings, UnitComparison
from hf_lineage.signature import coordinates as in_common
from hf_lineage.signature import units as hidden
from hf_lineage.signature.devices import return_freed_memory
from hf_lineage.signature.recipe import Array
from hf_lineage.signature.unit_rows import PATH, Layers, Numbers, OrderedUnits
from hf_lineage.signature.units import KnownWeights, View
from hf_lineage.source.config import about
from hf_lineage.source.headers import Headers

COARSE, FEW_KEPT, FEW_PERMUTED = 64, 2**17, 256  # Sums at first, kept units of all layers (200 MB), permuted ones


def by_tokens(base: Headers, candidate: Headers) -> tuple[Coordinates, tuple[Array, Array]]:
    """Return the coordinates of common tokens, and what units are multiplied with; NothingToCompare for none."""
    models = base, candidate
    names, repos = [_embedding(model) for model in models], [model.model_config.repo for model in models]
    heights = [model.checkpoint.tensors[name].shape[0] for model, name in zip(models, names, strict=True)]
    try:
        shared = shared_tokens(repos[0], repos[1], (heights[0], heights[1]))
    except CheckpointError as error:  # a tokenizer that is damaged hides no weights
        raise NothingToCompare(str(error)) from None
    widths = base.layout.width, candidate.layout.width
    if len(shared.base) < min(widths):
        few = f"share {len(shared.base)} tokens, fewer than the coordinates of their streams"
        raise NothingToCompare(f"{repos[0]} and {repos[1]} {few}")
    chosen = in_common.drawn_tokens(len(shared.base), widths)
    order = 1 if widths[0] >= widths[1] else -1
    wide, narrow = list(zip(models, names, (shared.base[chosen], shared.candidate[chosen]), strict=True))[::order]
    with about(narrow[0].model_config.repo):
        narrow_rows = _prepare_rows(*narrow)
        in_common.check_span(narrow_rows, min(widths))
    with about(wide[0].model_config.repo):
        wide_rows, through = in_common.fit_tokens(_prepare_rows(*wide), narrow_rows)
    both = (wide_rows, through) if order == 1 else (through, wide_rows)
    return Coordinates(TOKEN, len(chosen), shared.by), both


def _embedding(model: Headers) -> str:
    """Return the tensor with a row for each token; NothingToCompare if there is none that writes into the stream."""
    tensors, layout = model.checkpoint.tensors, model.layout
    names = (f"{name}.weight" for name in as_names(layout.factorization.embedding))
    name = next((name for name in names if name in tensors), None)
    if name is None or len(tensors[name].shape) != 2 or tensors[name].shape[1] != layout.width:
        raise NothingToCompare(f"{model.model_config.repo} has no token rows of the same width as its stream")
    return name


def _prepare_rows(model: Headers, name: str, numbers: Numbers) -> Array:
    rows = in_common.read_token_rows(model.checkpoint, name, numbers)
    in_common.prepare_rows(rows)
    return rows


def compare_by_units(
    base: Headers, candidate: Headers, analyses: Sequence[Collection[int]], at_first: str, test: OrderSettings,
    fit: bool = True, known: tuple[KnownWeights, KnownWeights] = (KnownWeights(), KnownWeights()), heads: bool = True,
) -> UnitComparison:  # fmt: skip
    """Return what some layers of two models show unit by unit, in the coordinates named `at_first` or in fitted ones;
    without `fit` only where the two share no tokens. `known` is what units of either weigh, not measured again. With
    `heads`, heads are compared too, where units are inherited. NothingToCompare where they cannot be seen so.
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
            pairs = zip(units, through, strict=True)
            bases, others = (one.project(layers, matrix[:sums], coordinates, coarse) for one, matrix in pairs)
            comparison = unit_comparison.compare_units(bases, others, depth, coordinates, few if coarse else test)
            if comparison.at_chance:
                break
        return _with_heads(comparison, base, candidate, through) if heads and comparison.least > HALF else comparison

    def by_known_coordinates() -> UnitComparison:
        if at_first == TOKEN:
            return compare_in(*by_tokens(base, candidate))
        return compare_in(Coordinates(RESIDUAL), (in_common.seen_through(base.layout.width),) * 2)

    def compare_fitted() -> UnitComparison:
        if min(one.width for one in units) > in_common.DIRECTIONS:
            in_common.screen(*(one.heaviest(analyses[0], in_common.SCREENED) for one in units))
        return compare_in(Coordinates(PROCRUSTES), in_common.between(*(one.heaviest(analyses[-1]) for one in units)))

    return _better(by_known_coordinates, compare_fitted, fit or at_first != TOKEN)


def _with_heads(
    comparison: UnitComparison, base: Headers, candidate: Headers, through: tuple[Array, Array]
) -> UnitComparison:
    """Return the comparison with the share of heads, read one layer after the other."""
    heads = []
    for number, partner in zip(comparison.layers[1], comparison.partners, strict=True):
        mine = hidden.head_products(base.checkpoint, base.layout, partner, through[0])
        other = hidden.head_products(candidate.checkpoint, candidate.layout, number, through[1])
        heads += [(mine, other)] if other is not None else []
    return replace(comparison, heads=inherited_heads(heads)) if heads else comparison


def _better(known: Callable[[], UnitComparison], fitted: Callable[[], UnitComparison], fit: bool) -> UnitComparison:
    """Return which shows more inherited units; fitted ones are tried if known ones show less than half, or fail."""
    try:
        first = known()
    except NothingToCompare as unseen:
        try:
            return fitted()
        except NothingToCompare:
            raise unseen from None
    if first.inherited.share > 0.5:  # no other coordinates are tried
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
        if why := hidden.obstacle(model.layout):
            raise NothingToCompare(f"{model.model_config.repo} {why}")
        self._model, self._seed, self.width = model, seed, model.layout.width
        self._most = min(hidden.MOST_KEPT // max(len(layers), 1), hidden.MOST_OF_LAYER)
        self._known = dict(known.weights) if known.exact else {}
        self._at_least_estimated = ChainMap(self._known, dict(known.weights))

    def project(self, layers: Collection[int], through: Array, coordinates: Coordinates, coarse: bool) -> Layers:
        """Return the units of some layers, seen through a matrix (s, d); if coarse, fewer experts' and no gates."""
        most = FEW_KEPT // len(layers) if coarse else self._most
        levelled = coordinates.name != RESIDUAL
        view = View(through, levelled, hidden.in_the_same_places(most, self._seed), gates=not coarse)
        return self._read(layers, view, coarse)

    def heaviest(self, layers: Collection[int], most: int | None = None) -> OrderedUnits:
        """Return so many that write most, or as many as the stream's width needs, one layer in memory besides."""
        numbers = [number for number in self._model.layout.numbers(PATH) if number in layers]
        usual = in_common.MOST_WIDE if self.width > in_common.DIRECTIONS else in_common.MOST_UNITS
        each = -(-(usual if most is None else most) // max(len(numbers), 1))
        view = View(keep=hidden.heaviest(each), gates=False)
        units = in_common.pool_units([self._read((number,), view, most is not None)[number] for number in numbers])
        return_freed_memory()
        return units

    def _read(self, layers: Collection[int], view: View, coarse: bool) -> Layers:
        """Return units as they are seen; if coarse, weighed as a sample of their coordinates lets expect."""
        known = self._at_least_estimated if coarse else self._known
        rows = hidden.unit_rows(self._model.checkpoint, self._model.layout, layers, view, known)
        if not rows or not all(layer.finite for layer in rows.values()):
            raise NothingToCompare(f"{self._model.model_config.repo} has no layers with finite hidden units")
        return rows
