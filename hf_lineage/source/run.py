"""Run: a model is loaded by its own class, in a process that sees the judged files, and run without some parts."""

import contextlib
import json
import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hf_lineage.architecture.config_checks import QUANTIZED
from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.weight_files import foreign_model, weight_files
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.evidence.executed import Ran
from hf_lineage.running.process import TOKENIZER, Load, Process, Values, Writer
from hf_lineage.signature.devices import CPU, budgets
from hf_lineage.source.headers import Headers
from hf_lineage.source.model import OpenedModel
from hf_lineage.source.options import Options

WRITERS = {"mlp": "down", "value_output": "output"}  # Path -> the role that writes into the stream
LEFT_OUT = "auto_map", "_name_or_path", "_attn_implementation", "attn_implementation", "_experts_implementation"
WHOLE = ("float32", 4)
DTYPES = {"BF16": ("bfloat16", 2), "F16": ("float16", 2)}  # Where WHOLE does not fit, and bytes a number
WORK = 2**31  # Bytes of memory for torch, for inputs, and for what becomes of them


@dataclass(frozen=True)
class RunModel:
    """A model that runs, with the process that holds it."""

    process: Process
    ran: Ran

    def hold(self, parts: Mapping[str, Sequence[int]]) -> Values:
        """Return the loss by kind of input if these parts write the same for every token, and its unit."""
        lists = {key: list(map(int, each)) for key, each in parts.items()}
        return self.process.ask("hold", f"running {printable(self.ran.model, 60)} without some parts", parts=lists)


def list_writers(layout: Layout) -> Iterator[Writer]:
    """Yield every matrix that writes into the stream, along the paths whose parts can be held."""
    for path, role in WRITERS.items():
        for layer, sets in enumerate(layout.sets(path)):
            for number, one in enumerate(sets):
                if role in one.slots:
                    key, experts = part_key(path, layer, number), math.prod(one.stacked)
                    yield Writer(key, one.slots[role].tensor, one.part, one.parts, experts, one.expert)


def part_key(path: str, layer: int, number: int) -> str:
    """Return the name under which parts of a set of a layer are held along a path."""
    return f"{path} {layer} {number}"


@contextlib.contextmanager
def run_model(model: OpenedModel, base: OpenedModel, options: Options) -> Iterator[RunModel]:
    """Run a model, with its base's tokens if it has none; NothingToCompare where it cannot be run."""
    if model.reopen is None:
        raise NothingToCompare(f"{model.name}: its weights are not read")
    opened = model.reopen()
    if opened.model_config.within and (opened.model_config.read_as or opened.model_config.notes):
        raise NothingToCompare(f"{model.name} could not be run: no class is run that is not listed")
    repos = {"own": opened.model_config.repo} | ({"base": base.reopen().model_config.repo} if base.reopen else {})
    tokens = next((whose for whose, repo in repos.items() if repo.offers(TOKENIZER)), "none")
    try:
        with _folder(opened) as (folder, files), _process(opened, options, folder, files) as process:
            if tokens in repos:
                repos[tokens].fetch(TOKENIZER)
                Path(folder, TOKENIZER).write_bytes(repos[tokens].read_bytes(TOKENIZER) or b"")
            shapes = process.ask("run", f"running {printable(model.name, 60)}", seed=options.seed or 0)
            _refuse_left_out(opened, process.values["unexpected"])
            numbers, on_disk = (int(process.values[key]) for key in ("numbers", "on_disk"))
            inputs = {kind: tuple(shape) for kind, shape in shapes.items()}
            yield RunModel(process, Ran(model.name, inputs, numbers, process.dtype, on_disk, tokens))
    except NothingToCompare as error:
        raise type(error)(f"{model.name} could not be run: {error}") from None


