"""Contents: what a repository holds, as one value for each thing that is judged, and the models in its folders.

Sentence-transformers says in `modules.json` where its transformer is, diffusers in `model_index.json` what its parts
are, and a training run leaves a folder for each checkpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from hf_lineage.architecture.registry import listing
from hf_lineage.checkpoint.foreign import WEIGHT_FILES
from hf_lineage.checkpoint.weight_files import INDICES
from hf_lineage.errors import Ambiguous, NothingToCompare, RepositoryError, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, EVERY, RepoRef
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import described, holds_others
from hf_lineage.source.parts import part_named, parts_of_model

if TYPE_CHECKING:
    from hf_lineage.source.adapters import Adapters

MODULES, INDEX, CONFIG = "modules.json", "model_index.json", "config.json"
CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
FOLDER = re.compile(r"(?!\.)[\w.+-]{1,100}(/(?!\.)[\w.+-]{1,100}){0,3}")
"""A folder below the root of a repository, never one above it."""
Source = TypeVar("Source", RepoRef, RepoRef | Signature)
MAIN = ("unet", "transformer", "prior")
"""Folders in which a pipeline may have the model that makes the picture."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors")
MOST = 20
"""Parts of one repository that are judged."""


@dataclass(frozen=True)
class WholeModel:
    """A repository that is a model itself."""

    repo: RepoRef


@dataclass(frozen=True)
class NamedPart:
    """A part of a model, which the user names by itself."""

    repo: RepoRef


@dataclass(frozen=True)
class Components:
    """The parts of a model beside its language model."""

    parts: tuple[RepoRef, ...]


@dataclass(frozen=True)
class Folders:
    """The models in the folders of one repository, and sentences about the folders that are left out."""

    models: tuple[RepoRef, ...]
    notes: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    """Folder -> class of the parts that no factorization reads; they may have any ancestry."""


Content: TypeAlias = "Signature | WholeModel | NamedPart | Adapters | Folders | Components"
"""One thing in a repository that is judged, or the signature that stands for a model."""


def contents_of(source: RepoRef | Signature) -> tuple[Content, ...]:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    if isinstance(source, Signature):
        return (source,)
    in_place = tuple(one for one in (_adapters_of(source), folders_of(source)) if one)
    itself = NamedPart(source) if source.part else None if in_place else WholeModel(source)
    parts = parts_beside(source) if source.has(CONFIG) and holds_others(source.config()) else ()
    return tuple(one for one in (itself, *in_place, Components(parts) if parts else None) if one)


def _adapters_of(source: RepoRef) -> Adapters | None:
    if source.offers(CONFIG):
        return None
    from hf_lineage.source.adapters import find_adapters

    return find_adapters(source)


def part_of(repo: RepoRef, subfolder: str) -> RepoRef:
    """Return a folder of a repository as the model that is meant; RepositoryError if there is no such folder."""
    subfolder = subfolder.rstrip("/")
    if not FOLDER.fullmatch(subfolder):
        raise RepositoryError(f"{printable(subfolder, 200)} is not a folder of {repo}; give its path in the repository")
    name, at, revision = repo.name.partition("@")
    part = replace(repo, name=f"{name}/{subfolder}{at}{revision}", subfolder=subfolder)
    if not part.files() and (component := part_named(repo, subfolder)):
        return component
    if not part.files():
        raise RepositoryError(f"{repo} has no folder {subfolder}; write ORG/NAME/FOLDER for a folder of it")
    part.fetch(CONFIG, *INDICES, ADAPTER_CONFIG)
    return part


def parts_beside(repo: RepoRef) -> tuple[RepoRef, ...]:
    """Return the parts of a model that are models by themselves, and that are not read with it."""
    if repo.part or not repo.has(CONFIG):
        return ()
    return parts_of_model(repo)


def model_folders(repo: RepoRef) -> list[str]:
    """Return the folders of a repository with the configuration of a model, sorted."""
    return [name for name in repo.folders() if FOLDER.fullmatch(name) and repo.offers(f"{name}/{CONFIG}")]


def adapter_folders(repo: RepoRef) -> list[str]:
    """Return the folders of a repository that hold an adapter and no model, sorted."""
    return [
        name
        for name in repo.folders()
        if FOLDER.fullmatch(name) and repo.offers(f"{name}/{ADAPTER_CONFIG}") and not repo.offers(f"{name}/{CONFIG}")
    ]


def folders_of(repo: RepoRef) -> Folders | None:
    """Return the models in the folders of a repository; None where there are none, or it is a model itself."""
    if repo.file == EVERY:
        from hf_lineage.checkpoint.gguf.files import list_models

        files = list_models(repo)
        notes = (f"only the first {MOST} of {len(files)} GGUF files were judged",) if len(files) > MOST else ()
        each = tuple(replace(repo, file=file, each=True) for file in files[:MOST])
        return Folders(each, notes) if each else None
    if repo.subfolder or repo.has(CONFIG):
        return None
    return _modules(repo) or _pipeline(repo) or _checkpoints(repo) or _folders(repo)


def adapter_beside(repo: RepoRef) -> bool:
    """Return whether an adapter lies beside the weights, which a loader with peft would apply.

    A configuration without the weights of an adapter makes peft fail, so that it changes nothing.
    """
    return repo.offers(ADAPTER_CONFIG) and any(map(repo.offers, ADAPTER_WEIGHTS))


def counterpart(base: Source, subfolder: str) -> Source:
    """Return what the folder of a candidate is to be compared with: the same folder, or the only model of the base.

    Raise NothingToCompare if there is neither.
    """
    if isinstance(base, Signature):
        return base
    if subfolder and base.offers(f"{subfolder}/{CONFIG}"):
        return part_of(base, subfolder)
    if base.has(CONFIG) or base.subfolder:
        return base
    models = _models_in(base)
    if len(models) > 1:
        raise Ambiguous(f"{base} holds several models, in {_listed(models)}, and none in {subfolder or 'its root'}")
    return models[0]


