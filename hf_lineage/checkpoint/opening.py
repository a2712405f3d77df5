"""Opening: which files hold the weights of a repository, and whether they are on this disk or on the Hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from hf_lineage.checkpoint.formats import first_read, tensors_of
from hf_lineage.checkpoint.gguf import open_gguf
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.remote import RemoteCheckpoint, ranged
from hf_lineage.checkpoint.stored import StoredTensor, header
from hf_lineage.checkpoint.unusual import NO_WEIGHTS, Layout, unusual, unwrapped
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.files.tensor_file import LARGEST_HEADER
from hf_lineage.hub.gguf_files import gguf_files, offered
from hf_lineage.hub.library import of_diffusers
from hf_lineage.hub.ranges import RangedFile
from hf_lineage.hub.reference import RepoRef

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DIFFUSERS = "diffusion_pytorch_"
"""What stands before these names in a folder that diffusers wrote."""
INDICES = (INDEX, DIFFUSERS + INDEX)
SHARD = re.compile(r"[^/\\:\0]+\.safetensors")
"""A file of the folder itself on every platform."""
NAMED = "transformers_weights"
"""The key of `config.json` with which transformers loads another file than these two."""
RANKS = re.compile(r"shard-[0-9]{5}-model-[0-9]{5}-of-[0-9]{5}\.safetensors")
"""Parts of a distributed checkpoint, which transformers prefers to everything else in a folder."""
OTHER = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")
"""Endings of files with weights that other loaders may read."""
FRAMEWORKS = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX"}
"""Endings of files with weights for another framework -> its name."""
CONVERT = "convert it with `AutoModel.from_pretrained(...).save_pretrained(folder)` where you trust the file"


def open_checkpoint(repo: RepoRef, config: Mapping[str, Any] | None = None) -> Checkpoint:
    """Return the checkpoint of a repository, every header checked; `config` tells how its tensors are stored.

    Raise NothingToCompare if it holds no safetensors weights, or in a format that is not read, CheckpointError if they
    are damaged or contradict each other.
    """
    if parts := gguf_files(repo):
        return open_gguf(repo, parts)
    weight_map, files = _located(repo)
    checkpoint = _opened(repo, files, config or {})
    lost = sorted(set(weight_map) - set(checkpoint.stored))
    if lost:
        raise CheckpointError(f"{repo}: {INDEX} names the tensor {lost[0]}, which no shard holds; download them again")
    return unwrapped(checkpoint)


def open_file(repo: RepoRef, file: str) -> Checkpoint:
    """Return the tensors of one file of a repository; raise as `open_checkpoint` does."""
    return _opened(repo, [file], {})


def weight_files(repo: RepoRef) -> list[str]:
    """Return the names of the files that `open_checkpoint` reads; raise as it does."""
    return list(gguf_files(repo)) or _located(repo)[1]


def files_beside(repo: RepoRef) -> tuple[str, ...]:
    """Return sentences about other files with weights that another loader may read; raise as `open_checkpoint`."""
    if parts := gguf_files(repo):
        return _beside_gguf(repo, parts)
    read = {*_located(repo)[1]}
    layout = unusual_layout(repo)
    note = (layout.note,) if layout else ()
    others = [name for name in repo.files() if name.endswith(OTHER) and name not in read]
    unread = [name for name in others if not NO_WEIGHTS.fullmatch(name)]
    if not unread:
        return note
    more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    loads = "" if layout else f": transformers loads {min(read)}, other loaders may choose otherwise"
    return (*note, f"{printable(unread[0], 200)}{more} may hold weights too and was not read{loads}")


def _beside_gguf(repo: RepoRef, parts: Sequence[str]) -> tuple[str, ...]:
    """A sentence about the file that was read, where the repository has others."""
    others = [name for name in offered(repo) if name not in parts]
    others += [name for name in repo.files() if name.endswith(OTHER) and name not in {*parts, *others}]
    others = [name for name in others if not NO_WEIGHTS.fullmatch(name)]
    if not others:
        return ()
    how = "which --file names" if repo.file else "by its name the most precise of the GGUF files; --file names another"
    return (f"{printable(parts[0], 200)} was read, {how}; {len(others)} more files may hold weights too",)


def _located(repo: RepoRef) -> tuple[dict[str, str], list[str]]:
    """The map of the index, empty if there is none, and the names of the files that transformers reads weights from.

    Raise NothingToCompare where other loaders would read other files.
    """
    ranks = next(filter(RANKS.fullmatch, repo.files()), None)
    if ranks:
        raise NothingToCompare(
            f"{repo} holds a distributed checkpoint ({ranks}), which transformers prefers to {SINGLE} and which is not "
            "read here; save the model in one piece"
        )
    named = _named(repo)
    single, index_file = _usual(repo)
    if named is not None:
        usual = [name for name in (single, index_file) if repo.offers(name)]
        if any(name != named for name in usual):
            raise NothingToCompare(
                f"{repo}: transformers loads {printable(named, 200)}, which config.json names (`{NAMED}`), other "
                f"loaders {next(name for name in usual if name != named)}; keep one of them"
            )
        return _in_file(repo, named)
    index = repo.read_json(index_file) if repo.offers(index_file) else None
    if not repo.offers(single):
        if index is not None:
            return _shards(repo, index)
        layout = unusual(repo)
        if layout is None:
            raise NothingToCompare(other_format(repo) or f"{repo} holds no weights ({single} or {index_file})")
        return {}, list(layout.files)
    if index is not None and set(_listed(repo, index).values()) != {single}:
        raise NothingToCompare(
            f"{repo} holds {single}, and its {index_file} names other files: transformers loads the former, other "
            "loaders the latter; keep one of them"
        )
    return {}, [single]


def _usual(repo: RepoRef) -> tuple[str, str]:
    """The names of the only file with weights and of the index, by the library that wrote `config.json`."""
    before = DIFFUSERS if of_diffusers(repo.read_json("config.json") or {}) else ""
    return before + SINGLE, before + INDEX


def unusual_layout(repo: RepoRef) -> Layout | None:
    """Return the files that are read although transformers does not load them; None where there are others."""
    usual = any(map(repo.offers, _usual(repo))) or _named(repo) is not None
    return None if usual else unusual(repo)


def _named(repo: RepoRef) -> str | None:
    """The file that config.json names; NothingToCompare for one that transformers would not load either."""
    named = (repo.read_json("config.json") or {}).get(NAMED)
    if named is None:
        return None
    if not isinstance(named, str) or not SHARD.fullmatch(named.removesuffix(".index.json")):
        raise NothingToCompare(
            f"{repo}: config.json names the weights {printable(str(named), 200)} (`{NAMED}`), which is no safetensors "
            "file of this folder; leave the key out"
        )
    return named


def _in_file(repo: RepoRef, named: str) -> tuple[dict[str, str], list[str]]:
    if not repo.offers(named):
        raise CheckpointError(f"{repo}: config.json names the weights {printable(named, 200)}, which are missing")
    if named.endswith(".json"):
        repo.fetch(named)
    index = repo.read_json(named) if named.endswith(".json") else None
    return ({}, [named]) if index is None else _shards(repo, index)


def _listed(repo: RepoRef, index: Mapping[str, object]) -> dict[str, str]:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CheckpointError(f"{repo}: {INDEX} has no `weight_map` from tensor names to file names; download it again")
    return weight_map


def _shards(repo: RepoRef, index: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The map of the index, tensor -> shard, and the shards, all of which exist."""
    weight_map = _listed(repo, index)
    shards = sorted(set(weight_map.values()))
    invalid = next((shard for shard in shards if not SHARD.fullmatch(shard)), None)
    if invalid is not None:
        raise CheckpointError(
            f"{repo}: {INDEX} names a shard that is no safetensors file of this folder: {printable(invalid, 200)}; "
            "do not trust this model"
        )
    missing = next((shard for shard in shards if not repo.offers(shard)), None)
    if missing is not None:
        raise CheckpointError(f"{repo}: {INDEX} names the shard {missing}, which is missing; download it again")
    return weight_map, shards


