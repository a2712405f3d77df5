"""Contents: what a repository holds, as one value for each thing that is judged, and the models in its folders."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hf_lineage.architecture.registry import listing
from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.checkpoint.weight_files import INDICES, NO_WEIGHTS, SHARD, WEIGHT_FILES
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, RepositoryError, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, EVERY, RepoRef
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import holds_others, part_named, parts_of_model

MODULES, INDEX, CONFIG = "modules.json", "model_index.json", "config.json"
CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
FOLDER = re.compile(r"(?!\.)[\w.+-]{1,100}(/(?!\.)[\w.+-]{1,100}){0,3}")  # Below the root, never above it
Source = TypeVar("Source", RepoRef, RepoRef | Signature)
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors")
MOST = 20  # Parts of one repository that are judged
LORA_FILE = "pytorch_lora_weights.safetensors"  # Name that diffusers gives to the file with an adapter
MODEL_FILES = ("model", "diffusion_pytorch_model", "consolidated", "adapter_model")  # Beginnings of models' files


@dataclass(frozen=True)
class WholeModel:
    """A repository that is a model itself, or a part of one that the user names by itself."""

    repo: RepoRef


@dataclass(frozen=True)
class Folders:
    """The models in the folders of one repository, and sentences about the folders that are left out."""

    models: tuple[RepoRef, ...]
    notes: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)  # Folder -> class of a part that nothing reads


@dataclass(frozen=True)
class Place:
    """The place of one adapter of a repository."""

    repo: RepoRef
    file: str = ""  # The file of an adapter that has no configuration

    @property
    def part(self) -> str:
        """The folder or the file by which a row names it; empty for the repository itself."""
        return self.file or self.repo.subfolder


@dataclass(frozen=True)
class Adapters:
    """The adapters of a repository that holds no model."""

    places: tuple[Place, ...]
    left_out: str = ""  # Other files, which may have any ancestry
    notes: tuple[str, ...] = ()  # Sentences about other files that are not adapters themselves


Content = Signature | WholeModel | Adapters | Folders | tuple[RepoRef, ...]  # A tuple: parts beside the language model


def contents_of(source: RepoRef | Signature) -> tuple[Content, ...]:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    if isinstance(source, Signature):
        return (source,)
    in_place = tuple(one for one in (find_adapters(source), folders_of(source)) if one)
    itself = (WholeModel(source),) if source.part or not in_place else ()
    parts = parts_of_model(source) if source.has(CONFIG) and holds_others(source.config()) else ()
    return (*itself, *in_place, *((parts,) if parts else ()))


def part_of(repo: RepoRef, subfolder: str) -> RepoRef:
    """Return a folder of a repository as the model that is meant; RepositoryError if there is no such folder."""
    subfolder = subfolder.rstrip("/")
    if not FOLDER.fullmatch(subfolder):
        raise RepositoryError(f"{printable(subfolder, 200)} is not a folder of {repo}; give its path in the repository")
    name, at, revision = repo.name.partition("@")
    part = replace(repo, name=f"{name}/{subfolder}{at}{revision}", subfolder=subfolder)
    if not part.files():
        if component := part_named(repo, subfolder):
            return component
        raise RepositoryError(f"{repo} has no folder {subfolder}; write ORG/NAME/FOLDER for a folder of it")
    part.fetch(CONFIG, *INDICES, ADAPTER_CONFIG)
    return part


def adapter_folders(repo: RepoRef) -> list[str]:
    """Return the folders of a repository that hold an adapter and no model, sorted."""
    folders = [name for name in repo.folders() if FOLDER.fullmatch(name) and repo.offers(f"{name}/{ADAPTER_CONFIG}")]
    return [name for name in folders if not repo.offers(f"{name}/{CONFIG}")]


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
    folders = _modules(repo) or _pipeline(repo) or _checkpoints(repo)
    return folders if folders or _has_weights(repo) else _parts(repo, repo.folders())


def adapter_beside(repo: RepoRef) -> bool:
    """Return whether an adapter lies beside the weights, which peft applies; without its weights peft fails."""
    return repo.offers(ADAPTER_CONFIG) and any(map(repo.offers, ADAPTER_WEIGHTS))


def counterpart(base: Source, subfolder: str) -> Source:
    """Return what a candidate's folder is compared with: the same folder, or the only model; else NothingToCompare."""
    if isinstance(base, Signature):
        return base
    if subfolder and base.offers(f"{subfolder}/{CONFIG}"):
        return part_of(base, subfolder)
    if base.has(CONFIG) or base.subfolder:
        return base
    return only(base, f", and none in {subfolder or 'its root'}")


def only(repo: Source, instead: str = "; name one as MODEL/FOLDER") -> Source:
    """Return the one model of a repository, which may be in a folder; NothingToCompare if there are several."""
    if isinstance(repo, Signature):
        return repo
    folders = folders_of(repo)
    models = folders.models if folders else (repo,)
    if len(models) > 1:
        names = printable(", ".join(model.file or model.subfolder for model in models), 300)
        raise Ambiguous(f"{repo} holds several models, in {names}{instead}")
    return models[0]


def _modules(repo: RepoRef) -> Folders | None:
    listed = _json(repo, MODULES)
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    transformers = (entry for entry in entries if str(entry.get("type")).rpartition(".")[2] == "Transformer")
    return _parts(repo, [str(entry.get("path")) for entry in transformers])


