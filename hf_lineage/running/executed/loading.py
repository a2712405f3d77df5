"""Loading: a model as transformers loads it, from judged files alone, and where the stored matrices are in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

from hf_lineage.running.executed.request import Load, Writer

STACK = 3
"""Dimensions of a stack of experts."""
ROWS = 2
"""Rows by which a matrix in memory is held against the one on disk."""


class CannotRunError(Exception):
    """Why a model is not run, or what was run is not what was judged."""


@dataclass(frozen=True)
class Place:
    """Where a stored matrix is in memory."""

    writer: Writer
    module: torch.nn.Module
    owner: str
    """The name of the module."""
    parameter: str
    """Its name in the module."""
    expert: int | None = None
    """Which of a stack of experts it is; None where it is a matrix by itself, or a whole stack."""


@dataclass(frozen=True)
class Loaded:
    """A model in memory."""

    model: Any
    places: tuple[Place, ...]
    layers: dict[int, str]
    """By the number of a layer the name of its module."""
    unexpected: tuple[str, ...]
    """Stored tensors that the class does not build."""


def load(asked: Load) -> Loaded:
    """Return a model that its own class has filled; raise CannotRunError where that is not what was judged."""
    build: Any = getattr(transformers, asked.architecture, None)
    if not isinstance(build, type) or not issubclass(build, transformers.PreTrainedModel):
        raise CannotRunError(f"transformers {transformers.__version__} has no class {asked.architecture}")
    settings: dict[str, Any] = {"dtype": torch.float32}
    if asked.offload:
        memory = {"cpu": asked.limit // 2}
        settings = {"dtype": "auto", "device_map": "auto", "max_memory": memory, "offload_folder": asked.offload}
    loader: Any = build
    model, info = loader.from_pretrained(
        asked.folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        attn_implementation="eager",
        experts_implementation="eager",
        **settings,
    )
    for problem, names in (("does not hold", info["missing_keys"]), ("holds in other shapes", info["mismatched_keys"])):
        if names:
            first = min(map(str, names))
            raise CannotRunError(
                f"the file {problem} {len(names)} tensors that the class builds, {first} among them, so that the "
                "loader makes them up at random"
            )
    names = _in_memory(model, asked)
    state = dict(model.named_parameters())
    places = tuple(_place(model, state, names, writer) for writer in asked.writers)
    if not asked.offload:
        _same_values(Path(asked.folder), asked.files, places, state)
    unexpected = tuple(sorted(disk for disk, memory in names.items() if memory in set(info["unexpected_keys"])))
    return Loaded(model.eval(), places, _layers(model, places), unexpected)


def _in_memory(model: Any, asked: Load) -> dict[str, str]:
    """The name in memory of every stored tensor, as the loader renames it."""
    transforms = get_model_conversion_mapping(model)
    renamings = [each for each in transforms if isinstance(each, WeightRenaming)]
    converters = [each for each in transforms if isinstance(each, WeightConverter)]
    meta = model.state_dict()
    return {
        disk: rename_source_key(disk, renamings, converters, model.base_model_prefix, meta)[0]
        for disk in _stored(Path(asked.folder), asked.files)
    }


def _stored(folder: Path, files: Any) -> Iterator[str]:
    for file in files:
        with safe_open(folder / file, "pt") as stored:
            yield from stored.keys()


def _place(model: Any, state: dict[str, Any], names: dict[str, str], writer: Writer) -> Place:
    name = names.get(writer.tensor, "")
    if name not in state:
        raise CannotRunError(f"the class does not build {writer.tensor}, which was judged")
    owner, _, parameter = name.rpartition(".")
    alone = state[name].ndim == STACK and writer.experts == 1
    return Place(writer, model.get_submodule(owner), owner, parameter, writer.expert if alone else None)


def _same_values(folder: Path, files: Any, places: tuple[Place, ...], state: dict[str, Any]) -> None:
    """Raise CannotRunError unless the first rows of every matrix in memory are those on disk."""
    wanted = {place.writer.tensor: place for place in places}
    for file in files:
        with safe_open(folder / file, "pt") as stored:
            for tensor in wanted.keys() & set(stored.keys()):
                place = wanted[tensor]
                memory = state[f"{place.owner}.{place.parameter}"]
                memory = memory if place.expert is None else memory[place.expert]
                whole = stored.get_slice(tensor)
                rows = whole[:ROWS].to(memory.dtype)
                turned = memory.mT if list(memory.shape) != whole.get_shape() else memory
                both = (memory, memory.mT, turned)
                if not any(each.shape[1:] == rows.shape[1:] and torch.equal(each[:ROWS], rows) for each in both):
                    raise CannotRunError(f"what the class holds of {tensor} is not what is stored")


def _layers(model: Any, places: tuple[Place, ...]) -> dict[int, str]:
    """By the number of a layer the name of the module that holds all that writes in it."""
    owners: dict[int, list[list[str]]] = {}
    for place in places:
        owners.setdefault(place.writer.layer, []).append(place.owner.split("."))
    layers = {}
    for layer, names in owners.items():
        common = []
        for parts in zip(*names, strict=False):
            if len(set(parts)) > 1:
                break
            common.append(parts[0])
        match = re.match(r"(.*\.)?\d+(?=\.|$)", ".".join(common))
        layers[layer] = match[0] if match else ".".join(common)
    return layers
