"""ONNX: the weights of a graph, each decoded when it is read; the graph is read and never run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.onnx_numbers import stored
from hf_lineage.checkpoint.onnx_weights import Weights, weights_of
from hf_lineage.checkpoint.remote import RemoteCheckpoint, ranged
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.files.onnx_header import OnnxGraph, OnnxTensor, parse
from hf_lineage.files.tensor_file import Stamp
from hf_lineage.hub.converted import parsed
from hf_lineage.hub.reference import RepoRef

BESIDE = re.compile(r"(?!\.)[\w.+-]{1,200}(/(?!\.)[\w.+-]{1,200}){0,3}")
"""A file beside the model or in a folder below it, never above."""
NUMBERED = re.compile(r"\.\d+\.")
"""In the name of what belongs to a layer."""


class Graph(NamedTuple):
    """The ONNX file that is read, of several of one model the most precise that can be."""

    file: str
    graph: OnnxGraph
    weights: Weights
    stamp: Stamp


def graph_of(repo: RepoRef, files: Sequence[str]) -> Graph:
    """Return the first of these files that can be read.

    Raise NothingToCompare where none can, CheckpointError where one is damaged.
    """
    reasons = []
    for file in files:
        graph, stamp = parsed(repo, file, parse)
        try:
            weights = weights_of(graph)
            _refuse_nameless(weights)
        except NothingToCompare as error:
            reasons.append(f"{repo}: {printable(file, 200)}: {error}")
        except CheckpointError as error:
            raise CheckpointError(f"{repo}: {printable(file, 200)}: {error}") from None
        else:
            return Graph(file, graph, weights, stamp)
    raise NothingToCompare(reasons[0])


def open_onnx(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in one of these ONNX files, by the names in its graph; raise as above.

    Each matrix that something is multiplied with is (out, in). Of tensors inside the layers no other ones are kept.
    """
    file, graph, weights, stamp = graph_of(repo, files)
    tensors = {
        name: info for name, info in weights.others.items() if len(info.shape) < 2 or not NUMBERED.search(name)
    } | weights.matrices
    used = {part: graph.tensors[part] for info in tensors.values() for part in info.parts}
    outside = {tensor.file: _beside(repo, file, tensor) for tensor in used.values() if tensor.file}
    remote_files, pool, downloads = ranged(repo, [*outside.values()], lambda _file: None)
    paths = {name: repo.located(name) for name in outside.values()} | {one.file: one.path for one in remote_files}
    places = {name: (paths[beside], _stamp(repo, beside, paths[beside])) for name, beside in outside.items()}
    places[""] = (repo.located(file), stamp)
    held = {part: _stored(repo, tensor, *places[tensor.file]) for part, tensor in used.items()}
    if not remote_files:
        return Checkpoint(held, tensors)
    return RemoteCheckpoint(held, tensors, {one.path: one for one in remote_files}, pool, downloads)


def files_of_onnx(repo: RepoRef, files: Sequence[str]) -> list[str]:
    """Return the names of the file that is read, and of those beside it that hold its numbers; raise as above."""
    file, graph, _, _ = graph_of(repo, files)
    return [file, *sorted({_beside(repo, file, tensor) for tensor in graph.tensors.values() if tensor.file})]


def _refuse_nameless(weights: Weights) -> None:
    if weights.nameless:
        raise NothingToCompare(
            f"the ONNX graph multiplies with {weights.nameless} matrices whose place in the model nothing tells; check "
            "the safetensors release instead"
        )
    if not weights.matrices:
        raise NothingToCompare("the ONNX graph multiplies with no matrix that it holds; check another file")


def _beside(repo: RepoRef, file: str, tensor: OnnxTensor) -> str:
    """The file that holds the numbers of a tensor, which is never outside the repository."""
    if not BESIDE.fullmatch(tensor.file):
        raise CheckpointError(
            f"{repo}: {printable(file, 200)} says that its numbers are in {printable(tensor.file, 200)}, which is no "
            "file beside it; do not trust it"
        )
    beside = str(PurePosixPath(file).parent / tensor.file)
    if not repo.offers(beside):
        raise CheckpointError(f"{repo}: {printable(beside, 200)} is missing; download it too")
    return beside


def _stamp(repo: RepoRef, file: str, path: Path) -> Stamp:
    try:
        with path.open("rb") as stream:
            return Stamp.of(stream)
    except OSError as error:
        raise CheckpointError(
            f"{repo}: {file} cannot be read: {error.strerror or error}; check its permissions"
        ) from None


def _stored(repo: RepoRef, tensor: OnnxTensor, path: Path, stamp: Stamp) -> StoredTensor:
    if tensor.span.stop > stamp.size:
        raise CheckpointError(
            f"{repo}: {printable(tensor.file, 200)} is truncated: {printable(tensor.name, 200)} ends at byte "
            f"{tensor.span.stop} of {stamp.size}; download it again"
        )
    return stored(tensor, path, stamp)


def config_of(weights: Weights) -> Mapping[str, int]:
    """Return what the graph says of a model beside which there is no configuration."""
    return {} if weights.heads is None else dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), weights.heads)
