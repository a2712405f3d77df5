"""Published signatures: a trusted one of a base on the Hub stands for its weights, which are not downloaded."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hf_lineage.errors import LineageError, RepositoryError
from hf_lineage.hub import RepoRef, client, trees
from hf_lineage.signature.options import Sources, Spec
from hf_lineage.signature.recipe import Recipe
from hf_lineage.signature.sources import trust
from hf_lineage.signature.sources.origin import Origin
from hf_lineage.signature.sources.verification import Model, SignatureFiles, files_of
from hf_lineage.signature.values import Signature

FOLDER = "lineage"
OTHER_COMMITS = 4
"""Other commits of a model that are searched in a signature repository for one with the same weights."""


def file_name(recipe: Recipe, path: str) -> str:
    """Return the name of the file of one path; each recipe has another, so several fit into one folder."""
    return f"{recipe.label(path)}.safetensors"


def folder_of(model: str, commit: str) -> str:
    """Return the folder of a signature repository for the files of a model at a commit."""
    return f"{FOLDER}/{model}/{commit}"


def find(model: Model, sources: Sources) -> tuple[Signature, Origin] | None:
    """Return the published signature of a model along all paths asked for, and where it is; None if there is none.

    A warning is logged for one that cannot be trusted. Raise OptionError for an invalid trust file.
    """
    if model.repo.remote is None or model.repo.subfolder or model.spec.recipe.probes is None:
        return None
    trusted = trust.load(sources.trust)
    for where in (None, *dict.fromkeys((*sources.signatures, *trusted.signatures))):
        shown = where or model.repo.remote
        try:
            for place in _places(model.repo, where, model.spec):
                shown = str(place)
                return model.verified(place, trusted)
        except LineageError as error:
            logging.getLogger(__name__).warning("%s: the signature in %s is not used: %s", model.repo, shown, error)
    return None


def _places(repo: RepoRef, where: str | None, spec: Spec) -> Iterator[SignatureFiles]:
    wanted = tuple(file_name(spec.recipe, path) for path in spec.paths)
    places = _own(repo, wanted) if where is None else _elsewhere(repo, where, wanted)
    return (place for place in places if len(place.entries) == len(wanted))


def _own(repo: RepoRef, wanted: tuple[str, ...]) -> Iterator[SignatureFiles]:
    """The files in the model's own repository on its main branch; anybody could open a pull request."""
    name = current(repo)
    commit = repo.commit if repo.name.partition("@")[2] in ("", "main") else None
    # Most repositories have no signature, which the list of names already shows.
    if commit is None or repo.published.issuperset(f"{FOLDER}/{file}" for file in wanted):
        commit = commit or trees.head(name)
        yield SignatureFiles.find(name, commit, FOLDER, trees.tree(name, commit), wanted)


def _elsewhere(repo: RepoRef, where: str, wanted: tuple[str, ...]) -> Iterator[SignatureFiles]:
    """A signature repository: the folder of this commit, then those of others that have the same weights."""
    name, now = current(repo), repo.commit or ""
    commit = trees.head(where)
    try:
        files = trees.tree(where, commit, f"{FOLDER}/{name}")
    except RepositoryError:
        return
    named = {file.removeprefix(f"{FOLDER}/{name}/").partition("/")[0] for file in files} - {now}
    others = sorted(other for other in named if client.COMMIT.fullmatch(other))[:OTHER_COMMITS]
    for weights in (now, *others):
        place = SignatureFiles.find(where, commit, folder_of(name, weights), files, wanted)
        if place.entries and (weights == now or files_of(repo) == files_of(repo, weights)):
            yield place


def current(repo: RepoRef) -> str:
    """Return the current name of a repository on the Hub."""
    return repo.renamed or repo.remote or repo.name