def fitting_part(base: RepoRef | Signature, part: RepoRef) -> RepoRef:
    """Return what a part is compared with: the part of the base with its name, one of its class, or all of the base.

    Raise NothingToCompare if there is none.
    """
    if isinstance(base, Signature):
        raise NothingToCompare("a signature stands for the base, which holds no parts")
    if base.part:
        return base
    own = described(part).factorization.name
    parts = parts_of_model(base, read=True) if base.has("config.json") else ()
    alike = [one for one in parts if one.part == part.part]
    alike = alike or [one for one in parts if described(one).factorization.name == own]
    if alike or described(base).factorization.name == own:
        return alike[0] if alike else base
    raise NothingToCompare(f"{base} has no part like {part.part}")


def component_of(base: RepoRef, component: str) -> RepoRef:
    """Return the model of a pipeline that an adapter is for, or the only model; NothingToCompare if there is none."""
    whole = base.subfolder or base.has(CONFIG)
    wanted = () if whole else (component,) if component else MAIN
    folder = next((name for name in wanted if base.offers(f"{name}/{CONFIG}")), None)
    if folder is not None:
        return part_of(base, folder)
    if component and component != base.subfolder:
        raise NothingToCompare(f"{base} has no folder {component}, and this part of the adapter is for it")
    return base if whole else counterpart(base, "")


def only(repo: Source) -> Source:
    """Return the one model of a repository, which may be in a folder; NothingToCompare if there are several."""
    if isinstance(repo, Signature):
        return repo
    models = _models_in(repo)
    if len(models) > 1:
        raise Ambiguous(f"{repo} holds several models, in {_listed(models)}; name one as MODEL/FOLDER")
    return models[0]


def _models_in(repo: RepoRef) -> Sequence[RepoRef]:
    """Return the models in the folders of a repository, or the repository where there are none."""
    folders = folders_of(repo)
    return folders.models if folders else (repo,)


def _modules(repo: RepoRef) -> Folders | None:
    """Return the transformer of sentence-transformers."""
    listed = _json(repo, MODULES)
    named = [
        str(entry.get("path"))
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and str(entry.get("type")).rpartition(".")[2] == "Transformer"
    ]
    return _parts(repo, named)


def _pipeline(repo: RepoRef) -> Folders | None:
    """Return the parts of a diffusers pipeline that transformers loads or the registry reads; the others are named."""
    index = _json(repo, INDEX)
    entries = {
        key: value
        for key, value in (index.items() if isinstance(index, dict) else ())
        if isinstance(value, list) and len(value) == 2 and all(isinstance(word, str) for word in value)
    }
    read = [key for key, entry in entries.items() if _is_read(*entry)]
    others = {key: name for key, (_, name) in entries.items() if key not in read and FOLDER.fullmatch(key)}
    others = {key: name for key, name in others.items() if repo.offers(f"{key}/{CONFIG}")}
    parts = _parts(repo, read)
    return parts and replace(parts, others=others)


def _is_read(library: str, name: str) -> bool:
    return library == "transformers" or any(listing(f"{library}.{name}"))


def unchanged(part: RepoRef, base: RepoRef) -> bool:
    """Return whether a part has the weights of its counterpart, byte for byte, its settings and code."""
    ends = (*WEIGHT_FILES, ".py")
    files, alike = ([name for name in one.files() if name == CONFIG or name.endswith(ends)] for one in (part, base))
    weights = any(name.endswith(WEIGHT_FILES) for name in files)
    return weights and files == alike and all(part.sha256(name) == base.sha256(name) for name in files)


def _checkpoints(repo: RepoRef) -> Folders | None:
    """Return the last checkpoint of a training run; the earlier ones are counted."""
    numbered = {int(match[1]): name for name in repo.folders() if (match := CHECKPOINT.fullmatch(name))}
    held = [name for _, name in sorted(numbered.items()) if repo.offers(f"{name}/{CONFIG}")]
    if not held or _has_weights(repo):
        return None
    earlier = (f"the last of {len(held)} checkpoints was judged, {held[-1]}; MODEL/FOLDER names another",)
    return Folders((part_of(repo, held[-1]),), earlier if len(held) > 1 else ())


def _folders(repo: RepoRef) -> Folders | None:
    """Return the models in any other folders, if the root holds no weights."""
    return None if _has_weights(repo) else _parts(repo, repo.folders())


def _parts(repo: RepoRef, subfolders: Sequence[str]) -> Folders | None:
    """Return the folders among these that hold a configuration; None if there are none."""
    held = [name for name in dict.fromkeys(subfolders) if FOLDER.fullmatch(name) and repo.offers(f"{name}/{CONFIG}")]
    notes = (f"only the first {MOST} of {len(held)} folders with models were judged",) if len(held) > MOST else ()
    return Folders(tuple(part_of(repo, name) for name in held[:MOST]), notes) if held else None


def _has_weights(repo: RepoRef) -> bool:
    return any(name.endswith(WEIGHT_FILES) for name in repo.files())


def _json(repo: RepoRef, file: str) -> Any:
    """Return the content of a file; None if there is none, or it is not JSON."""
    if not repo.offers(file):
        return None
    repo.fetch(file)
    try:
        return json.loads(repo.read_text(file) or "null")
    except (ValueError, RecursionError):
        return None


def _listed(models: Sequence[RepoRef]) -> str:
    return printable(", ".join(model.file or model.subfolder for model in models), 300)
