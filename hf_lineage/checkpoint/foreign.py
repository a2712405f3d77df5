"""The choice of the form that a repository is read from, and of its files where transformers would load none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from hf_lineage.architecture.registry import find_known
from hf_lineage.checkpoint.foreign_form import PREFERRED, ForeignForm, list_files
from hf_lineage.checkpoint.stored import StoredTensor, header
from hf_lineage.errors import ONE_FILE, Ambiguous, CheckpointError, NothingToCompare, OptionError, printable
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")  # loaded where no safetensors file has a usual name
PICKLES = (".bin", ".pt", ".pth", ".ckpt")  # the ends of the names of files that torch.save wrote
NO_WEIGHTS = re.compile(
    r"(training_args|optimizer|scheduler|rng_state.*|scaler|tokenizer.*|adapter_model|(\d+_)?adapters)\.\w+"
)
"""Files beside a model that are not models."""
WEIGHT_FILES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")  # of any library
SHARD = re.compile(r"(?P<start>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<rest>.*)\.(?:safetensors|bin)")
WRAPPERS = ("_orig_mod.", "module.", "base_model.model.")  # left by torch.compile, data-parallel training and peft
DEEPEST, LISTED = 3, 6  # wrappers inside each other, and names of files in a message, at most
ENDS = (".gguf", ".onnx")  # the ends of the names of files in foreign forms


class Layout(NamedTuple):
    """The files of a model that transformers does not find by itself, and a sentence about them."""

    files: tuple[str, ...]
    note: str


def unusual(repo: RepoRef) -> Layout | None:
    """Return the files that hold the model, None if there are none; raise where it is unclear which, or one is lost."""
    names = [name for name in repo.files() if not NO_WEIGHTS.fullmatch(name)]
    files = [name for name in names if name.endswith(".safetensors")]
    if not files and repo.allow_pickle:
        files = [name for name in names if name.endswith(PICKLES)]
    if not files or ADAPTER_CONFIG in repo.files():
        return None
    if pickled := next((name for name in PICKLED if name in names), None):
        what = f"loads the pickle {pickled}, which hf-lineage never loads, and none of {_join(files)}"
        instead = "let --allow-pickle read its tensors, or rename the file to model.safetensors if it is the same model"
        raise NothingToCompare(f"{repo}: transformers {what}; {instead}")
    groups: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)  # by the model that they may be parts of
    for file in files:
        shard = SHARD.fullmatch(file)
        key = (f"{shard['start']}*{shard['rest']}", int(shard["count"])) if shard else (file, 0)
        groups[key][int(shard["number"]) if shard else 1] = file
    # Where transformers loads no file at all, people load the one of another library.
    others = [name for name in names if name.endswith(WEIGHT_FILES) and name not in files]
    if len(groups) > 1 or others:
        what = f"{_join([*files, *others])}; transformers loads none of them"
        instead = f"Rename the right one to model.safetensors, or name one {ONE_FILE}"
        raise Ambiguous(f"{repo}: it is not clear which file is the model: {what}. {instead}")
    (((_, count), group),) = groups.items()
    if count and set(group) != set(range(1, count + 1)):
        what = f"{len(group)} of {count} shards, {_join(group.values())}"
        raise CheckpointError(f"{repo} has {what}; download the others")
    files, shown = list(group.values()), printable(next(iter(group.values())), 200)
    note = f"{shown} was read, the only file with weights; transformers loads model.safetensors alone"
    if len(files) > 1:
        note = f"the {len(files)} shards such as {shown} have no index; transformers loads none of them"
    elif variant := re.fullmatch(r"(?:diffusion_pytorch_)?model\.(?P<variant>[\w-]+)\.safetensors", files[0]):
        note = f"{shown} was read; transformers loads it only with the variant {variant['variant']}"
    return Layout(tuple(files), note)


def _join(files: Collection[str]) -> str:
    names = ", ".join(printable(name, 100) for name in sorted(files)[:LISTED])
    return names + (f" and {len(files) - LISTED} more" if len(files) > LISTED else "")


def wrapping(names: Collection[str]) -> str:
    """Return the prefix that tools left before all of these names; empty if there is none."""
    prefix = ""
    for _ in range(DEEPEST):
        longer = (prefix + wrapper for wrapper in WRAPPERS)
        prefix = next((start for start in longer if names and all(name.startswith(start) for name in names)), prefix)
    return prefix


def foreign_model(repo: RepoRef) -> ForeignForm | None:
    """Return a repository in the foreign form that it is read in; None where it is as transformers saves it."""
    if repo.file is not None and not nameable(repo.file):
        name = printable(repo.file, 200)
        raise OptionError(f"{repo}: {name} is not a file for --file; it reads {' and '.join(ENDS)}")
    names = repo.files()
    preferred = any(map(PREFERRED.fullmatch, names))
    models: list[ForeignForm] = []
    for end in ENDS:
        possible = [repo.file] if repo.file is not None else names if preferred else list_files(repo, end)
        if any(name.endswith(end) for name in possible):  # each is imported only where there are such files
            if end == ".gguf":
                from hf_lineage.checkpoint.gguf.form import gguf_form as form
            else:
                from hf_lineage.checkpoint.onnx.form import onnx_form as form
            models += filter(None, [form(repo)])
    if len(models) > 1:
        listed = ", ".join(printable(model.files[0], 100) for model in models)
        raise Ambiguous(f"{repo} holds models for several libraries ({listed}); name one {ONE_FILE}")
    if not models and (unread := find_known("originals", names if {"model.bin", "params.json"} & {*names} else ())):
        raise CheckpointError(f"{repo}: {unread}")
    return models[0] if models else None


def nameable(file: str) -> bool:
    """Return whether --file may name such a file, and its path stand for a model."""
    return file.endswith(ENDS)


def read_header(file: str, path: Path, name: str) -> Iterable[tuple[str, StoredTensor]]:
    """Yield the tensors that one file of transformers describes, by the form of its name; errors call it `name`."""
    if file.endswith(PICKLES):
        from hf_lineage.checkpoint.pickles.torch_file import torch_header

        return torch_header(path, name)
    return header(path, name)
