"""Vetting: whether a signature that a stranger may have written can stand for the weights of a model.

It has to say what the model's own headers, configuration and files say, and has to have come from the owner of the
repository that it stands in, or be pinned by its digest in the user's trust file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage import trees
from hf_lineage.checkpoint import weight_files
from hf_lineage.errors import SignatureError
from hf_lineage.fingerprint import fingerprint
from hf_lineage.layout import Layout
from hf_lineage.options import Options
from hf_lineage.origin import Origin
from hf_lineage.repo import RepoRef
from hf_lineage.schema import Factorization
from hf_lineage.signature import Signature, together
from hf_lineage.store import load_signature
from hf_lineage.trees import Entry
from hf_lineage.trust import Trust

OF_A_LAYER = 4 * 8
"""Bytes of a layer's trace and norm, of what it writes, and of how many units it has."""
BESIDES = 2**16
"""Bytes of a file besides its numbers: what it says of itself."""


def sources(repo: RepoRef, commit: str | None = None) -> dict[str, str]:
    """Return by name the digests of the files that a signature of a model is made from, at its commit or another.

    Raise SignatureError if the Hub does not list one of them.
    """
    files = trees.tree(repo.remote or "", commit or repo.revision or "")
    wanted = ("config.json", *weight_files(repo))
    if absent := [file for file in wanted if file not in files]:
        raise SignatureError(f"the Hub does not list {absent[0]} of {repo}")
    return {file: files[file].content for file in wanted}


def made_from(repo: RepoRef, factorization: Factorization) -> dict[str, str]:
    """Return the digests of everything that a signature of a model depends on besides the recipe; raise as `sources`.

    They are by file, and that of the factorization is among them.
    """
    return {"factorization": fingerprint(factorization)} | sources(repo)


@dataclass(frozen=True)
class Place:
    """The files of all paths in one folder of a repository at a commit."""

    repository: str
    commit: str
    folder: str
    entries: Mapping[str, Entry]
    """By full path, in the order in which they are asked for; those that are there."""

    @classmethod
    def of(cls, repository: str, commit: str, folder: str, files: Mapping[str, Entry], wanted: Iterable[str]) -> Place:
        """Return a place with those of the wanted files that are listed."""
        paths = (f"{folder}/{file}" for file in wanted)
        return cls(repository, commit, folder, {path: files[path] for path in paths if path in files})

    def __str__(self) -> str:
        return f"{self.repository}/{self.folder}"


@dataclass(frozen=True)
class Model:
    """What a published signature has to agree with."""

    repo: RepoRef
    architecture: str
    layout: Layout
    options: Options

    @property
    def _names(self) -> tuple[str | None, ...]:
        return self.repo.remote, self.repo.renamed

    def vetted(self, place: Place, believed: Trust) -> tuple[Signature, Origin]:
        """Return the signature in a place and where it came from; SignatureError says why it cannot be used."""
        for (file, entry), path in zip(place.entries.items(), self.options.paths, strict=True):
            if len(entry.content) != 64 or entry.size > self._most(path):
                raise SignatureError(f"{file} has {entry.size} bytes, more than a signature of this model can have")
        pinned = {file: believed.commits(self._names, entry.content) for file, entry in place.entries.items()}
        why = "its sha256 is pinned in the trust file" if all(pinned.values()) else _committed(place)
        found = [
            self._agreeing(_loaded(place, file), path, pinned[file] if all(pinned.values()) else ())
            for file, path in zip(place.entries, self.options.paths, strict=True)
        ]
        origin = Origin("published", place.repository, {path: at.content for path, at in place.entries.items()}, why)
        whole = replace(together(found), model=self.repo.name, revision=self.repo.revision, made_from={})
        return whole, origin

    def _most(self, path: str) -> int:
        """Bytes that the signature of a path takes at most."""
        width, recipe = self.layout.width, self.options.recipe
        layers = self.layout.numbers(path)
        numbers = width * recipe.columns(width) + min(recipe.coordinates, width) ** 2
        units = sum(self.layout.parts(path, layer) for layer in layers)
        return len(layers) * (4 * numbers + OF_A_LAYER) + units * recipe.unit_bytes + BESIDES

    def _agreeing(self, found: Signature, path: str, pinned: Collection[str]) -> Signature:
        """A signature that says of itself what the model and the pin say; SignatureError names what it does not."""
        layout = self.layout
        numbers = layout.numbers(path)
        said: dict[str, tuple[object, object]] = {
            "model": (found.model in self._names, True),
            "commit": (found.revision in pinned if pinned else len(found.revision or "") == 40, True),
            "class": (found.architecture, self.architecture),
            "factorization": (found.factorization, layout.factorization.name),
            "null": (found.exchangeable, layout.factorization.exchangeable),
            "recipe": (found.recipe, self.options.recipe),
            "paths": (tuple(found.paths), (path,)),
            "width": (found.width, layout.width),
            "layers": ((found.layers, found.numbers(path)), (layout.layers, numbers)),
            "files": (found.made_from, made_from(self.repo, layout.factorization)),
        }
        unlike = [what for what, (theirs, ours) in said.items() if theirs != ours]
        if unlike:
            raise SignatureError(f"it is about other {unlike[0]} than this model at this commit has")
        widths = tuple(layout.widths[number] for number in numbers)
        parts = found.paths[path]
        if (parts.widths or (layout.width,) * len(numbers)) != widths:
            raise SignatureError("it is about other widths than this model at this commit has")
        if [len(each.weight) for each in parts.units] != [layout.parts(path, number) for number in numbers]:
            raise SignatureError("it holds other numbers of units than this model at this commit has")
        if not all(np.isfinite(values).all() for values in (parts.trace, parts.norm, parts.writes)):
            raise SignatureError("it holds numbers that are none")
        return found


def _committed(place: Place) -> str:
    """Why files are believed that nobody has pinned; SignatureError if they are not."""
    commits = trees.owners_own(place.repository, place.commit, tuple(place.entries))
    if not commits:
        raise SignatureError("it is not from a commit of the owner alone, and its sha256 is not pinned")
    return f"the owner of {place.repository} committed it ({', '.join(commits)})"


def _loaded(place: Place, file: str) -> Signature:
    """What stands in a file, if it is the one that the Hub lists."""
    local = trees.fetched(place.repository, place.commit, file)
    with local.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != place.entries[file].content:
            raise SignatureError(f"{file} is not the file that the Hub lists")
    try:
        return load_signature(local)
    except SignatureError as error:
        raise SignatureError(str(error).replace(str(local), file)) from None
