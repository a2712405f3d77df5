"""Verification: whether a signature, which is untrusted input, can stand for the weights of a model.

It has to agree with the model's own headers, configuration and files; where the Hub refuses the weights, there are no
headers to agree with. In addition the owner of its repository must have committed it, or the user's trust file must pin
its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.architecture import Layout
from hf_lineage.architecture.registry import Factorization, fingerprint
from hf_lineage.checkpoint import weight_files
from hf_lineage.checkpoint.foreign.gguf import SUFFIX as GGUF
from hf_lineage.errors import SignatureError
from hf_lineage.files import open_regular
from hf_lineage.hub import Entry, RepoRef, listing
from hf_lineage.signature.options import Spec
from hf_lineage.signature.sources.store import load_signature
from hf_lineage.signature.sources.trust import Origin, Trust
from hf_lineage.signature.values import Signature, together

OF_A_LAYER = 4 * 8
"""Bytes of a layer's trace and norm, of what it writes, and of how many units it has."""
LARGEST = 2**30
"""Bytes of a file at most, where the shapes of the model are not known."""
BESIDES = 2**16
"""Bytes of a file besides its numbers: its metadata."""


def files_of(repo: RepoRef, commit: str | None = None) -> dict[str, str]:
    """Return by name the digests of the files that a signature of a model is made from, at its commit or another.

    Raise SignatureError if the Hub does not list one of them.
    """
    files = listing.tree(repo.remote or "", commit or repo.commit or "")
    weights = weight_files(repo)
    wanted = weights if weights[0].endswith(GGUF) else ["config.json", *weights]
    if absent := [file for file in wanted if file not in files]:
        raise SignatureError(f"the Hub does not list {absent[0]} of {repo}")
    return {file: files[file].content for file in wanted}


def made_from(repo: RepoRef, factorization: Factorization) -> dict[str, str]:
    """Return the digests of everything that a signature of a model depends on besides the recipe; raise as `files_of`.

    They are by file, and that of the factorization is among them.
    """
    return {"factorization": fingerprint(factorization)} | files_of(repo)


@dataclass(frozen=True)
class SignatureFiles:
    """The files of all paths in one folder of a repository at a commit."""

    repository: str
    commit: str
    folder: str
    entries: Mapping[str, Entry]
    """Full path -> entry of the files that exist, in the order in which they are asked for."""

    @classmethod
    def find(
        cls, repository: str, commit: str, folder: str, files: Mapping[str, Entry], wanted: Iterable[str]
    ) -> SignatureFiles:
        """Return those of the wanted files that are listed."""
        paths = (f"{folder}/{file}" for file in wanted)
        return cls(repository, commit, folder, {path: files[path] for path in paths if path in files})

    def __str__(self) -> str:
        return f"{self.repository}/{self.folder}"


@dataclass(frozen=True)
class Model:
    """The model with which a published signature has to agree."""

    repo: RepoRef
    architecture: str
    factorization: Factorization
    layout: Layout | None
    """None where the Hub refuses the weights, so that nothing is known of their shapes."""
    spec: Spec

    @property
    def _names(self) -> tuple[str | None, ...]:
        return self.repo.remote, self.repo.renamed

    def verified(self, place: SignatureFiles, trusted: Trust) -> tuple[Signature, Origin]:
        """Return the signature in these files and its source; SignatureError says why it cannot be used."""
        for (file, entry), path in zip(place.entries.items(), self.spec.paths, strict=True):
            if len(entry.content) != 64 or entry.size > self._most(path):
                raise SignatureError(f"{file} has {entry.size} bytes, more than a signature of this model can have")
        pinned = {file: trusted.commits(self._names, entry.content) for file, entry in place.entries.items()}
        why = "its sha256 is pinned in the trust file" if all(pinned.values()) else _committed(place)
        signatures = [
            self._agreeing(_loaded(place, file), path, pinned[file] if all(pinned.values()) else ())
            for file, path in zip(place.entries, self.spec.paths, strict=True)
        ]
        origin = Origin(
            "published", place.repository, {path: entry.content for path, entry in place.entries.items()}, why
        )
        whole = replace(together(signatures), model=self.repo.name, commit=self.repo.commit, made_from={})
        return whole, origin

    def _most(self, path: str) -> int:
        """The largest possible size of the signature of a path, in bytes."""
        if self.layout is None:
            return LARGEST
        width, recipe = self.layout.width, self.spec.recipe
        layers = self.layout.numbers(path)
        dimension = recipe.dimension(width)
        numbers = dimension * recipe.columns(width) + min(recipe.coordinates, dimension) ** 2
        units = sum(self.layout.parts(path, layer) for layer in layers)
        return len(layers) * (4 * numbers + OF_A_LAYER) + units * recipe.unit_bytes + BESIDES

    def _agreeing(self, signature: Signature, path: str, pinned: Collection[str]) -> Signature:
        """The signature, if its metadata agree with the model and the pin; SignatureError names what differs."""
        compared: dict[str, tuple[object, object]] = {
            "model": (signature.model in self._names, True),
            "commit": (signature.commit in pinned if pinned else len(signature.commit or "") == 40, True),
            "class": (signature.architecture, self.architecture),
            "factorization": (signature.factorization, self.factorization.name),
            "null": (signature.exchangeable, self.factorization.exchangeable),
            "recipe": (signature.recipe, self.spec.recipe),
            "paths": (tuple(signature.paths), (path,)),
            "files": (signature.made_from, made_from(self.repo, self.factorization)),
        }
        if self.layout is not None:
            compared |= self._shapes(self.layout, signature, path)
        unlike = [what for what, (actual, expected) in compared.items() if actual != expected]
        if unlike:
            raise SignatureError(f"it does not fit this model at this commit: different {unlike[0]}")
        parts = signature.paths[path]
        if not all(np.isfinite(values).all() for values in (parts.trace, parts.norm, parts.writes)):
            raise SignatureError("it holds numbers that are not finite")
        return signature

    def _shapes(self, layout: Layout, signature: Signature, path: str) -> dict[str, tuple[object, object]]:
        """What a signature says of the shapes of the model, each with what the headers of the weights say."""
        numbers, dimension = layout.numbers(path), self.spec.recipe.dimension
        parts = signature.paths.get(path)
        widths, units = (parts.widths, parts.units) if parts else ((), ())
        return {
            "width": (signature.width, layout.width),
            "layers": ((signature.layers, signature.numbers(path)), (layout.layers, numbers)),
            "widths": (
                widths or (dimension(layout.width),) * len(numbers),
                tuple(dimension(layout.widths[number]) for number in numbers),
            ),
            "numbers of units": (
                [len(codes.weight) for codes in units],
                [layout.parts(path, number) for number in numbers],
            ),
        }


def _committed(place: SignatureFiles) -> str:
    """Why files that are not pinned are trusted; SignatureError if they are not."""
    commits = listing.owner_commits(place.repository, place.commit, tuple(place.entries))
    if not commits:
        raise SignatureError("not all of its commits are the owner's, and its sha256 is not pinned")
    return f"the owner of {place.repository} committed it ({', '.join(commits)})"


def _loaded(place: SignatureFiles, file: str) -> Signature:
    """The signature in a file; SignatureError if it is not the file that the Hub lists."""
    local = listing.fetched(place.repository, place.commit, file)
    with open_regular(local) as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != place.entries[file].content:
            raise SignatureError(f"{file} is not the file that the Hub lists")
    try:
        return load_signature(local)
    except SignatureError as error:
        raise SignatureError(str(error).replace(str(local), file)) from None
