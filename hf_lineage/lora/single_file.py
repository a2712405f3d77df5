"""LoRA adapters in one file without a configuration, as diffusers saves them, and trainers beside it.

One file may adapt several models of a pipeline. The names of its tensors tell the model, and their shapes the rank. A
tensor beside the factors holds the scale where it is not 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.open_files import open_file
from hf_lineage.checkpoint.tensor import DTYPES, TensorInfo
from hf_lineage.errors import Ambiguous, CheckpointError, NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora.adapter import Lora, fit_factors, forms, instead, refuse_many

WHICH = {"A": "A", "a": "A", "down": "A", "B": "B", "b": "B", "up": "B"}
PROCESSOR = re.compile(r"\.processor\.(to_\w+|add_\w+_proj)")  # names that diffusers once gave matrices of attention
ALPHA = ".alpha"  # the end of the name of a scale, which is divided by the rank
MAIN = ""  # the model of a pipeline that makes the picture


@dataclass
class _Model:
    flattened: bool = False
    pairs: dict[str, dict[str, str]] = field(default_factory=dict)
    alphas: dict[str, str] = field(default_factory=dict)
    magnitudes: bool = False
    others: int = 0


def is_lora_file(checkpoint: Checkpoint) -> bool:
    """Return whether a file holds factors, or products of other forms, by the names of its tensors."""
    tensors = checkpoint.tensors
    return bool(tensors) and (any(map(_factor, tensors)) or any(True for _ in instead(tensors)))


def open_lora_file(repo: RepoRef, file: str) -> Mapping[str, Lora]:
    """Return the adapters in a file by the folder of the pipeline each is for; NothingToCompare where none is read."""
    checkpoint, where = open_file(repo, file), f"{repo}: {printable(file, 200)}"
    plain = {}  # scales may be integers, as converters write them
    for name in filter(checkpoint.stored.__contains__, checkpoint.tensors):
        stored = checkpoint.stored[name]
        if name.endswith(ALPHA) and stored.numbers == 1 and stored.dtype in DTYPES:
            plain[name] = TensorInfo(stored.shape, (name,))
    checkpoint = checkpoint.with_tensors({**checkpoint.tensors, **plain})
    models = _models(checkpoint, where)
    loras = {}
    for folder, one in models.items():
        modules = {module: fit_factors(where, checkpoint, pair) for module, pair in one.pairs.items()}
        for module in one.alphas.keys() & modules:
            modules[module] = replace(modules[module], scale=1 / modules[module].rank, alpha=one.alphas[module])
        if modules:
            kind = "DoRA" if one.magnitudes else "LoRA"
            loras[folder] = Lora(checkpoint, modules, kind, others=one.others, flattened=one.flattened)
    refuse_many(repo, [module for lora in loras.values() for module in lora.modules])
    if loras:
        return loras
    raise NothingToCompare(f"{where} {next(instead(checkpoint.tensors), 'holds no pair of LoRA factors of a matrix')}")


def _factor(name: str) -> re.Match[str] | None:
    return next(filter(None, (re.fullmatch(pattern, name) for pattern in forms()["alone"])), None)


def _models(checkpoint: Checkpoint, where: str) -> Mapping[str, _Model]:
    """Return the tensors of a file by the folder of the model that they are for."""
    models: dict[str, _Model] = {}
    for name, info in checkpoint.tensors.items():
        folder, flattened, rest = _component(name)
        mine = models.setdefault(folder, _Model(flattened))
        match = _factor(rest)
        if mine.flattened != flattened:
            raise Ambiguous(f"{where} names the matrices of one model in two ways; publish them separately")
        if match and len(info.shape) == 2 and not info.refusal:
            pair = mine.pairs.setdefault(_module(match["module"]), {})
            if pair.setdefault(WHICH[match["which"]], name) != name:
                raise CheckpointError(f"{where} holds a factor of {printable(name, 200)} twice; save it again")
        elif rest.endswith(ALPHA) and info.numbers == 1 and not info.refusal:
            mine.alphas[_module(rest.removesuffix(ALPHA))] = name
        else:
            mine.others += 1
            mine.magnitudes |= any(part in rest for part in forms()["magnitudes"])
    return models


def _component(name: str) -> tuple[str, bool, str]:
    """Return the folder of the pipeline that a tensor is for, whether its name is flattened, and the rest of it."""
    for flattened, starts in enumerate((forms()["components"], forms()["flattened"])):
        for start, folder in starts.items():
            if name.startswith(start):
                return folder, bool(flattened), name[len(start) :]
    return MAIN, False, name


def _module(name: str) -> str:
    plain = PROCESSOR.sub(r".\1", name)  # as diffusers names it today, where the output is the first of a list
    return f"{plain}.0" if plain != name and plain.endswith(".to_out") else plain
