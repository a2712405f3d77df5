"""Loading: a model as transformers loads it, from judged files alone, and where the stored matrices are in it."""

import functools
import inspect
import json
import math
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
from transformers.integrations.accelerate import load_offloaded_parameter
from transformers.models.auto import modeling_auto

from hf_lineage.running.process import Load, Writer

TASKS = ("SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "CAUSAL_LM")
HEADS = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES") for task in TASKS]  # the first with a type counts
UNUSED = re.compile(r"(^|\.)pooler\.|bias$")  # a missing bias is 0, and nothing here reads the output of a pooler
STACK = 3  # dimensions of a stack of experts
OTHERS = "of_another_part."  # begins the names of all other tensors, where the model is one part of those stored
ROWS = 2  # number of first rows in which a matrix in memory has to equal the one on disk


class CannotRunError(Exception):
    """The model cannot be run; the message says why."""


@dataclass(frozen=True)
class Place:
    """The place of a stored matrix in memory."""

    writer: Writer
    module: torch.nn.Module
    owner: str  # the name of the module
    parameter: str  # the name of the matrix in the module
    expert: int | None = None  # in a stack; None where the parameter is a matrix by itself, or a whole stack


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory."""

    model: Any
    places: tuple[Place, ...]
    unexpected: tuple[str, ...]  # stored tensors that the class does not build

    @property
    def on_disk(self) -> int:
        """Bytes of the weights that are read from disk whenever the model runs."""
        return sum(each.numel() * each.element_size() for each in self.model.parameters() if each.is_meta)


def load(spec: Load, folder: Path) -> LoadedModel:
    """Return a model that a class of its type has filled; raise CannotRunError where it is not the judged model."""
    problems = []
    for build in _classes(spec):
        try:
            return _fill(build, spec, folder)
        except CannotRunError as problem:
            problems.append(problem.with_traceback(None))  # which would keep the model in memory
    raise problems[-1]


def _classes(spec: Load) -> list[Any]:
    declared = getattr(transformers, spec.architecture, None)
    usual = getattr(getattr(declared, "config_class", None), "model_type", "")
    kind = json.loads(Path(spec.folder, "config.json").read_text("utf-8")).get("model_type") or usual
    base = modeling_auto.MODEL_MAPPING_NAMES.get(kind)
    names = [next((each[kind] for each in HEADS if kind in each), ""), base[0] if isinstance(base, tuple) else base]
    classes = [getattr(transformers, name, None) for name in names if name] + [declared]
    known = transformers.PreTrainedModel
    models: list[Any] = [each for each in classes if isinstance(each, type) and issubclass(each, known)]
    if not models:
        raise CannotRunError(f"transformers {transformers.__version__} has no class {spec.architecture}")
    for each in models:
        if "input_ids" not in inspect.signature(each.forward).parameters or hasattr(each, "get_text_features"):
            raise CannotRunError(f"it is run on text alone, and {each.__name__} reads something else")
    return list(dict.fromkeys(models))


def _fill(build: Any, spec: Load, folder: Path) -> LoadedModel:
    model, info = build.from_pretrained(
        spec.folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # else the loader raises an error that names none
        attn_implementation="eager",
        experts_implementation="eager",
        dtype=getattr(torch, spec.dtype),
        key_mapping=_mapping(spec),
        **_devices(build, spec, folder),
    )
    unlike = [name for name, *_shapes in info["mismatched_keys"]]
    for problem, keys in (("does not hold", info["missing_keys"]), ("holds in other shapes", unlike)):
        if missing := sorted(name for name in keys if not UNUSED.search(name)):
            in_layers = [name for name in missing if re.search(r"\.\d+\.", name)]
            what = f"{len(missing)} tensors that the class builds, {(in_layers or missing)[0]} among them"
            raise CannotRunError(f"the file {problem} {what}, so that the loader makes them up at random")
    names = {disk: name for disk, (name, _) in _map_names(model, spec).items()}
    places, state = [], dict(model.named_parameters())
    for writer in spec.writers:
        name = names.get(writer.tensor, "")
        if name not in state:
            raise CannotRunError(f"the class does not build {writer.tensor}, which was judged")
        owner, _, parameter = name.rpartition(".")
        alone = state[name].ndim == STACK and writer.experts == 1
        places.append(Place(writer, model.get_submodule(owner), owner, parameter, writer.expert if alone else None))
    _same_values(model, spec, places)
    left_out = [disk for disk, memory in names.items() if memory in set(info["unexpected_keys"])]
    own = sorted(disk.removeprefix(spec.prefix) for disk in left_out if disk.startswith(spec.prefix))
    return LoadedModel(model.eval(), tuple(places), tuple(own))


def _mapping(spec: Load) -> dict[str, str] | None:
    prefix = re.escape(spec.prefix)
    return {f"^(?!{prefix})": OTHERS, f"^{prefix}": ""} if prefix else None


def _devices(build: Any, spec: Load, folder: Path) -> dict[str, Any]:
    """Return the loader's arguments on where layers go; raise CannotRunError where they would take too much disk."""
    memory = {int(device) if device.isdigit() else device: size for device, size in spec.memory.items()}
    if torch.backends.mps.is_available():
        memory = {"mps": sum(memory.values())}
    if set(memory) == {"cpu"} and not spec.offload:
        return {}
    with torch.device("meta"):
        empty = build(build.config_class.from_pretrained(spec.folder))
    numbers = dict(_count_stored(spec))
    converted = sum(numbers[disk] for disk, (_, is_converted) in _map_names(empty, spec).items() if is_converted)
    written = converted * getattr(torch, spec.dtype).itemsize  # only what the class holds in another shape is
    if written > spec.disk:
        sizes = f"{written >> 20} MiB of the disk, and {spec.disk >> 20} MiB are free for them"
        raise CannotRunError(f"layers that do not fit into memory may take {sizes}")
    return {"device_map": "auto", "max_memory": memory, "offload_folder": str(folder / "offloaded")}


def _map_names(model: Any, spec: Load) -> dict[str, tuple[str, bool]]:
    transforms = get_model_conversion_mapping(model, _mapping(spec))
    renamings = [each for each in transforms if isinstance(each, WeightRenaming)]
    converters = [each for each in transforms if isinstance(each, WeightConverter)]
    meta, prefix = model.state_dict(), model.base_model_prefix
    renamed = {disk: rename_source_key(disk, renamings, converters, prefix, meta) for disk, _ in _count_stored(spec)}
    return {disk: (name, pattern is not None) for disk, (name, pattern) in renamed.items()}


def _count_stored(spec: Load) -> Iterator[tuple[str, int]]:
    for file in spec.files:
        with safe_open(Path(spec.folder, file), "pt") as stored:
            for name in stored.keys():  # noqa: SIM118 - it is no mapping
                yield name, math.prod(stored.get_slice(name).get_shape())


def _same_values(model: Any, spec: Load, places: list[Place]) -> None:
    """Raise CannotRunError unless the first rows of every matrix in memory are those on disk."""
    wanted = {place.writer.tensor: place for place in places}

    @functools.lru_cache(1)  # once for all experts of a stack
    def read(owner: str, parameter: str) -> torch.Tensor:
        weight: torch.Tensor = model.get_parameter(f"{owner}.{parameter}").detach()
        return load_offloaded_parameter(model, f"{owner}.{parameter}") if weight.is_meta else weight

    for file in spec.files:
        with safe_open(Path(spec.folder, file), "pt") as stored:
            here = wanted.keys() & set(stored.keys())
            for tensor in sorted(here, key=lambda name: (wanted[name].owner, wanted[name].parameter)):
                place = wanted[tensor]
                memory = read(place.owner, place.parameter)
                memory = memory if place.expert is None else memory[place.expert]
                rows, both = stored.get_slice(tensor)[:ROWS].to(memory), (memory, memory.mT)
                if not any(each.shape[1:] == rows.shape[1:] and torch.equal(each[:ROWS], rows) for each in both):
                    raise CannotRunError(f"what the class holds of {tensor} is not what is stored")
