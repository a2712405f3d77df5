"""Units: what two models show unit by unit, in the coordinates in which they show most.

Units are seen through the tokens that both models know and, where these are not to be had or show little, in the
coordinates in which units fit those of the base best. Which of the two counts is decided by the share of inherited
units, which does not depend on their order, so that one test of the order is made all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from hf_lineage.checking.judge.tokens import by_tokens
from hf_lineage.checking.source import Opened, stream_of
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence.units import PROCRUSTES, RESIDUAL, TOKEN, Frame, Framed, Test, compare_units
from hf_lineage.signature import Array
from hf_lineage.signature.units import (
    MOST_KEPT,
    PATH,
    Keep,
    Layers,
    Measured,
    OrderedUnits,
    heaviest,
    in_the_same_places,
    obstacle,
    seen_through,
    unit_rows,
)
from hf_lineage.signature.units import orthogonal_fit as procrustes

ENOUGH = 0.5
"""With a larger share of inherited units no other coordinates are looked for."""


def shown(
    base: Opened, candidate: Opened, layers: Collection[int], at_first: str, test: Test, fit: bool = True
) -> Framed:
    """Return what some layers of two models show unit by unit; `at_first` is the name of the frame that is tried first.

    Without `fit`, coordinates are only fitted to the units where the two share no tokens.
    Raise NothingToCompare where they cannot be seen so, CheckpointError or RepositoryError where a file is damaged.
    """
    models = base, candidate
    for model in models:
        if why := obstacle(model.layout):
            raise NothingToCompare(f"{model.described.repo} {why}")

    views = [_View(model, layers, test.unit_seed) for model in models]

    def seen(frame: Frame, through: tuple[Array, Array]) -> Framed:
        rows = [view.rows(matrix) for view, matrix in zip(views, through, strict=True)]
        if frame.name != RESIDUAL:
            rows = [{number: units.normalised() for number, units in one.items()} for one in rows]
        return compare_units(rows[0], rows[1], len(candidate.layout.numbers(PATH)), frame, test)

    def known() -> Framed:
        if at_first == TOKEN:
            return seen(*by_tokens(base, candidate))
        return seen(Frame(RESIDUAL), (seen_through(base.layout.width),) * 2)

    def fitted() -> Framed:
        return seen(Frame(PROCRUSTES), procrustes.between(*(view.heaviest() for view in views)))

    return _better(known, fitted, fit or at_first != TOKEN)


def _better(known: Callable[[], Framed], fitted: Callable[[], Framed], fit: bool) -> Framed:
    """What shows more inherited units; coordinates are only fitted where those that are known show less than one half.

    Raise NothingToCompare, with the reason of the first, where neither can be had.
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
        return max(first, fitted(), key=lambda framed: framed.inherited.share)
    except NothingToCompare:
        return first


class _View:
    """The hidden units of some layers of a model: what they weigh is measured once, however often they are seen."""

    def __init__(self, model: Opened, layers: Collection[int], seed: int) -> None:
        self._model, self._layers = model, layers
        self._keep = in_the_same_places(MOST_KEPT // max(len(layers), 1), seed)
        self._known: dict[int, Measured] = {}
        self._stream = stream_of(model, seed)

    def rows(self, through: Array) -> Layers:
        """Return the units seen through a matrix (s, d); NothingToCompare where a number is not finite."""
        return self._read(self._layers, through, self._keep)

    def heaviest(self) -> OrderedUnits:
        """Return those that write most in the model's own coordinates, one layer in memory besides what is kept."""
        layout = self._model.layout
        numbers = [number for number in layout.numbers(PATH) if number in self._layers]
        most = heaviest(procrustes.most_of_a_layer(layout.width, len(numbers)))
        return procrustes.pooled([self._read((number,), None, most)[number] for number in numbers])

    def _read(self, layers: Collection[int], through: Array | None, keep: Keep) -> Layers:
        model = self._model
        rows = unit_rows(
            model.checkpoint, model.layout, layers, through, keep, self._known, through is not None, stream=self._stream
        )
        if not rows or not all(layer.finite for layer in rows.values()):
            raise NothingToCompare(f"{model.described.repo} has no layers with hidden units that are finite")
        return rows
