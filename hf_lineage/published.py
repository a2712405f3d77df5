"""Published: the signature of a base on the Hub, for which its weights need not be fetched if it can be believed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hf_lineage import hub, trees, trust
from hf_lineage.errors import LineageError, RepositoryError
from hf_lineage.options import Options
from hf_lineage.origin import Origin
from hf_lineage.recipe import Recipe
from hf_lineage.repo import RepoRef
from hf_lineage.signature import Signature
from hf_lineage.vetting import Model, Place, sources

FOLDER = "lineage"
OTHER_COMMITS = 4
"""Of a model that are looked at in a signature repository, for one with the same weights."""


def file_name(recipe: Recipe, path: str) -> str:
    """Return what the file of one path is called, so that several recipes can stand beside each other."""
    return f"{recipe.label(path)}.safetensors"


def folder_of(model: str, commit: str) -> str:
    """Return where a signature repository has the files of a model at a commit."""
    return f"{FOLDER}/{model}/{commit}"


def find(model: Model, options: Options) -> tuple[Signature, Origin] | None:
    """Return the published signature of a model along all paths asked for, and where it is; None if there is none.

    One that is there and cannot be believed is a line in the log. Raise OptionError for a trust file that is wrong.
    """
    if model.repo.remote is None or options.recipe.probes is None:
        return None
    believed = trust.load(options.trust)
    for where in (None, *dict.fromkeys((*options.signatures, *believed.signatures))):
        shown = where or model.repo.remote
        try:
            for place in _places(model.repo, where, options):
                shown = str(place)
                return model.vetted(place, believed)
        except LineageError as error:
            logging.getLogger(__name__).warning("%s: the signature in %s is not used: %s", model.repo, shown, error)
    return None


def _places(repo: RepoRef, where: str | None, options: Options) -> Iterator[Place]:
    wanted = tuple(file_name(options.recipe, path) for path in options.paths)
    found = _own(repo, wanted) if where is None else _elsewhere(repo, where, wanted)
    return (place for place in found if len(place.entries) == len(wanted))


def _own(repo: RepoRef, wanted: tuple[str, ...]) -> Iterator[Place]:
    """The model's own repository, as its main branch stands: a pull request is anybody's."""
    name = current(repo)
    commit = repo.revision if repo.name.partition("@")[2] in ("", "main") else None
    # Most have none, and the list of names is there already.
    if commit is None or repo.published.issuperset(f"{FOLDER}/{file}" for file in wanted):
        commit = commit or trees.head(name)
        yield Place.of(name, commit, FOLDER, trees.tree(name, commit), wanted)


def _elsewhere(repo: RepoRef, where: str, wanted: tuple[str, ...]) -> Iterator[Place]:
    """A signature repository: the folder of this commit, then those of others that have the same weights."""
    name, now = current(repo), repo.revision or ""
    commit = trees.head(where)
    try:
        files = trees.tree(where, commit, f"{FOLDER}/{name}")
    except RepositoryError:
        return
    named = {file.removeprefix(f"{FOLDER}/{name}/").partition("/")[0] for file in files} - {now}
    others = sorted(other for other in named if hub.COMMIT.fullmatch(other))[:OTHER_COMMITS]
    for weights in (now, *others):
        place = Place.of(where, commit, folder_of(name, weights), files, wanted)
        if place.entries and (weights == now or sources(repo) == sources(repo, weights)):
            yield place


def current(repo: RepoRef) -> str:
    """Return what the Hub calls a repository today."""
    return repo.renamed or repo.remote or repo.name