def _process(opened: Headers, options: Options, folder: str, files: Sequence[str]) -> Process:
    """Return a bounded process that loads files: in float32 where it fits, else as stored, else layer by layer."""
    sizes = [tensor.numbers for tensor in opened.checkpoint.tensors.values()]
    stored = Counter[str]()
    for each in opened.checkpoint.stored.values():
        stored[each.dtype] += each.numbers
    usual = DTYPES.get("BF16" if _is_decoded(opened) else max(stored, key=stored.__getitem__), WHOLE)
    free = budgets(options.max_memory)
    memory = {str(device): max(size - WORK, 0) for device, size in free.items()}
    room = sum(memory.values())
    dtype, number = next((each for each in (WHOLE, usual) if each[1] * sum(sizes) <= room), usual)
    offload, least = number * sum(sizes) > room, WORK + 2 * number * max(sizes)
    if offload and least > free[CPU]:
        raise NothingToCompare(f"it needs {least >> 20} MiB of memory, and there are {free[CPU] >> 20} MiB for it")
    mapped = sum(Path(folder, file).stat().st_size for file in files)
    within = None if _is_decoded(opened) else opened.model_config.within
    prefix = within.place(opened.checkpoint.stored) if within else ""
    writers = [replace(each, tensor=f"{prefix}{each.tensor}") for each in list_writers(opened.layout)]
    largest = min(number * sum(sizes), room) + 2 * WORK + mapped
    disk, architecture = shutil.disk_usage(tempfile.gettempdir()).free // 2, opened.model_config.architecture
    load = Load(folder, architecture, tuple(files), writers, largest, dtype, memory, offload, disk, prefix)
    return Process(load, 600.0 + 600.0 * mapped / 2**30)  # seconds of a request, and for each GiB of weights


def _refuse_left_out(opened: Headers, unexpected: Collection[str]) -> None:
    names = {name for layer_set in opened.layout.everything for name in layer_set.tensors}
    if left_out := names.intersection(unexpected):
        raise NothingToCompare(f"transformers leaves out {printable(min(left_out), 200)}, which was judged")


@contextlib.contextmanager
def _folder(opened: Headers) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder of links to the judged files, and the names of those with weights."""
    from safetensors import safe_open

    repo = opened.model_config.repo
    files = weight_files(repo)
    if foreign_model(repo) or not all(file.endswith(".safetensors") for file in files):
        raise NothingToCompare(
            "transformers is given safetensors files and a whole config.json alone: a converted file does not say all "
            "that its class needs to compute the same; check the safetensors release"
        )
    repo.fetch(*files)
    before = {file: repo.sha256(file) for file in files}
    with tempfile.TemporaryDirectory(prefix="hf-lineage-files-") as folder:
        config = opened.model_config.config if opened.model_config.within else repo.config()
        Path(folder, "config.json").write_text(json.dumps(_plain(config)), "utf-8")
        names = list(_decode(opened.checkpoint, folder)) if _is_decoded(opened) else files
        for file in files if names is files else ():
            Path(folder, file).symlink_to(Path(repo.locate(file)).absolute())
        if names != ["model.safetensors"]:
            places = dict[str, str]()
            for file in names:
                with safe_open(Path(folder, file), "np") as stored:
                    places |= dict.fromkeys(stored.keys(), file)
            index = {"metadata": {}, "weight_map": places}
            Path(folder, "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
        yield folder, names
    changed = [file for file in files if repo.sha256(file) != before[file]]
    if changed:
        raise CheckpointError(f"{repo}: {printable(changed[0], 200)} changed while the model ran; run again")


def _is_decoded(opened: Headers) -> bool:  # here, so that no library for its format is needed
    return bool(opened.checkpoint.decoded_names) or not opened.model_config.config.keys().isdisjoint(QUANTIZED)


def _decode(checkpoint: Checkpoint, folder: str) -> Iterator[str]:
    """Write every tensor as plain numbers, into files of about a GiB, and yield their names."""
    from safetensors.numpy import save_file

    size, free = 2 * sum(each.numbers for each in checkpoint.tensors.values()), shutil.disk_usage(folder).free // 2
    if size > free:
        raise NothingToCompare(f"its numbers take {size >> 20} MiB when they are decoded, and {free >> 20} are free")
    names = list(checkpoint.tensors)
    batch: dict[str, Any] = {}
    for number, name in enumerate(names):
        tensor = checkpoint.read(name)
        half = tensor.dtype.kind == "f" and name in checkpoint.decoded_names
        batch[name] = np.array(tensor, ml_dtypes.bfloat16 if half else tensor.dtype, order="C")
        if name is names[-1] or sum(each.nbytes for each in batch.values()) > 2**30:
            save_file(batch, Path(folder, f"decoded-{number}.safetensors"))
            batch = {}
            yield f"decoded-{number}.safetensors"


def _plain(config: Any) -> Any:  # without what names code, another repository, or how numbers were stored
    if isinstance(config, dict):
        return {key: _plain(value) for key, value in config.items() if key not in (*LEFT_OUT, *QUANTIZED)}
    return [_plain(value) for value in config] if isinstance(config, list) else config
