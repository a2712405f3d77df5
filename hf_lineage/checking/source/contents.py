"""Contents: what is in a repository, read once: a model, adapters, models in its folders, or a stored signature.

Adapters lie in the root, in folders with a configuration of peft each, or in files without one, as diffusers and
trainers beside it save them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from hf_lineage.checking.source.meant import with_folders
from hf_lineage.checking.source.opening import model_config
from hf_lineage.checking.source.submodels import (
    CHECKPOINT,
    CONFIG,
    INDEX,
    MODULES,
    Parts,
    adapter_folders,
    model_folders,
    part_of,
    parts_of,
)
from hf_lineage.checkpoint import open_file
from hf_lineage.checkpoint.foreign import NO_WEIGHTS, SHARD, WEIGHT_FILES
from hf_lineage.claims import Claims, read_claims
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef
from hf_lineage.signature import Signature

MOST = 20
"""Adapters of one repository that are judged."""
LORA_FILE = "pytorch_lora_weights.safetensors"
"""How diffusers calls the file with an adapter."""
END = ".safetensors"
MODELS = (CONFIG, INDEX, MODULES, "params.json")
"""Files of a repository that is a model or a pipeline itself."""
MODEL_FILES = ("model", "diffusion_pytorch_model", "consolidated", "adapter_model")
"""Beginnings of the names of files that hold no adapter without a configuration."""


@dataclass(frozen=True)
class Place:
    """Where one adapter of a repository is."""

    repo: RepoRef
    file: str = ""
    """The file of an adapter that has no configuration."""

    @property
    def part(self) -> str:
        """The folder or the file by which a row names it; empty for the repository itself."""
        return self.file or self.repo.subfolder


@dataclass(frozen=True)
class Adapters:
    """The adapters of a repository that holds no model; no place where it is none of that kind."""

    places: tuple[Place, ...] = ()
    left_out: str = ""
    """Other files, which may have any ancestry."""
    notes: tuple[str, ...] = ()
    """Sentences about other files that are not adapters themselves."""


@dataclass(frozen=True)
class Contents:
    """What is in one repository, or the signature that stands for a model."""

    source: RepoRef | Signature
    adapters: Adapters
    submodels: Parts
    """The models in the folders of a repository that is not a model itself."""

    @property
    def repo(self) -> RepoRef | None:
        """The repository; None for a stored signature."""
        return None if isinstance(self.source, Signature) else self.source

    @property
    def models(self) -> tuple[RepoRef | Signature, ...]:
        """What may be opened as a model: the source itself where there are neither submodels nor adapters."""
        return self.submodels.models or (() if self.adapters.places else (self.source,))


def contents_of(source: RepoRef | Signature) -> Contents:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    return Contents(source, _adapters_of(source), parts_of(source))


def _adapters_of(source: RepoRef | Signature) -> Adapters:
    """Return the adapters of a repository, by its files alone, or by the headers of files of unknown names."""
    if isinstance(source, Signature) or any(map(source.offers, MODELS)):
        return Adapters()
    here = [Place(source)] if source.offers(ADAPTER_CONFIG) else []
    folders, notes = ([], []) if source.subfolder else _folders(source, bool(here))
    files, others = ([], []) if here else _files(source, bool(folders))
    others += model_folders(source) if files and not source.subfolder else []  # models beside files are not looked for
    places = [*here, *(Place(part_of(source, name)) for name in folders[:MOST]), *(Place(source, f) for f in files)]
    unread = [*others, *(place.part for place in places[MOST:]), *folders[MOST:]] if places else []
    shown = printable(", ".join(unread[:6]), 500) + (f" and {len(unread) - 6} more" if len(unread) > 6 else "")
    return Adapters(tuple(places[:MOST]), shown if unread else "", tuple(notes))


def _folders(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """The folders with adapters, only the last state of a training run, and sentences about the others.

    Beside an adapter in the root they are its earlier states.
    """
    held = adapter_folders(repo)
    states = sorted((name for name in held if CHECKPOINT.fullmatch(name)), key=lambda name: int(name.split("-")[1]))
    last = [] if beside else states[-1:]
    earlier = [name for name in states if name not in last]
    notes = [f"{len(earlier)} earlier states of training, such as {earlier[-1]}, were not judged"] if earlier else []
    deeper = sorted(name for name in repo.published if name.endswith(f"/{ADAPTER_CONFIG}") and name.count("/") > 1)
    if deeper:
        shown = printable(deeper[0].rpartition("/")[0], 200)
        notes.append(f"adapters in deeper folders, such as {shown}, were not judged; name one with --subfolder")
    return [*(name for name in held if name not in states), *last], notes


def _files(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """The files with adapters, and other weights that some loaders would read; none if no file is surely an adapter."""
    held = [name for name in repo.files() if name.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(name)]
    if repo.file is not None:
        held = [name for name in held if name == repo.file]
    likely = [
        name for name in held if name.endswith(END) and not SHARD.fullmatch(name) and not name.startswith(MODEL_FILES)
    ]
    if not likely or (len(likely) < len(held) and LORA_FILE not in held and not beside):
        return [], held if beside else []
    files = [name for name in likely[:MOST] if name == LORA_FILE or _holds_factors(repo, name)]
    return (files, [name for name in held if name not in files]) if files or beside else ([], [])


def _holds_factors(repo: RepoRef, file: str) -> bool:
    from hf_lineage.checkpoint.lora import is_lora_file

    try:
        return is_lora_file(open_file(repo, file))
    except (CheckpointError, NothingToCompare):
        return False


def declared_in(contents: Contents) -> Claims:
    """Return what a model declares: nothing for a stored signature, because claims stand in the files of a repository.

    Where nothing is declared nothing is downloaded, but a folder that holds no model is still an error.
    """
    source = contents.source
    if isinstance(source, Signature):
        return Claims((), ())
    if contents.adapters.places and not source.subfolder:
        return with_folders(_by_adapters(contents.adapters, source), source)
    claims = read_claims(replace(source, subfolder=""))
    if source.subfolder and not claims.claims:
        claims = read_claims(source)
    if not claims.claims and not contents.submodels.models:
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return with_folders(claims, source)


def _by_adapters(adapters: Adapters, source: RepoRef) -> Claims:
    """What a repository declares in its root or, where it declares nothing there, in the folders of adapters."""
    root = read_claims(replace(source, subfolder=""))
    if root.claims:
        return root
    folders = [read_claims(place.repo) for place in adapters.places if place.repo.subfolder]
    claims = {claim.base.casefold(): claim for each in folders for claim in each.claims}
    return replace(root, claims=tuple(claims.values()), conflicts=sum((each.conflicts for each in folders), ()))
