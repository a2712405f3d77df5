"""Lazy signature: the signature of any layers of one model, each read when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hf_lineage.architecture import Layout
from hf_lineage.checking.options import Options
from hf_lineage.checking.source.describing import about
from hf_lineage.checking.source.opening import Opened
from hf_lineage.signature import PathSignature, Recipe, Signature, joined, some_layers
from hf_lineage.signature.extraction import Sample, extract_paths, sampled


@dataclass(frozen=True)
class Downloads:
    """Amount of data that was downloaded of one model."""

    requests: int
    moved: int
    """Downloaded bytes."""
    stored: int
    """Bytes of all tensors of the model."""


class Reading:
    """The signature of any layers of one model; no layer is read twice."""

    def __init__(self, model: Opened, options: Options, cached: bool) -> None:
        self._model, self._options, self._cached = model, options, cached
        self._read: frozenset[int] = frozenset()
        self._signature: Signature | None = None
        self._samples: dict[bool, tuple[object, Signature]] = {}

    def read(self, layers: Collection[int] | None = None) -> Signature:
        """Return the signature of these layers, or of all if none are named; raise LineageError if one cannot be read.

        Once all layers are read, their signature is cached.
        """
        layout = self._model.layout
        wanted = frozenset(range(layout.layers) if layers is None else layers)
        new = layout.only(wanted - self._read)
        self._read |= wanted
        if self._signature is None:
            self._signature = self._extracted(new)
        elif new.paths:
            self._signature = joined(self._signature, self._extracted(new))
        if self._cached and new.paths and len(self._read) == layout.layers:
            from hf_lineage.signature.sources import cache

            cache.write(self._model.described.repo, layout.factorization, self._signature)
        return some_layers(self._signature, wanted)

    @property
    def at_hand(self) -> Signature | None:
        """The signature of the layers that were read so far, or of a sample of all their units; None without either."""
        _, of_all_units = self._samples.get(True, (None, None))
        return self._signature or of_all_units

    def sampled(self, paths: Sequence[str], layers: Collection[int], sample: Sample) -> Signature:
        """Return the signature of a sample of these layers along some paths.

        The last one of some units is kept, and the last one of all.
        """
        asked = (tuple(paths), tuple(layers), sample)
        before, signature = self._samples.get(sample.all_units, (None, None))
        if signature is None or before != asked:
            signature = self._sampled(paths, layers, sample)
            self._samples[sample.all_units] = asked, signature
        return signature

    def _sampled(self, paths: Sequence[str], layers: Collection[int], sample: Sample) -> Signature:
        layout, recipe = self._model.layout, self._options.recipe
        with about(self._model.described.repo):
            read = functools.partial(sampled, self._model.checkpoint, layout, recipe)
            seen = {path: read(path, layers, sample) for path in paths}
        (width,) = {len(path.corner.T) for path in seen.values()}
        return self._build(seen, layout.only(layers), replace(recipe, probes=None), width)

    def _extracted(self, layout: Layout) -> Signature:
        options = self._options
        with about(self._model.described.repo):
            paths = extract_paths(self._model.checkpoint, layout, options.recipe, options.paths, options.max_memory)
        return self._build(paths, layout, options.recipe, layout.width)

    def _build(self, paths: Mapping[str, PathSignature], layout: Layout, recipe: Recipe, width: int) -> Signature:
        repo = self._model.described.repo
        return Signature(
            model=repo.name,
            commit=repo.commit,
            architecture=self._model.described.architecture,
            factorization=layout.factorization.name,
            exchangeable=layout.factorization.exchangeable is True,
            width=width,
            layers=layout.layers,
            recipe=recipe,
            paths=paths,
            without={path: layout.without(path) for path in paths if layout.without(path)},
            notes=self._model.notes,
            reservations=self._model.reservations,
            unaccounted=self._model.doubtful,
            own_code=self._model.own_code,
            read_as=self._model.described.read_as,
        )
