"""Model: one model of a comparison, from weights that are read when needed, or from a cached or given signature."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.architecture.config_checks import own_code
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.paths import NAMED, resolve_paths
from hf_lineage.architecture.schema import Factorization
from hf_lineage.errors import SignatureError
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.extract import extract_paths
from hf_lineage.signature.recipe import Recipe, Spec
from hf_lineage.signature.sample import Sample, sample_path
from hf_lineage.signature.values import CACHE, FILE, WEIGHTS, Origin, PathSignature, Signature, join_layers, some_layers
from hf_lineage.source.config import ModelConfig, about, read_config, whole_config
from hf_lineage.source.headers import Headers, bind_headers, read_headers
from hf_lineage.source.options import Options


@dataclass(frozen=True)
class Downloads:
    """Amount of data that was downloaded of one model."""

    requests: int
    moved: int  # Downloaded bytes
    stored: int  # Bytes of all tensors of the model


class LazySignature:
    """The signature of any layers of one model; no layer is read twice."""

    def __init__(self, model: Headers, options: Options, cached: bool) -> None:
        self._model, self._options, self._cached = model, options, cached
        self._read: frozenset[int] = frozenset()
        self._signature: Signature | None = None
        self._samples: dict[bool, tuple[object, Signature]] = {}

    def read(self, layers: Collection[int] | None = None) -> Signature:
        """Return the signature of these layers, or of all, which is cached; LineageError if one cannot be read."""
        layout = self._model.layout
        wanted = frozenset(range(layout.layers) if layers is None else layers)
        new = layout.only(wanted - self._read)
        self._read |= wanted
        if self._signature is None:
            self._signature = self._extract(new)
        elif new.paths:
            self._signature = join_layers(self._signature, self._extract(new))
        if self._cached and new.paths and len(self._read) == layout.layers:
            from hf_lineage.signature.cache import write

            write(self._model.model_config.repo, layout.factorization, self._signature)
        return some_layers(self._signature, wanted)

    @property
    def at_hand(self) -> Signature | None:
        """The signature of the layers that were read so far, or of a sample of all their units; None without either."""
        _, of_all_units = self._samples.get(True, (None, None))
        return self._signature or of_all_units

    def sample(self, paths: Sequence[str], layers: Collection[int], sample: Sample) -> Signature:
        """Return the signature of a sample of these layers; the last of some units, and of all, are kept."""
        key = (tuple(paths), tuple(layers), sample)
        before, signature = self._samples.get(sample.all_units, (None, None))
        if signature is None or before != key:
            layout, recipe = self._model.layout, self._options.recipe
            with about(self._model.model_config.repo):
                read = functools.partial(sample_path, self._model.checkpoint, layout, recipe)
                along = {path: read(path, layers, sample) for path in paths}
            (width,) = {len(path.corner.T) for path in along.values()}
            signature = self._build(along, layout.only(layers), replace(recipe, probes=None), width)
            self._samples[sample.all_units] = key, signature
        return signature

    def _extract(self, layout: Layout) -> Signature:
        options = self._options
        with about(self._model.model_config.repo):
            paths = extract_paths(self._model.checkpoint, layout, options.recipe, options.paths, options.max_memory)
        return self._build(paths, layout, options.recipe, layout.width)

    def _build(self, paths: Mapping[str, PathSignature], layout: Layout, recipe: Recipe, width: int) -> Signature:
        return Signature(
            model=self._model.model_config.repo.name,
            architecture=self._model.model_config.architecture,
            factorization=layout.factorization.name,
            exchangeable=layout.factorization.exchangeable is True,
            recipe=recipe,
            paths=paths,
            without={path: lacking for path in paths if (lacking := layout.without(path))},
            **_facts(self._model) | {"width": width},
        )


def _facts(model: Headers) -> dict[str, Any]:
    """Return what a model and its signature have under the same names."""
    return {
        "commit": model.model_config.repo.commit,
        "width": model.layout.width,
        "layers": model.layout.layers,
        "notes": model.notes,
        "reservations": model.reservations,
        "unaccounted": model.doubtful,
        "own_code": own_code(whole_config(model.model_config), model.model_config.repo.offers),
        "read_as": model.model_config.read_as,
    }


@dataclass(frozen=True, kw_only=True)
class OpenedModel(ABC):
    """One model of a comparison, its headers read and checked."""

    name: str
    commit: str | None
    width: int
    layers: int
    rows: Mapping[str, Mapping[int, int]]  # By path, the numbers of the layers that have it, each with its width
    origin: Origin
    notes: tuple[str, ...] = ()  # Sentences about files beside the weights that were not read
    reservations: tuple[str, ...] = ()  # Reasons why these weights neither verify nor contradict a claim
    unaccounted: tuple[str, ...] = ()  # Names of stored tensors that are not the class's own
    own_code: str = ""
    read_as: str = ""  # The listed class with the same tensors, if it was read as that
    repo: RepoRef | None = None  # The repository; None of a signature that the user gave
    factorization: Factorization | None = None
    reopen: Callable[[], Headers] | None = None  # Opens the weights; None, as `factorization`, if they are not read

    @property
    def identity(self) -> tuple[str, ...] | None:
        """Equal for all names of one model; None for a signature that the user gave."""
        return self.repo.identity if self.repo else None

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return self.repo is None or self.repo.remote is None

    @abstractmethod
    def signature(self, layers: Collection[int] | None = None) -> Signature:
        """Return the signature of these layers, by default of all; raise LineageError if it cannot be made."""

    @property
    def at_hand(self) -> Signature | None:
        """The signature of those layers that are known without reading more; None if no layer is."""
        return self.signature()

    def downloads(self) -> Downloads | None:
        """Return what was downloaded so far; None for a model on this machine."""
        return None


@dataclass(frozen=True, kw_only=True)
class FromWeights(OpenedModel):
    """A model whose weights are read, each layer when it is first needed."""

    headers: Headers
    reading: LazySignature

    @classmethod
    def from_opened(cls, model: Headers, options: Options, cached: bool = True) -> "FromWeights":
        """Return a model from its headers; if `cached`, the signature of one on the Hub is, of all its layers."""
        repo, layout = model.model_config.repo, model.layout
        options = replace(options, paths=resolve_paths(options.paths, layout.paths))
        return cls(
            name=repo.name,
            rows={path: {number: layout.widths[number] for number in layout.numbers(path)} for path in layout.paths},
            origin=WEIGHTS,
            repo=repo,
            factorization=layout.factorization,
            reopen=lambda: model,
            headers=model,
            reading=LazySignature(model, options, cached and repo.remote is not None),
            **_facts(model),
        )

    def signature(self, layers: Collection[int] | None = None) -> Signature:
        """Return the signature of these layers; what was read before is not read again."""
        return self.reading.read(layers)

    @property
    def at_hand(self) -> Signature | None:
        """The signature of the layers that were read so far, or of a sample of all units; None without either."""
        return self.reading.at_hand

    def downloads(self) -> Downloads | None:
        """Return what was downloaded so far; None for a model on this machine."""
        checkpoint = self.headers.checkpoint
        stored = sum(part.size for part in checkpoint.stored.values())
        return Downloads(checkpoint.requests, checkpoint.bytes_read, stored) if checkpoint.remote else None


@dataclass(frozen=True, kw_only=True)
class FromSignature(OpenedModel):
    """A model of which only a signature is read: the cached one, or one that the user gave."""

    stored: Signature
    spec: Spec | None = None  # Requirements on a signature that the user gave; others were chosen to meet them

    @classmethod
    def from_stored(cls, stored: Signature, origin: Origin, **more: Any) -> "FromSignature":
        """Return a model from its signature, with what else is known of it."""
        rows = {
            path: dict(zip(stored.numbers(path), parts.widths or (stored.width,) * len(parts.trace), strict=True))
            for path, parts in stored.paths.items()
        }
        names = "commit", "width", "layers", "notes", "reservations", "unaccounted", "own_code", "read_as"
        facts = {name: getattr(stored, name) for name in names} | more
        return cls(name=stored.model, rows=rows, origin=origin, stored=stored, **facts)

    def signature(self, layers: Collection[int] | None = None) -> Signature:
        """Return the signature of these layers; SignatureError if it is not what is asked for."""
        if self.spec is not None:
            paths = () if self.spec.paths in NAMED else self.spec.paths
            missing = [path for path in paths if path not in self.stored.paths]
            if missing or self.stored.recipe != self.spec.recipe:
                what = f"path {missing[0]}" if missing else f"recipe {self.stored.recipe.name} with other parameters"
                needs = f"the stored signature lacks what this check needs ({what})"
                raise SignatureError(f"{self.stored.model}: {needs}; extract it again")
        return some_layers(self.stored, layers)


def open_model(source: RepoRef | Signature, options: Options) -> OpenedModel:
    """Open a model by its headers, or a signature in its place; NothingToCompare if there is nothing to compare."""
    if isinstance(source, Signature):
        return FromSignature.from_stored(source, FILE, spec=options)
    source = options.allow(source)
    model = read_config(source, options.choice)
    headers, cached = None, _find_cached(model, replace(options, paths=NAMED.get(options.paths, options.paths)))
    if not cached and options.paths in NAMED:
        headers = bind_headers(model)
        options = replace(options, paths=resolve_paths(options.paths, headers.layout.paths))
        cached = _find_cached(model, options)
    reopen = functools.cache(lambda: read_headers(model, headers))
    if not cached:
        return FromWeights.from_opened(reopen(), options)
    known = {"factorization": model.factorization, "reopen": reopen, "read_as": model.read_as}
    return FromSignature.from_stored(cached, CACHE, repo=source, **known)


def _find_cached(model: ModelConfig, options: Options) -> Signature | None:
    """Return the signature of a model on the Hub along these paths, if an earlier check kept it."""
    if model.repo.remote is None or options.recompute:
        return None
    from hf_lineage.signature.cache import find

    return find(model.repo, model.architecture, model.factorization, options)
