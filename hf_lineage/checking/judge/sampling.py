"""Sampling: two models are first compared by a sample of a few layers, where their layouts allow it.

A sample decides for RELATED alone: what it does not show may still be in the layers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hf_lineage.checking.options import Options
from hf_lineage.checking.source import FromWeights, OpenedModel
from hf_lineage.signature import STREAM, Signature
from hf_lineage.signature.extraction import Sample, fits


@dataclass(frozen=True)
class Sampling:
    """Two models that a sample can show."""

    base: FromWeights
    candidate: FromWeights
    sample: Sample
    paths: tuple[str, ...]

    def signatures(self, layers: Collection[int]) -> tuple[Signature, Signature]:
        """Return the signatures of a sample of these layers; raise LineageError if they cannot be read."""
        base, candidate = (
            model.reading.sampled(self.paths, layers, self.sample) for model in (self.base, self.candidate)
        )
        return base, candidate


def sample_models(base: OpenedModel, candidate: OpenedModel, options: Options) -> Sampling | None:
    """Return how two models are sampled, None where they have to be compared by whole layers.

    Both have to be read from their weights, and layers of the same number to have equally many units.
    """
    if not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights) or options.recipe.frame != STREAM:
        return None
    sizes = _sizes(base, options)
    same = sizes and sizes == _sizes(candidate, options)
    return Sampling(base, candidate, Sample(options.order_seed or 0), options.paths) if same else None


def _sizes(model: FromWeights, options: Options) -> tuple[int, ...]:
    """How many units each layer has along every path; empty if not all of it can be read some rows at a time."""
    layout, checkpoint = model.opened.layout, model.opened.checkpoint
    if model.stand_in or not all(fits(layout, checkpoint, path) for path in options.paths):
        return ()
    return tuple(layout.parts(path, layer) for path in options.paths for layer in range(layout.layers))
