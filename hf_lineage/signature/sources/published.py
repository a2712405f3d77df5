"""Published signatures: a trusted one of a base on the Hub stands for its weights, which are not downloaded.

One is proposed to the Hub in the model's own repository or in one of signatures.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hf_lineage.architecture.registry import Factorization
from hf_lineage.errors import LineageError, OptionError, RepositoryError, SignatureError
from hf_lineage.hub import RepoRef, client, commits, listing
from hf_lineage.signature.options import Sources, Spec
from hf_lineage.signature.recipe import Recipe
from hf_lineage.signature.sources import trust
from hf_lineage.signature.sources.store import encode, load_signature
from hf_lineage.signature.sources.trust import Origin
from hf_lineage.signature.sources.verification import Model, SignatureFiles, files_of, made_from
from hf_lineage.signature.values import Signature, by_path

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
        commit = commit or listing.head(name)
        yield SignatureFiles.find(name, commit, FOLDER, listing.tree(name, commit), wanted)


def _elsewhere(repo: RepoRef, where: str, wanted: tuple[str, ...]) -> Iterator[SignatureFiles]:
    """A signature repository: the folder of this commit, then those of others that have the same weights."""
    name, now = current(repo), repo.commit or ""
    commit = listing.head(where)
    try:
        files = listing.tree(where, commit, f"{FOLDER}/{name}")
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


DESCRIPTION = (
    "`hf-lineage check` can compare models with these signatures instead of the weights. Each names the commit and "
    "the digests of the files that it was made from; anybody can make it again with `hf-lineage extract`."
)


@dataclass(frozen=True)
class Published:
    """The result: a sentence on where it was proposed, and the files, each with its sha256."""

    done: str
    files: Mapping[str, str]


def refuse(repo: RepoRef, recipe: Recipe, to: str | None) -> None:
    """Raise OptionError for a signature that cannot be published, before anything is read."""
    branch = repo.name.partition("@")[2]
    if repo.remote is None:
        raise OptionError(f"{repo} is not a model on the Hub, so its signature cannot be published; give org/model")
    if repo.subfolder:
        raise OptionError(
            f"{repo} is a folder of a repository, and its signature would count for all of it; leave it out"
        )
    if recipe.probes is None:
        raise OptionError("a signature with probes=exact is as large as the weights; leave probes=exact out")
    if to is None and branch not in ("", "main"):
        raise OptionError(f"{repo}: a pull request is made against the main branch; leave @{branch} out, or use --to")


def propose(repo: RepoRef, factorization: Factorization, whole: Signature, to: str | None = None) -> Published:
    """Open a pull request with the signature of a model, or update the one that is open already.

    Raise RepositoryError or NetworkError as `commits.commit` does.
    """
    name = current(repo)
    folder = FOLDER if to is None else folder_of(name, repo.commit or "")
    labelled = replace(whole, model=name, made_from=made_from(repo, factorization))
    files = {f"{folder}/{file_name(labelled.recipe, path)}": single for path, single in by_path(labelled).items()}
    where, title = to or name, f"Add the lineage signature of {name}"
    change = _Change(where, {file: encode(single) for file, single in files.items()}, files)
    parent = listing.head(where) if to else repo.commit or ""
    done = commits.propose(where, title, DESCRIPTION, parent, change.against)
    return Published(done, {file: hashlib.sha256(content).hexdigest() for file, content in change.contents.items()})


@dataclass(frozen=True)
class _Change:
    """The files that a repository shall have."""

    repository: str
    contents: Mapping[str, bytes]
    signatures: Mapping[str, Signature]

    def against(self, commit: str) -> dict[str, bytes]:
        """Return the files that a commit does not have."""
        files = listing.tree(self.repository, commit)
        return {file: content for file, content in self.contents.items() if not self._there(commit, files, file)}

    def _there(self, commit: str, files: Mapping[str, listing.Entry], file: str) -> bool:
        """Whether a commit has this signature already, even one made at another commit with the same numbers."""
        content = self.contents[file]
        if file not in files or files[file].size != len(content):
            return False
        if files[file].content == hashlib.sha256(content).hexdigest():
            return True
        there = listing.fetched(self.repository, commit, file)
        with contextlib.suppress(SignatureError):
            then = load_signature(there).commit
            return encode(replace(self.signatures[file], commit=then)) == there.read_bytes()
        return False