def _opened(repo: RepoRef, files: Sequence[str], config: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint in these files: those on this disk are read there; of the others only ranges are downloaded."""
    remote_files, pool, downloads = ranged(repo, files, lambda file: file.read_head(8 + LARGEST_HEADER))
    here = {file: (repo.located(file), str(repo.path(file))) for file in files}
    stored = _stored(here | {file.file: (file.path, str(file)) for file in remote_files}, repo)
    try:
        _fetch(first_read(stored, config), stored, {file.path: file for file in remote_files}, pool)
        tensors = tensors_of(stored, config)
    except (CheckpointError, NothingToCompare) as error:
        raise type(error)(f"{repo}: {error}") from None
    if not remote_files:
        return Checkpoint(stored, tensors)
    return RemoteCheckpoint(stored, tensors, {file.path: file for file in remote_files}, pool, downloads)


def _fetch(
    names: Iterable[str], stored: dict[str, StoredTensor], files: Mapping[Path, RangedFile], pool: Executor
) -> None:
    """Download some small tensors of files on the Hub, which are written to from here on."""
    remote = {name: tensor for name in names if (tensor := stored[name]).file in files}
    for name, tensor in remote.items():
        stored[name] = replace(tensor, stamp=None)

    def fetched(tensor: StoredTensor) -> None:
        file, stop = files[tensor.file], tensor.start + tensor.size
        file.fetch(max(tensor.start, file.head), max(stop, file.head))

    list(pool.map(fetched, remote.values()))


def _stored(files: Mapping[str, tuple[Path, str]], repo: RepoRef) -> dict[str, StoredTensor]:
    """The tensors of all files, given for each file its path and the name that errors show."""
    tensors: dict[str, StoredTensor] = {}
    holder: dict[str, str] = {}
    for file, (path, shown) in files.items():
        for name, tensor in header(path, shown):
            if name in tensors:
                raise CheckpointError(f"{repo}: {name} is in both {holder[name]} and {file}; remove one of them")
            tensors[name], holder[name] = tensor, file
    return tensors


def other_format(repo: RepoRef) -> str | None:
    """Return what a repository without usable weights holds instead and what to do about it; None if unknown."""
    files = repo.files()
    if "adapter_model.safetensors" in files or "adapter_config.json" in files:
        return f"{repo} holds only a LoRA adapter; merge it into its base (peft: merge_and_unload) and check the result"
    native = next((name for name in files if name.startswith("consolidated") and "params.json" in files), None)
    if native:
        return (
            f"{repo} holds a model in the format of its makers ({native} and params.json), which transformers does not "
            "load and which is not read; check the release that has a config.json"
        )
    pickled = next((name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt"))), None)
    if pickled:
        return f"{repo} holds its weights as a pickle ({pickled}), which is never loaded; {CONVERT}"
    other = next(((name, kind) for end, kind in FRAMEWORKS.items() for name in files if name.endswith(end)), None)
    if other:
        return f"{repo} holds its weights for {other[1]} ({other[0]}), which is not decoded; {CONVERT}"
    return None
