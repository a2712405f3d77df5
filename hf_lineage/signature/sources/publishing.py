"""Publishing: a signature proposed to the Hub, in the model's own repository or in one of signatures."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hf_lineage.architecture.registry import Factorization
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.hub import RepoRef, commits, trees
from hf_lineage.signature.recipe import Recipe
from hf_lineage.signature.sources.published import FOLDER, current, file_name, folder_of
from hf_lineage.signature.sources.store import encode, load_signature
from hf_lineage.signature.sources.verification import made_from
from hf_lineage.signature.values import Signature, by_path

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
    parent = trees.head(where) if to else repo.commit or ""
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
        files = trees.tree(self.repository, commit)
        return {file: content for file, content in self.contents.items() if not self._there(commit, files, file)}

    def _there(self, commit: str, files: Mapping[str, trees.Entry], file: str) -> bool:
        """Whether a commit has this signature already, even one made at another commit with the same numbers."""
        content = self.contents[file]
        if file not in files or files[file].size != len(content):
            return False
        if files[file].content == hashlib.sha256(content).hexdigest():
            return True
        there = trees.fetched(self.repository, commit, file)
        with contextlib.suppress(SignatureError):
            then = load_signature(there).commit
            return encode(replace(self.signatures[file], commit=then)) == there.read_bytes()
        return False