def _pipeline(repo: RepoRef) -> Folders | None:
    """Return the parts of a diffusers pipeline that transformers loads or the registry reads; the others are named."""
    index = _json(repo, INDEX)
    entries = {
        key: value
        for key, value in (index.items() if isinstance(index, dict) else ())
        if isinstance(value, list) and len(value) == 2 and all(isinstance(word, str) for word in value)
    }
    known = [(key, library, f"{library}.{name}") for key, (library, name) in entries.items()]
    read = [key for key, library, name in known if library == "transformers" or any(listing(name))]
    others = [key for key in entries if key not in read and FOLDER.fullmatch(key) and repo.offers(f"{key}/{CONFIG}")]
    parts = _parts(repo, read)
    return parts and replace(parts, others={key: entries[key][1] for key in others})


def _checkpoints(repo: RepoRef) -> Folders | None:
    """Return the last checkpoint of a training run; the earlier ones are counted."""
    numbered = {int(match[1]): name for name in repo.folders() if (match := CHECKPOINT.fullmatch(name))}
    names = [name for _, name in sorted(numbered.items()) if repo.offers(f"{name}/{CONFIG}")]
    if not names or _has_weights(repo):
        return None
    earlier = (f"the last of {len(names)} checkpoints was judged, {names[-1]}; MODEL/FOLDER names another",)
    return Folders((part_of(repo, names[-1]),), earlier if len(names) > 1 else ())


def _has_weights(repo: RepoRef) -> bool:
    return any(name.endswith(WEIGHT_FILES) for name in repo.files())


def _parts(repo: RepoRef, subfolders: Sequence[str]) -> Folders | None:
    folders = [name for name in dict.fromkeys(subfolders) if FOLDER.fullmatch(name) and repo.offers(f"{name}/{CONFIG}")]
    notes = (f"only the first {MOST} of {len(folders)} folders with models were judged",) if len(folders) > MOST else ()
    return Folders(tuple(part_of(repo, name) for name in folders[:MOST]), notes) if folders else None


def _json(repo: RepoRef, file: str) -> Any:
    """Return the content of a file; None if there is none, or it is not JSON."""
    if not repo.offers(file):
        return None
    repo.fetch(file)
    try:
        return json.loads(repo.read_text(file) or "null")
    except (ValueError, RecursionError):
        return None


def find_adapters(source: RepoRef) -> Adapters | None:
    """Return the adapters of a repository that holds no model, by files and headers alone; None if there are none."""
    if any(source.offers(file) for file in (CONFIG, INDEX)):
        return None
    plain = replace(source, file=None)  # The name of a file of the model says nothing of the adapters beside it
    here = [Place(plain)] if source.offers(ADAPTER_CONFIG) else []
    folders, notes = ([], []) if source.subfolder else _adapter_folders(source, bool(here))
    files, others = ([], []) if here else _adapter_files(source, bool(folders))
    if files and not source.subfolder:  # models beside files are not looked for
        others += [name for name in source.folders() if FOLDER.fullmatch(name) and source.offers(f"{name}/{CONFIG}")]
    places = [*here, *(Place(part_of(plain, name)) for name in folders[:MOST]), *(Place(source, f) for f in files)]
    if not places:
        return None
    unread = [*others, *(place.part for place in places[MOST:]), *folders[MOST:]]
    text = printable(", ".join(unread[:6]), 500) + (f" and {len(unread) - 6} more" if len(unread) > 6 else "")
    return Adapters(tuple(places[:MOST]), text, tuple(notes))


def _adapter_folders(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """Return the folders with adapters, of a training run the last, and sentences about others; none of one beside."""
    folders = adapter_folders(repo)
    states = sorted((name for name in folders if CHECKPOINT.fullmatch(name)), key=lambda name: int(name.split("-")[1]))
    earlier = states if beside else states[:-1]
    notes = [f"{len(earlier)} earlier states of training, such as {earlier[-1]}, were not judged"] if earlier else []
    published = (name for name in repo.published_files if name.endswith(f"/{ADAPTER_CONFIG}"))
    if deeper := min((name for name in published if name.count("/") > 1), default=""):
        shown = printable(deeper.rpartition("/")[0], 200)
        notes.append(f"adapters in deeper folders, such as {shown}, were not judged; name one as MODEL/FOLDER")
    return [*(name for name in folders if name not in states), *states[len(earlier) :]], notes


def _adapter_files(repo: RepoRef, beside: bool) -> tuple[list[str], list[str]]:
    """Return the files with adapters, and other weights that loaders may read; none if no file is surely an adapter."""
    names = [name for name in repo.files() if name.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(name)]
    names = [name for name in names if repo.file in (None, name)]
    safe = [name for name in names if name.endswith(".safetensors")]
    likely = [name for name in safe if not SHARD.fullmatch(name) and not name.startswith(MODEL_FILES)]
    if not likely or (len(likely) < len(names) and LORA_FILE not in names and not beside):
        return [], names if beside else []
    from hf_lineage.lora.adapter import is_lora_file

    files = []
    for name in likely[:MOST]:
        with contextlib.suppress(CheckpointError, NothingToCompare):
            if name == LORA_FILE or is_lora_file(open_file(repo, name)):
                files.append(name)
    return (files, [name for name in names if name not in files]) if files or beside else ([], [])
