"""Models in quantized formats, written after what is published of each format, in plain torch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import LineageError
from hf_lineage.hub.repo import RepoRef
from tests.models import EXAMPLES, WEIGHTS, Tensors, edit_json, open_checkpoint

BASE, INDEPENDENT = EXAMPLES / "acme/llama-base", EXAMPLES / "otter/llama-independent"
Pack = Callable[[Any], Tensors]
"""A function from a matrix (out, in) to the tensors it is stored as, by the ends of their names."""


def matrices(folder: Path) -> Tensors:
    """The matrices of a model's layers, in float32, without `.weight` in their names."""
    tensors = load_file(folder / WEIGHTS)
    return {
        name.removesuffix(".weight"): tensor.float()
        for name, tensor in tensors.items()
        if ".layers." in name and tensor.ndim == 2
    }


def repacked(source: Path, folder: Path, pack: Pack, **settings: Any) -> Path:
    """A copy of a model in which the matrices of the layers are packed; `settings` are the quantization's."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("README.md"))
    stored = load_file(source / WEIGHTS)
    for name, matrix in matrices(source).items():
        del stored[f"{name}.weight"]
        stored |= {f"{name}{end}": part.contiguous() for end, part in pack(matrix).items()}
    save_file(stored, folder / WEIGHTS)
    edit_json(folder / "config.json", quantization_config=settings)
    return folder


def opened(folder: Path) -> Checkpoint:
    repo = RepoRef("org/model", folder)
    return open_checkpoint(repo, repo.config())


def decoded(folder: Path) -> dict[str, NDArray[Any]]:
    """The matrices of a model's layers as they are decoded, without `.weight` in their names."""
    checkpoint = opened(folder)
    names = [name for name in checkpoint.tensors if ".layers." in name and len(checkpoint.tensors[name].shape) == 2]
    return {name.removesuffix(".weight"): checkpoint.read(name) for name in names}


def verdict(base: Path, candidate: Path) -> Any:
    return compare(str(base), str(candidate), Options(seed=0, recompute=True)).rows[0].verdict


def put(name: str, part: Any) -> Callable[[Tensors], None]:
    """A change of a model: another part under this name, or none at all."""

    def change(tensors: Tensors) -> None:
        tensors.pop(name, None)
        tensors.update({} if part is None else {name: part})

    return change


def refused(folder: Path) -> str:
    """The kind of the error with which a model cannot be read, and what it says."""
    try:
        decoded(folder)
    except LineageError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it can be read")
