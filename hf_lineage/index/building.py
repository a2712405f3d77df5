"""Building: models -> the index, one after the other; what is there already is not read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hf_lineage.checking.model import open_model
from hf_lineage.checking.naming import located
from hf_lineage.checking.options import Options
from hf_lineage.checking.parts import only
from hf_lineage.errors import LineageError
from hf_lineage.hub import listing
from hf_lineage.index.catalogue import Catalogue
from hf_lineage.index.shards import Entry
from hf_lineage.signature.values import Signature


@dataclass(frozen=True)
class Added:
    """What became of one model."""

    model: str
    entries: tuple[Entry, ...] = ()
    """Empty where it was in the index already, or could not be read."""
    problem: str = ""
    """Why it could not be read, in one sentence."""


Progress = Callable[[Sequence[str]], Iterable[str]]


def published_by(author: str) -> list[str]:
    """Return the models of an author on the Hub, each at its commit; raise LineageError if there are none."""
    return [f"{release.model}@{release.commit}" for release in listing.since(author, None).releases]


def add(models: Sequence[str], catalogue: Catalogue, options: Options, progress: Progress = iter) -> Iterator[Added]:
    """Put models into an index; an error of one is told, and the others are read all the same."""
    for model in progress(models):
        try:
            yield Added(model, tuple(_added(model, catalogue, options)))
        except LineageError as error:
            yield Added(model, problem=str(error))


def _added(model: str, catalogue: Catalogue, options: Options) -> list[Entry]:
    source = located(model, options)
    if isinstance(source, Signature):
        return catalogue.add(source)
    source = only(source)
    labels = {path: options.recipe.label(path) for path in options.paths}
    if source.revision and catalogue.has(source.name, source.revision, labels):
        return []
    return catalogue.add(open_model(source, options).signature())
