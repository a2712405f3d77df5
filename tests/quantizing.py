"""Models in quantized formats, written after what is published of each format, in plain torch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import LineageError
from hf_lineage.hub.repo import RepoRef
from tests.models import EXAMPLES, WEIGHTS, Tensors, edit_json, open_checkpoint, spoil

BASE, INDEPENDENT = EXAMPLES / "acme/llama-base", EXAMPLES / "otter/llama-independent"
FEW = 2
"""Layers of a model of which only the numbers are looked at."""
Pack = Callable[[Any], Tensors]
"""A function from a matrix (out, in) to the tensors it is stored as, by the ends of their names."""


def matrices(folder: Path) -> Tensors:
    """The matrices of a model's layers, in float32, without `.weight` in their names."""
    found = load_file(folder / WEIGHTS).items()
    inside = {name: tensor for name, tensor in found if ".layers." in name and tensor.ndim == 2}
    return {name.removesuffix(".weight"): tensor.float() for name, tensor in inside.items()}


def repacked(source: Path, folder: Path, pack: Pack, layers: Any = 99, **settings: Any) -> Path:
    """A copy of the first layers of a model, their matrices packed; `settings` are the quantization's."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("README.md"))
    stored = load_file(source / WEIGHTS)
    for name, matrix in matrices(source).items():
        del stored[f"{name}.weight"]
        if int(name.split(".")[2]) < layers:
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


def assert_decoded(folder: Path, pack: Pack, settings: Any, expected: Callable[[Any], Any], rtol: float = 0) -> None:
    """The matrices of a model that is packed are what is expected of each."""
    stored = decoded(repacked(BASE, folder, pack, FEW, **settings))
    for module, matrix in matrices(BASE).items():
        if module in stored:
            wanted = expected(matrix).float().numpy()
            np.testing.assert_allclose(stored[module], wanted, rtol=rtol, atol=0, strict=True)
    assert len(stored) == 7 * FEW


def of_library(vectors: Tensors, case: str, folder: Path, config: dict[str, Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A matrix that a library packed, as it is decoded here, and as the library decodes it."""
    start = f"{case}."
    parts = {f"a.{name.removeprefix(start)}": part for name, part in vectors.items() if name.startswith(start)}
    expected = parts.pop("a.decoded")
    save_file(parts, folder / WEIGHTS)
    found = open_checkpoint(RepoRef("org/model", folder), config)
    assert found.shapes == {"a.weight": expected.shape}
    return found.read("a.weight"), expected.numpy()


def verdict(base: Path, candidate: Path) -> Any:
    return compare(str(base), str(candidate), Options(seed=0, recompute=True)).rows[0].verdict


def put(name: str, part: Any) -> Callable[[Tensors], None]:
    """A change of a model: another part under this name, or none at all."""

    def change(tensors: Tensors) -> None:
        tensors.pop(name, None)
        tensors.update({} if part is None else {name: part})

    return change


def refused(folder: Path, pack: Pack, settings: Any, *damage: Callable[[Tensors], None]) -> str:
    """The kind of the error with which a model cannot be read that is packed and then damaged, and what it says."""
    model = repacked(BASE, folder / "model", pack, FEW, **settings)
    for change in damage:
        spoil(model, change)
    try:
        decoded(model)
    except LineageError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it can be read")
