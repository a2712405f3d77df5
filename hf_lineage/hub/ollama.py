"""Ollama: a model in its store on this disk, as a repository whose files lie among the blobs of all models.

A manifest says which blobs a model consists of; each is called by the SHA-256 of its content. Where a model is stored
for several programs, its manifest lists one manifest for each. Manifests are untrusted: who made a model wrote them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from hf_lineage.errors import CheckpointError, NoModelError, NothingToCompare, RepositoryError, printable, remedy
from hf_lineage.files import expanded, inside, is_file, is_folder, open_regular
from hf_lineage.hub.addresses import OLLAMA
from hf_lineage.hub.reference import RepoRef

VARIABLE = "OLLAMA_MODELS"
USUAL = ("~/.ollama/models", "/usr/share/ollama/.ollama/models")
"""Where the store is if the variable does not say: that of the user, and that of the service on Linux."""
BLOBS, MANIFESTS = "blobs", ("manifests-v2", "manifests")
"""The folders of a store. Of a model in both the first counts, in which manifests are links to blobs."""
HOST, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
HOSTS = {"manifests-v2": ("ollama.com", HOST), "manifests": (HOST, "ollama.com")}
"""What the public registry is called in each of these folders, the usual name first."""
RUNNERS = ("ollama", "llamacpp")
"""The programs for which a model is stored as GGUF, in the order in which Ollama prefers them."""
LARGEST_MANIFEST = 2**24
"""Bytes; that of a model with a blob for each of 30,000 tensors takes six million."""
MOST_FILES = 100
"""Of one model, without those that are not read."""
MODEL = "model.gguf"
FILES = {"model": MODEL, "adapter": "adapter.gguf", "projector": "projector.gguf", "license": "LICENSE"}
"""What a layer is, by the end of its media type -> the name of its blob as a file of the model."""
MEDIA, TENSOR = "application/vnd.ollama.image.", "tensor"
ADAPTED = "Ollama runs {} with a LoRA adapter upon it, which was not read: the model alone was compared"
DIGEST = re.compile(r"sha256[:-][0-9a-fA-F]{64}")
NAME = re.compile(
    r"(?:(?:(?P<host>\w[\w.:-]{0,349})/)?(?P<namespace>\w[\w-]{0,79})/)?(?P<model>\w[\w.-]{0,79})"
    r"(?::(?P<tag>\w[\w.-]{0,79}))?",
    re.ASCII,
)


class Name(NamedTuple):
    """The parts of a name, none of which leads out of the folder that it names."""

    host: str
    namespace: str
    model: str
    tag: str

    def __str__(self) -> str:
        host = () if self.host == HOST else (self.host,)
        namespace = () if not host and self.namespace == NAMESPACE else (self.namespace,)
        return f"{OLLAMA}{'/'.join((*host, *namespace, self.model))}:{self.tag}"


class Layer(msgspec.Struct):
    """One blob of a model, as a manifest describes it."""

    digest: str = ""
    kind: str = msgspec.field(name="mediaType", default="")


class Manifest(msgspec.Struct):
    """The layers of a model; or, where it is stored for several programs, the digest of a manifest for each."""

    layers: list[Layer] | None = None
    manifests: list[Manifest] | None = None
    runner: str = ""
    digest: str = ""


@dataclass(frozen=True)
class OllamaModel(RepoRef):
    """A model in the store; `folder` is its manifest, beside which no other file is read."""

    blobs: Mapping[str, Path] = field(default_factory=dict, compare=False)
    """Each file of the model, and where it lies."""

    @property
    def typed(self) -> str:
        """What names it in a command, as words of a shell."""
        return shlex.quote(self.name)

    def path(self, file: str) -> Path:
        """Return where a file of the model is, or would be."""
        return self.blobs.get(self.within(file), self.folder / file)

    def located(self, file: str) -> Path:
        """Return the real path of a file; CheckpointError if a link leads out of the store."""
        path = self.path(file)
        target = inside(path, path.parent)
        if target is None:
            raise CheckpointError(f"{self}: {path.name} is a link out of the store and is not followed; pull it again")
        return target

    def files(self) -> list[str]:
        """Return the names of the files of the model, sorted."""
        return [] if self.subfolder else sorted(self.blobs)


def parse(text: str) -> Name:
    """Return the parts of a name as Ollama understands it; raise RepositoryError if it is none."""
    match = NAME.fullmatch(text.removeprefix(OLLAMA))
    if match is None:
        raise RepositoryError(f"{printable(text, 200)} is not a name of Ollama such as {OLLAMA}llama3.2:1b")
    host = match["host"] or HOST
    return Name(
        HOST if host in HOSTS["manifests"] else host,
        match["namespace"] or NAMESPACE,
        match["model"],
        match["tag"] or TAG,
    )


def find_stores() -> tuple[Path, ...]:
    """Return the folders of the stores on this disk: the one that OLLAMA_MODELS names, or those in the usual places."""
    if named := os.environ.get(VARIABLE):
        return (expanded(named, VARIABLE),)
    return tuple(place for usual in USUAL if is_folder(str(place := expanded(usual, VARIABLE))))


def is_store(folder: Path) -> bool:
    """Return whether a folder is a store of Ollama."""
    return is_folder(str(folder / BLOBS)) and any(is_folder(str(folder / manifests)) for manifests in MANIFESTS)


def list_names(store: Path) -> Iterator[Name | OSError]:
    """Yield the name of every model of a store, and an error for each folder of it that cannot be listed."""
    known: set[Name] = set()
    problems: list[OSError] = []
    for root in (store / manifests for manifests in MANIFESTS):
        for folder, _folders, files in os.walk(root, onerror=problems.append):
            for file in files:
                parts = Path(folder, file).relative_to(root).parts
                whole = "{}/{}/{}:{}".format(*parts) if len(parts) == 4 else ""
                if NAME.fullmatch(whole) and (name := parse(whole)) not in known:
                    known.add(name)
                    yield name
    yield from (problem for problem in problems if not isinstance(problem, FileNotFoundError))


def locate_model(text: str, stores: tuple[Path, ...] | None = None) -> OllamaModel:
    """Return the model of a name in the first store that has it.

    Raise RepositoryError if none has it, CheckpointError for a damaged manifest or a blob that is not there,
    NothingToCompare for a model that is not stored as GGUF.
    """
    name, searched = parse(text), find_stores() if stores is None else stores
    for store in searched:
        hosts = [(root, host) for root in MANIFESTS for host in (HOSTS[root] if name.host == HOST else (name.host,))]
        manifests = [store.joinpath(root, host, *name[1:]) for root, host in hosts]
        if there := [manifest for manifest in manifests if os.path.lexists(manifest)]:
            # A link to nothing counts only where there is no other, as it does for Ollama.
            return _opened(text, store, next((file for file in there if is_file(str(file))), there[0]))
    where = printable(" or ".join(map(str, searched)) or " or ".join(USUAL), 300)
    raise RepositoryError(
        f"{name} is not in the store of Ollama ({where}); `ollama list` shows what is there, and {VARIABLE} names "
        "another store"
    )


def _opened(text: str, store: Path, file: Path) -> OllamaModel:
    manifest = _read(text, store, file)
    by_runner = {one.runner.casefold(): one for one in reversed(manifest.manifests or ())}
    if chosen := next((by_runner[runner] for runner in RUNNERS if runner in by_runner), None):
        manifest = _read(text, store, _blob(text, store, chosen.digest)) if chosen.digest else chosen
    kinds = [layer.kind.removeprefix(MEDIA) for layer in manifest.layers or ()]
    if (models := kinds.count("model")) != 1:
        apart = TENSOR in kinds or manifest.manifests
        if not models and not apart:
            raise NoModelError(f"{text}: its manifest names no file with a model; pull it again")
        what = f"{models} files with models" if models else "each tensor in a file of its own"
        raise NothingToCompare(f"{text} is stored as {what}, not as one GGUF file, and is not read; convert it to GGUF")
    named = [(FILES[kind], layer) for kind, layer in zip(kinds, manifest.layers or (), strict=True) if kind in FILES]
    if len(named) > MOST_FILES:
        raise CheckpointError(f"{text}: its manifest names {len(named)} files; do not trust it")
    blobs: dict[str, Path] = {}
    for name, layer in named:
        stem, dot, end = name.partition(".")
        same = sum(one.startswith(stem) for one in blobs)
        blobs[f"{stem}-{same + 1}{dot}{end}" if same else name] = _blob(text, store, layer.digest)
    adapted = (ADAPTED.format(text),) if "adapter" in kinds else ()
    return OllamaModel(text, file, file=MODEL, blobs=blobs, reservations=adapted)


def _read(text: str, store: Path, file: Path) -> Manifest:
    """A manifest; CheckpointError for one that is damaged, too large, or a link out of the store."""
    target = inside(file, store) or inside(file, store / BLOBS)
    if target is None or not is_file(str(target)):
        what = "a folder, a pipe, a broken link or one out of the store"
        raise CheckpointError(f"{text}: its manifest {file} is not a file but {what}; pull it again")
    try:
        with open_regular(target) as stream:
            content = stream.read(min(LARGEST_MANIFEST + 1, os.fstat(stream.fileno()).st_size + 1))
    except OSError as error:
        why = f"{error.strerror or error}; {remedy(error, 'check its permissions')}"
        raise CheckpointError(f"{text}: its manifest {file} cannot be read: {why}") from None
    if len(content) > LARGEST_MANIFEST:
        raise CheckpointError(f"{text}: its manifest is larger than {LARGEST_MANIFEST >> 20} MiB; do not trust it")
    try:
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        why = printable(str(error), 200)
        raise CheckpointError(f"{text}: its manifest is not one of Ollama ({why}); pull it again") from None


def _blob(text: str, store: Path, digest: str) -> Path:
    if DIGEST.fullmatch(digest) is None:
        raise CheckpointError(
            f"{text}: its manifest names the blob {printable(digest, 100) or 'nothing'}, which is not a SHA-256; do "
            "not trust it"
        )
    blob = store / BLOBS / digest.replace(":", "-")
    if not is_file(str(blob)):
        raise CheckpointError(f"{text}: {blob.name} is not among the blobs of the store; pull it again")
    return blob
