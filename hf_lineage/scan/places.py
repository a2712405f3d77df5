"""Places: the models in the stores of this disk, or in given folders, each by the name that `check` takes.

A folder is known by what is in it: a store of Ollama by its manifests, a cache of the Hub by its repositories. Links to
folders are not followed, so that a circle of them ends nowhere. What cannot be read is an entry that says why.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from hf_lineage.checking.source import CONFIG, INDEX
from hf_lineage.checkpoint.foreign import NO_WEIGHTS, PICKLES, WEIGHT_FILES
from hf_lineage.checkpoint.foreign.gguf import BESIDE, PART
from hf_lineage.errors import LineageError, RepositoryError, printable
from hf_lineage.files import expanded, is_folder, typed
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef, ollama
from hf_lineage.scan.local_model import LocalModel, unlisted, with_claims

CACHED, OF_CACHE = re.compile(r"models--.+"), re.compile(r"\w+--.+|blobs|\.locks")
"""The folder of a model in a cache of the Hub, and all folders that its client makes there."""
HUB, OLLAMA = "Hub cache", "Ollama"
GGUF, LORA, PIPELINE = "GGUF", "LoRA", "pipeline"
FORMS = {".safetensors": "safetensors", **dict.fromkeys(PICKLES, "pickle"), ".onnx": "ONNX", ".h5": "TensorFlow"}
"""How a file with weights ends -> the format of the model, the first that a folder has."""
DEEPEST = 8
"""Folders below a place that are searched."""
Tell = Callable[[str], object]


def find_models(places: Sequence[Path] = (), tell: Tell = lambda _note: None) -> Iterator[LocalModel]:
    """Yield the models in these places, by default in all stores of this disk; `tell` takes what is only worth a note.

    Raise RepositoryError for a place that is no folder.
    """
    for place in places:
        if not is_folder(str(place)):
            raise RepositoryError(f"{printable(place, 200)} is not a folder, so nothing in it can be listed; check it")
    seen: set[tuple[str, ...]] = set()
    for where, place in [("folder", place) for place in places] or stores():
        for model in _below(place, where, _by_path, tell):
            identity = model.repo.identity if model.repo else (model.name,)
            if identity not in seen:
                seen.add(identity)
                yield model


def stores() -> list[tuple[str, Path]]:
    """Return the stores of models that are on this disk, each with what it is called."""
    from huggingface_hub import constants

    usual = (f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/llama.cpp", "~/Library/Caches/llama.cpp")
    llama = os.environ.get("LLAMA_CACHE")
    named = [
        (HUB, constants.HF_HUB_CACHE),
        *((OLLAMA, str(store)) for store in ollama.find_stores()),
        *(("LM Studio", place) for place in ("~/.lmstudio/models", "~/.cache/lm-studio/models")),
        *(("llama.cpp", place) for place in ((llama,) if llama else usual)),
    ]
    places = ((where, expanded(place, "HOME")) for where, place in named)
    return [(where, place) for where, place in places if is_folder(str(place))]


def _called(kind: str, place: Path, variable: str, tell: Tell) -> str:
    """What a store is called: with its place where `check` takes no names from it, and may know others by them."""
    if any(where == kind and place.samefile(store) for where, store in stores()):
        return kind
    tell(f"`check` takes no names from {place}; set {variable} to it to check the models in it by their names")
    return f"{kind} in {place}"


def _in_ollama(store: Path, where: str) -> Iterator[LocalModel]:
    for name in ollama.list_names(store):
        if isinstance(name, OSError):
            yield unlisted(name, where)
            continue
        try:
            model = ollama.locate_model(str(name), (store,))
        except LineageError as error:
            yield LocalModel(str(name), where, GGUF, problem=str(error))
        else:
            yield with_claims(LocalModel(str(name), where, GGUF, model, tuple(_blobs(model))))


def _blobs(model: ollama.OllamaModel) -> Iterator[Path]:
    return (path for file, path in model.blobs.items() if file.endswith(".gguf"))


def _in_cache(cache: Path, where: str, tell: Tell) -> Iterator[LocalModel]:
    """The models of a cache of the Hub, each at every revision that is there."""
    from huggingface_hub import scan_cache_dir

    try:
        cached = scan_cache_dir(cache)
    except (OSError, ValueError) as error:
        why = f"cannot be read: {error}; check its permissions"
        yield LocalModel(shlex.quote(typed(cache)), where, problem=why)
        return
    for warning in cached.warnings:
        if CACHED.search(str(warning)):  # other things may lie in the folder as well
            tell(f"passed over in the cache: {warning}")
    models = [repo for repo in cached.repos if repo.repo_type == "model"]
    for repo in sorted(models, key=lambda repo: repo.repo_id):
        for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash):
            refs = revision.refs
            at = "" if "main" in refs else f"@{min(refs)}" if refs else f"@{revision.commit_hash}"
            naming = _on_hub(f"{repo.repo_id}{at}", revision.snapshot_path, revision.commit_hash)
            yield from _below(revision.snapshot_path, where, naming, tell)


Naming = Callable[[Path, str | None], tuple[str, RepoRef]]
"""Given a folder, and the name of a file in it that is the model: what is typed for the model, and the repository."""


def _by_path(folder: Path, file: str | None) -> tuple[str, RepoRef]:
    name = typed(folder / file if file else folder)
    return shlex.quote(name), RepoRef(name, folder, file=file)


def _on_hub(name: str, snapshot: Path, commit: str) -> Naming:
    """The naming of models in one revision of a repository, of which a folder or a file may be named."""

    def named(folder: Path, file: str | None) -> tuple[str, RepoRef]:
        below = "" if folder == snapshot else folder.relative_to(snapshot).as_posix()
        chosen = "/".join(filter(None, (below, file))) if file else None
        words = ["--file", chosen] if chosen else ["--subfolder", below] if below else []
        repo = RepoRef(name, snapshot, commit, subfolder="" if file else below, file=chosen)
        return shlex.join([name, *words]), repo

    return named


def _below(place: Path, where: str, naming: Naming, tell: Tell) -> Iterator[LocalModel]:
    """The models in a folder, in those below it and in stores; a pipeline is one model with all its parts."""
    problems: list[OSError] = []
    for name, folders, files in os.walk(place, onerror=problems.append):
        folder = Path(name)
        if ollama.is_store(folder):
            yield from _in_ollama(folder, _called(OLLAMA, folder, ollama.VARIABLE, tell))
            folders[:] = [inner for inner in folders if inner not in (ollama.BLOBS, *ollama.MANIFESTS)]
        if any(map(CACHED.fullmatch, folders)):
            yield from _in_cache(folder, _called(HUB, folder, "HF_HUB_CACHE", tell), tell)
            folders[:] = [inner for inner in folders if not OF_CACHE.fullmatch(inner)]
        folders.sort()
        held = dict(_held(files))
        if folders and len(folder.relative_to(place).parts) >= DEEPEST:
            tell(f"what is below {folder} was not searched; name it to list it")
            folders.clear()
        if held.get(None) == PIPELINE:
            folders.clear()
        for file, form in held.items():
            weights = tuple(_weights(folder, file, form))
            if weights:
                typed_name, repo = naming(folder, file)
                yield with_claims(LocalModel(typed_name, where, form, repo, weights))
    yield from (unlisted(problem, where) for problem in problems)


def _held(files: Collection[str]) -> Iterator[tuple[str | None, str]]:
    """Each model among the files of a folder, None for the folder as a whole, and its format."""
    ends = [end for end in FORMS if any(_is_weights(file) and file.endswith(end) for file in files)]
    if INDEX in files:
        yield None, PIPELINE
    elif CONFIG in files and ends:
        yield None, FORMS[ends[0]]
    elif ADAPTER_CONFIG in files:
        yield None, LORA
    for file in sorted(files):
        part = PART.fullmatch(file)
        if file.endswith(".gguf") and not BESIDE.search(file) and (part is None or int(part["number"]) == 1):
            yield file, GGUF


def _is_weights(file: str) -> bool:
    return file.endswith(WEIGHT_FILES) and not NO_WEIGHTS.fullmatch(file)


def _weights(folder: Path, file: str | None, form: str) -> Iterator[Path]:
    """The files that hold the weights of a model: all parts of a GGUF file, all files of a folder that may."""
    if file is not None:
        part = PART.fullmatch(file)
        yield from sorted(folder.glob(_all_parts(part))) if part else [folder / file]
        return
    below = "**/*" if form == PIPELINE else "*"
    yield from sorted(path for path in folder.glob(below) if path.name.endswith(WEIGHT_FILES) and path.is_file())


def _all_parts(part: re.Match[str]) -> str:
    """The pattern of the names of all parts of a GGUF file, of which one matches PART."""
    return f"{glob.escape(part['stem'])}-*-of-{part['count']}.gguf"
