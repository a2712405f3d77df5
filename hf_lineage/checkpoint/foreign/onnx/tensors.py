"""ONNX: the weights of a graph, each decoded when it is read; the graph is read and never run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hf_lineage.checkpoint.foreign.form import parse_once
from hf_lineage.checkpoint.foreign.onnx.header import OnnxGraph, OnnxTensor, parse
from hf_lineage.checkpoint.foreign.onnx.numbers import stored
from hf_lineage.checkpoint.foreign.onnx.weights import Weights, collect_weights
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.remote import RemoteCheckpoint, ranged
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.files import Stamp, open_regular
from hf_lineage.hub import RepoRef

BESIDE = re.compile(r"(?!\.)[\w.+-]{1,200}(/(?!\.)[\w.+-]{1,200}){0,3}")
"""A file beside the model or in a folder below it, never above."""
NUMBERED = re.compile(r"\.\d+\.")
"""In the name of what belongs to a layer."""


class Graph(NamedTuple):
    """The ONNX file that is read: of several files of one model, the most precise one that can be read."""

    file: str
    graph: OnnxGraph
    weights: Weights
    stamp: Stamp


def read_graph(repo: RepoRef, files: Sequence[str]) -> Graph:
    """Return the first of these files that can be read.

    Raise NothingToCompare where none can, CheckpointError where one is damaged.
    """
    key = f"weights of {' or '.join(files)}"
    if known := repo.heads.get(key):
        return Graph(*known)
    reasons = []
    for file in files:
        graph, stamp = parse_once(repo, file, parse)
        try:
            weights = collect_weights(graph)
            _refuse_nameless(weights)
        except NothingToCompare as error:
            reasons.append(f"{repo}: {printable(file, 200)}: {error}")
        except CheckpointError as error:
            raise CheckpointError(f"{repo}: {printable(file, 200)}: {error}") from None
        else:
            return Graph(*repo.heads.setdefault(key, (file, graph, weights, stamp)))
    raise NothingToCompare(reasons[0])


def open_onnx(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in one of these ONNX files, by the names in its graph; raise as above.

    Each matrix that something is multiplied with is (out, in). Of tensors inside the layers no other ones are kept.
    """
    return _opened(repo, {"": read_graph(repo, files)})


def open_pair(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in the files of an encoder and its decoder, as the model has both; raise as above."""
    encoder, decoder = (read_graph(repo, [file]) for file in files)
    return _opened(repo, {"encoder.": encoder, "": decoder})


def list_read(repo: RepoRef, files: Sequence[str]) -> list[str]:
    """Return the names of the file that is read, and of those beside it that hold its numbers; raise as above."""
    file, graph, _, _ = read_graph(repo, files)
    return [file, *sorted({_beside(repo, file, tensor) for tensor in graph.tensors.values() if tensor.file})]


def list_read_of_pair(repo: RepoRef, files: Sequence[str]) -> list[str]:
    """Return the names of both files, and of those beside them; raise as above."""
    return [name for file in files for name in list_read(repo, [file])]


def _opened(repo: RepoRef, graphs: Mapping[str, Graph]) -> Checkpoint:
    """Return the checkpoint in some graphs, given what is put before the names of each."""
    tensors: dict[str, TensorInfo] = {}
    held: dict[str, tuple[Graph, OnnxTensor]] = {}
    for before, graph in graphs.items():
        for name, info in _kept(graph.weights).items():
            parts = {part: f"{graph.file}: {part}" for part in info.parts}
            tensors[before + name] = replace(info, parts=tuple(parts.values()))
            held |= {own: (graph, graph.graph.tensors[part]) for part, own in parts.items()}
    outside = {_beside(repo, graph.file, tensor) for graph, tensor in held.values() if tensor.file}
    remote_files, pool, downloads = ranged(repo, sorted(outside), lambda _file: None)
    paths = {name: repo.located(name) for name in outside} | {one.file: one.path for one in remote_files}
    places = {name: (path, _stamp(repo, name, path)) for name, path in paths.items()}
    places |= {graph.file: (repo.located(graph.file), graph.stamp) for graph in graphs.values()}
    stored = {}
    for own, (graph, tensor) in held.items():
        file = _beside(repo, graph.file, tensor) if tensor.file else graph.file
        stored[own] = _stored(repo, tensor, *places[file])
    if not remote_files:
        return Checkpoint(stored, tensors)
    return RemoteCheckpoint(stored, tensors, {one.path: one for one in remote_files}, pool, downloads)


def _kept(weights: Weights) -> dict[str, TensorInfo]:
    """Return the matrices and, of the other tensors, those that are no matrix inside a layer."""
    others = weights.others.items()
    plain = {name: info for name, info in others if len(info.shape) < 2 or not NUMBERED.search(name)}
    return plain | weights.matrices


def _refuse_nameless(weights: Weights) -> None:
    if weights.nameless:
        raise NothingToCompare(
            f"the ONNX graph multiplies with {weights.nameless} matrices whose place in the model is unknown; check "
            "the safetensors release instead"
        )
    if not weights.matrices:
        raise NothingToCompare("the ONNX graph has no product with a stored matrix; check another file")


def _beside(repo: RepoRef, file: str, tensor: OnnxTensor) -> str:
    """Return the file that holds the numbers of a tensor, which is never outside the repository."""
    if not BESIDE.fullmatch(tensor.file):
        raise CheckpointError(
            f"{repo}: {printable(file, 200)} says that its numbers are in {printable(tensor.file, 200)}, which is not "
            "a file beside it; do not trust it"
        )
    beside = str(PurePosixPath(file).parent / tensor.file)
    if not repo.offers(beside):
        raise CheckpointError(f"{repo}: {printable(beside, 200)} is missing; download it too")
    return beside


def _stamp(repo: RepoRef, file: str, path: Path) -> Stamp:
    try:
        with open_regular(path) as stream:
            return Stamp.take(stream)
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
