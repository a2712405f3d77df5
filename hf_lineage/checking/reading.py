"""Reading: the signature of any layers of one model, each read when it is first needed."""

from __future__ import annotations

from collections.abc import Collection

from hf_lineage.architecture.layout import Layout
from hf_lineage.checking.opened import Opened, about
from hf_lineage.signature.options import Spec
from hf_lineage.signature.sources import cache
from hf_lineage.signature.values import Signature, joined, some_layers


class Reading:
    """The signature of any layers of one model; no layer is read twice."""

    def __init__(self, model: Opened, spec: Spec, max_memory: str | None, cached: bool) -> None:
        self._model, self._spec, self._max_memory, self._cached = model, spec, max_memory, cached
        self._read: frozenset[int] = frozenset()
        self._signature: Signature | None = None

    def of(self, layers: Collection[int] | None = None) -> Signature:
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
            cache.write(self._model.described.repo, layout.factorization, self._signature)
        return some_layers(self._signature, wanted)

    def _extracted(self, layout: Layout) -> Signature:
        from hf_lineage.signature.extraction import extract_paths

        repo, spec = self._model.described.repo, self._spec
        with about(repo):
            paths = extract_paths(self._model.checkpoint, layout, spec.recipe, spec.paths, self._max_memory)
        return Signature(
            model=repo.name,
            revision=repo.revision,
            architecture=self._model.described.architecture,
            factorization=layout.factorization.name,
            exchangeable=layout.factorization.exchangeable,
            width=layout.width,
            layers=layout.layers,
            recipe=spec.recipe,
            paths=paths,
            without={path: layout.without(path) for path in paths if layout.without(path)},
            notes=self._model.notes,
        )
