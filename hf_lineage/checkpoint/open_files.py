"""Opening: the tensors in the files of a repository, whether they are on this disk or on the Hub."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hf_lineage.architecture.class_tensors import older
from hf_lineage.checkpoint.formats.modules import ENDS, FLOATS, SETTINGS, plain_tensors
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import DTYPES, WIDER, StoredTensor, TensorInfo, as_stored, header
from hf_lineage.checkpoint.weight_files import PICKLES, WeightFiles, wrapping
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.files.safetensors import LARGEST_HEADER
from hf_lineage.hub.repo import RepoRef

Fetch = Callable[[Iterable[str], dict[str, StoredTensor]], None]


def open_weights(weights: WeightFiles, config: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint in these files, every header checked; `config` tells how its tensors are stored."""
    repo, foreign = weights.repo, weights.foreign
    if foreign:
        return foreign.open()
    if pickles := [file for file in weights.files if file.endswith(PICKLES)]:
        repo.fetch(*pickles)  # the list of an archive is at its end
    note = ""
    if any("quant" in name for name in repo.files()):
        from hf_lineage.checkpoint.formats.table import with_file_beside

        config, note = with_file_beside(repo, config)
    checkpoint = _open_ranged(repo, weights.files, config)
    if prefix := wrapping(checkpoint.tensors):
        checkpoint.notes += (f"every tensor's name begins with {prefix}; it was removed, but transformers does not",)
    known = {name.removeprefix(prefix): tensor for name, tensor in checkpoint.tensors.items()}
    checkpoint.tensors = {name if (new := older(name)) in known else new: known[name] for name in known}
    if lost := sorted(set(weights.index) - set(checkpoint.stored)):
        text = f"{printable(lost[0], 200)}{f' and {len(lost) - 1} more' * (len(lost) > 1)}"
        checkpoint.notes += (f"the index names {text}, which no shard holds; transformers loads the others",)
    checkpoint.notes += (note,) if note and checkpoint.decoded_names else ()
    return checkpoint


def open_file(repo: RepoRef, file: str) -> Checkpoint:
    """Return the tensors of one file of a repository; raise as `open_weights` does."""
    return _open_ranged(repo, [file], {})


def _open_ranged(repo: RepoRef, files: Sequence[str], config: Mapping[str, Any]) -> Checkpoint:
    if all(map(repo.has, files)):
        return Checkpoint(*_tensors({file: (repo.locate(file), str(repo.path(file))) for file in files}, repo, config))
    from hf_lineage.checkpoint.remote import open_ranged

    opened = open_ranged(repo, files, lambda file: file.read_head(8 + LARGEST_HEADER))
    paths = opened.paths(repo, files)
    places = {file: (path, str(opened.files.get(path, repo.path(file)))) for file, path in paths.items()}

    def fetch(names: Iterable[str], stored: dict[str, StoredTensor]) -> None:
        remote = {name: tensor for name in names if (tensor := stored[name]).file in opened.files}
        stored |= {name: replace(tensor, stamp=None) for name, tensor in remote.items()}  # they are written to from now
        ranges = [(opened.files[tensor.file], tensor.start, tensor.start + tensor.size) for tensor in remote.values()]
        list(opened.pool.map(lambda one: one[0].fetch(max(one[1], one[0].head), max(one[2], one[0].head)), ranges))

    return opened.checkpoint(*_tensors(places, repo, config, fetch))


def _tensors(
    files: Mapping[str, tuple[Path, str]], repo: RepoRef, config: Mapping[str, Any], fetch: Fetch = lambda *_: None
) -> tuple[dict[str, StoredTensor], dict[str, TensorInfo]]:
    """Return the tensors as stored and as the model loads them; `fetch` gets those that describe others."""
    stored: dict[str, StoredTensor] = {}
    holder: dict[str, str] = {}
    for file, (path, shown) in files.items():
        read: Any = header
        if file.endswith(PICKLES):
            from hf_lineage.checkpoint.pickles.torch_file import torch_header as read
        for name, tensor in read(path, shown):
            if name in stored:
                raise CheckpointError(f"{repo}: {name} is in both {holder[name]} and {file}; remove one of them")
            stored[name], holder[name] = tensor, file
    plain = all(tensor.dtype in FLOATS and name.endswith(ENDS) for name, tensor in stored.items())
    try:
        if plain and not any(map(config.get, SETTINGS)):
            tensors = plain_tensors(stored)
        else:
            from hf_lineage.checkpoint.formats.table import tensors_of

            tensors = tensors_of(stored, config, lambda names: fetch(names, stored))
    except (CheckpointError, NothingToCompare) as error:
        raise type(error)(f"{repo}: {error}") from None
    dtype = config.get("dtype")  # the model is loaded so, whatever its files hold
    if (config.get("torch_dtype") if dtype is None else dtype) == "float16":
        parts = {part for tensor in tensors.values() if tensor.decode is as_stored for part in tensor.parts}
        wider = {name for name in parts if DTYPES.get(stored[name].dtype) in WIDER}
        stored |= {name: replace(stored[name], halved=True) for name in wider}
    return stored, tensors
