"""Opening: which files hold the weights of a repository, and where each of them is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hf_lineage.checkpoint.local import SHARD, Checkpoint, TensorInfo, header
from hf_lineage.checkpoint.ranges import RangedFile, Traffic
from hf_lineage.checkpoint.remote import AT_ONCE, RemoteCheckpoint
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.repo import RepoRef
from hf_lineage.tensor_file import LARGEST_HEADER, OPEN_FILES

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
NAMED = "transformers_weights"
"""The key of `config.json` with which transformers loads another file than these two."""
RANKS = re.compile(r"shard-[0-9]{5}-model-[0-9]{5}-of-[0-9]{5}\.safetensors")
"""Parts of a distributed checkpoint, which transformers prefers to everything else in a folder."""
OTHER = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")
"""How files with weights end that other loaders may take."""
NO_WEIGHTS = re.compile(r"(training_args|optimizer|scheduler|rng_state.*|scaler|tokenizer.*|adapter_model)\.\w+")
CONVERT = "convert it with `AutoModel.from_pretrained(...).save_pretrained(folder)` where you trust the file"


def open_checkpoint(repo: RepoRef) -> Checkpoint:
    """Return the checkpoint of a repository, every header checked.

    Raise NothingToCompare if it holds no safetensors weights, CheckpointError if they are damaged or lie.
    """
    weight_map, files = _located(repo)
    checkpoint = _opened(repo, files)
    lost = sorted(set(weight_map) - set(checkpoint.tensors))
    if lost:
        raise CheckpointError(f"{repo}: {INDEX} names the tensor {lost[0]}, which no shard holds; download them again")
    return checkpoint


def open_file(repo: RepoRef, file: str) -> Checkpoint:
    """Return the tensors of one file of a repository; raise as `open_checkpoint` does."""
    return _opened(repo, [file])


def weight_files(repo: RepoRef) -> list[str]:
    """Return the names of the files that `open_checkpoint` reads; raise as it does."""
    return _located(repo)[1]


def files_beside(repo: RepoRef) -> tuple[str, ...]:
    """Return sentences about weights in other files, which another loader may take; raise as `open_checkpoint` does."""
    read = {*_located(repo)[1]}
    others = [name for name in repo.files() if name.endswith(OTHER) and name not in read]
    found = [name for name in others if not NO_WEIGHTS.fullmatch(name)]
    if not found:
        return ()
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"{printable(found[0], 200)}{more} may hold weights too and was not read: transformers loads "
        f"{min(read)}, other loaders may choose otherwise",
    )


def _located(repo: RepoRef) -> tuple[dict[str, str], list[str]]:
    """What the index says, nothing where there is none, and the files that hold the weights, as transformers chooses.

    Raise NothingToCompare where loaders choose unlike files.
    """
    ranks = next(filter(RANKS.fullmatch, repo.files()), None)
    if ranks:
        raise NothingToCompare(
            f"{repo} holds a distributed checkpoint ({ranks}), which transformers prefers to {SINGLE} and which is not "
            "read here; save the model in one piece"
        )
    named = _named(repo)
    if named is not None:
        usual = [name for name in (SINGLE, INDEX) if repo.offers(name)]
        if any(name != named for name in usual):
            raise NothingToCompare(
                f"{repo}: transformers loads {printable(named, 200)}, which config.json names (`{NAMED}`), other "
                f"loaders {next(name for name in usual if name != named)}; keep one of them"
            )
        return _in_file(repo, named)
    index = repo.read_json(INDEX) if repo.offers(INDEX) else None
    if not repo.offers(SINGLE):
        if index is None:
            raise NothingToCompare(other_format(repo) or f"{repo} holds no weights ({SINGLE} or {INDEX})")
        return _shards(repo, index)
    if index is not None and set(_listed(repo, index).values()) != {SINGLE}:
        raise NothingToCompare(
            f"{repo} holds {SINGLE} and, in {INDEX}, other files: transformers loads the one, other loaders the "
            "others; keep one of them"
        )
    return {}, [SINGLE]


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
    """What the index says: tensor -> shard, and the shards, every one of which is there."""
    weight_map = _listed(repo, index)
    shards = sorted(set(weight_map.values()))
    strange = next((shard for shard in shards if not SHARD.fullmatch(shard)), None)
    if strange is not None:
        raise CheckpointError(
            f"{repo}: {INDEX} names a shard that is no safetensors file of this folder: {printable(strange, 200)}; "
            "do not trust this model"
        )
    missing = next((shard for shard in shards if not repo.offers(shard)), None)
    if missing is not None:
        raise CheckpointError(f"{repo}: {INDEX} names the shard {missing}, which is missing; download it again")
    return weight_map, shards


def _opened(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """The checkpoint in these files: those on this disk are read, of the others ranges are fetched."""
    absent = [file for file in files if not repo.has(file)]
    if absent and not OPEN_FILES.is_dir():
        repo.fetch(*absent)
        absent = []
    traffic, pool = Traffic(), ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ranges")
    try:
        ranged = [found for found in pool.map(lambda file: _headed(repo, file, traffic), absent) if found]
    except BaseException:
        traffic.stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    here = {file: (repo.located(file), str(repo.path(file))) for file in files}
    tensors = _tensors(here | {found.file: (found.path, str(found)) for found in ranged}, repo)
    if not ranged:
        return Checkpoint(tensors)
    return RemoteCheckpoint(tensors, {found.path: found for found in ranged}, pool, traffic)


def _headed(repo: RepoRef, file: str, traffic: Traffic) -> RangedFile | None:
    """A file on the Hub, its header fetched; None for one that the cache has, now under this commit as well."""
    found = RangedFile(repo, file, traffic)
    if repo.keeps(found.content):
        repo.fetch(file)
        return None
    found.read_head(8 + LARGEST_HEADER)
    return found


def _tensors(files: Mapping[str, tuple[Path, str]], repo: RepoRef) -> dict[str, TensorInfo]:
    """The tensors of all files, given where each is and what an error calls it."""
    tensors: dict[str, TensorInfo] = {}
    holder: dict[str, str] = {}
    for file, (path, shown) in files.items():
        for name, info in header(path, shown):
            if name in tensors:
                raise CheckpointError(f"{repo}: {name} is in both {holder[name]} and {file}; which one counts?")
            tensors[name], holder[name] = info, file
    return tensors


def other_format(repo: RepoRef) -> str | None:
    """Return what a repository without usable weights holds instead and what to do about it, None if nothing known."""
    files = repo.files()
    if "adapter_model.safetensors" in files or "adapter_config.json" in files:
        return f"{repo} holds only a LoRA adapter; merge it into its base (peft: merge_and_unload) and check the result"
    loose = next((name for name in files if name.endswith(".safetensors") and name != SINGLE), None)
    if loose:
        return f"{repo} has {loose} but neither {SINGLE} nor {INDEX}; add the index that save_pretrained writes"
    pickled = next((name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt"))), None)
    if pickled:
        return f"{repo} holds its weights as a pickle ({pickled}), which is never loaded; {CONVERT}"
    gguf = next((name for name in files if name.endswith(".gguf")), None)
    if gguf:
        return f"{repo} holds its weights as GGUF ({gguf}), which is not decoded yet; check the safetensors release"
    return None
