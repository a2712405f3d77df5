"""Differences of two configurations, which tensor of the base each tensor of a model is, and what only one stores.

Without transformers, a setting that only one file has counts as another. What classes of diffusers and timm build the
base says, by its names and its settings. Copies of a tied embedding, positions, and zeros say nothing.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from hf_lineage.architecture.config_checks import DIFFUSERS, TIMM, usual_type
from hf_lineage.architecture.registry import registry_table
from hf_lineage.architecture.schema import as_names, bare_name, base_prefixes
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, installation, printable
from hf_lineage.evidence import evaluate
from hf_lineage.source.config import SAVED
from hf_lineage.source.headers import Headers
from hf_lineage.source.model import OpenedModel

STORAGE = frozenset(
    SAVED
    | {"architectures", "dtype", "torch_dtype", "use_cache", "tokenizer_class", "transformers.js_config"}
    | {"unsloth_fixed", "unsloth_version", "finetuning_task", "task_specific_params"}
    | {"quantization_config", "compression_config", "quantization", "_attn_implementation_autoset"}
)
"""Settings that say who saved a model, how it is stored and how it is run, and nothing about what it computes."""
OWN_CODE, ROTARY, WHOLE = "auto_map", "rope_parameters", "full_attention"
THETA, POSITIONS = "rope_theta", frozenset({"factor", "sliding_window"})
"""Settings that metadata hold only for a class that has them, and one that they are given for every class."""
NOTHING = object()
Settings = Mapping[str, Any]
DEFAULTS, SIZES = "loading/diffusers.json", {"sample_size"}  # What classes leave out, and what says nothing of layers


def differing_settings(base: Headers, candidate: Headers) -> tuple[str, ...]:
    """Return the settings that differ, as phrases; of the metadata of a converted model only those that they hold."""
    first, second = dict(base.model_config.config), dict(candidate.model_config.config)
    code, of_base = second.pop(OWN_CODE, None) or None, first.pop(OWN_CODE, None)
    other = () if code in (None, of_base) else (f"{OWN_CODE} names code of the repository that the base does not have",)
    metadata = second if _is_metadata(candidate) else first if _is_metadata(base) else None
    is_known = metadata is not None and (ROTARY in (*first, *second) or THETA in first.keys() & second.keys())
    stated = [{key: value for key, value in one.items() if key not in STORAGE} for one in (first, second)]
    if stated[0] == stated[1] or (is_known and not [*differing(first, second, metadata=metadata)]):
        return other
    if not all(map(find_spec, ("torch", "transformers"))):
        unknown = f"without transformers it is not known what a file leaves to its class; {installation('run')}"
        return (*other, *differing(first, second, metadata=metadata), unknown)
    first, second = _complete_config(first, base), _complete_config(second, candidate)
    return (*other, *differing(first, second, metadata=metadata))


def _is_metadata(model: Headers) -> bool:
    """Return whether a configuration was made of the metadata of a converted model, and not of its `config.json`."""
    return model.model_config.foreign is not None and "model_type" not in model.model_config.config


def _complete_config(config: dict[str, Any], model: Headers) -> dict[str, Any]:
    """Return a configuration with what it leaves to its class, where that is known."""
    from hf_lineage.running.config import complete

    kind = usual_type(config, model.model_config.architecture)
    return config if _is_metadata(model) or not kind else complete(kind, config) or config


def differing(first: Settings, second: Settings, within: str = "", metadata: Settings | None = None) -> Iterator[str]:
    """Yield as a phrase each setting that is another in the first; beside `metadata` only theirs, one a model."""
    for key in dict.fromkeys((*second, *first)) if metadata is None else metadata:
        if key in STORAGE:
            continue
        one, other = (settings.get(key, _rotary(settings, key)) for settings in (first, second))
        if metadata is None and isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differing(one, other, f"{within}{key}.")
            continue
        values = [None if each is NOTHING else each for each in (one, other)]
        unlike = not _alike(*values)
        if metadata is not None:
            unlike = key in POSITIONS if one is NOTHING or other is NOTHING else unlike
            unlike &= any(values) or metadata[key] != 0  # llama.cpp writes 0 for no window
        if unlike:
            name = printable(f"{within}{key}", 100)
            before, now = (printable(json.dumps(each, default=str), 100) for each in (one, other))
            stated = f"{name} is {now}, and {before} in the base"
            stated = f"{name} is {now}, and the base has no such setting" if one is NOTHING else stated
            yield f"{name} is only in the base, as {before}" if other is NOTHING else stated


def _rotary(settings: Mapping[str, Any], key: str) -> Any:  # for layers that see the whole text
    rotary = settings.get(ROTARY)
    if not isinstance(rotary, Mapping):
        return NOTHING
    return (inner if isinstance(inner := rotary.get(WHOLE), Mapping) else rotary).get(key, NOTHING)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values of a setting are one; the metadata of converted models hold numbers of 32 bits."""
    numbers = [value for value in (one, other) if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(np.float32(one) == np.float32(other)) if len(numbers) == 2 else one == other


def doubts(base: OpenedModel, candidate: OpenedModel) -> Iterator[str]:
    """Yield a sentence about the unaccounted tensors of a candidate, if it has any."""
    names, listed = candidate.unaccounted, candidate.factorization.classes if candidate.factorization else ()
    unknown = any(name.startswith((DIFFUSERS, TIMM)) for name in listed)
    if not (names or unknown) or not (base.reopen and candidate.reopen):
        yield from evaluate.describe_unaccounted(names)
        return
    first, second = base.reopen(), candidate.reopen()
    if first.model_config.foreign or second.model_config.foreign or not unknown:
        unlike = set(find_unaccounted(first, second))
        some = [name for name in names if name in unlike]
        yield from evaluate.describe_unaccounted(some, ", and the base has no equal ones")
        return
    yield from evaluate.describe_unaccounted(sorted(second.checkpoint.tensors.keys() - first.checkpoint.tensors.keys()))
    for setting in [*differing(_settings(first), _settings(second))][:1]:
        yield f"config.json is not that of the base, and no rule knows what its class makes of it: {setting}"


def _settings(model: Headers) -> dict[str, Any]:
    """Return the settings of a diffusers class, with what it leaves out, or those of timm that say what it builds."""
    name, config = model.model_config.architecture, model.model_config.config
    if name.startswith(TIMM):
        return {"name": str(config.get("architecture")).partition(".")[0], "model_args": config.get("model_args")}
    stated = {key: value for key, value in config.items() if not key.startswith("_") and key not in SIZES}
    return {**registry_table(DEFAULTS, dict[str, dict[str, Any]]).get(name.removeprefix(DIFFUSERS), {}), **stated}


def find_unaccounted(base: Headers, candidate: Headers) -> Iterator[str]:
    """Yield the names of tensors that are not the class's own, nor the base's bit for bit, and that say something."""
    own, others = candidate.unaccounted, {**base.checkpoint.tensors, **base.unaccounted}
    alike = [name for name in own if name in others and others[name].shape == own[name].shape]
    sizes = np.cumsum([sum(candidate.checkpoint.stored[part].size for part in own[name].parts) for name in alike])
    compared = alike[: int(np.searchsorted(sizes, 2**28, side="right"))]  # more is not held against the base
    here, there = candidate.checkpoint.with_tensors(own), base.checkpoint.with_tensors(others)
    here.prefetch(*compared)
    there.prefetch(*compared)
    read = {tensor.removesuffix(".weight") for layer_set in candidate.layout.everything for tensor in layer_set.tensors}
    equal = set[str]()
    for name in compared:
        mine, its = (
            [(part.dtype, part.shape, part.tobytes()) for part in one.read_parts(name)] for one in (here, there)
        )
        equal |= {name} if mine == its else set()
    for name in (name for name in own if name not in equal):
        # Under a second name a bias of 0 may take the place of another; beside a matrix that was read it adds nothing.
        second = name.endswith(".bias") and name.removesuffix(".bias") not in read
        if second or not says_nothing(here, name, own[name]):
            yield name


def says_nothing(checkpoint: Checkpoint, name: str, info: TensorInfo) -> str:
    """Return what a tensor is that every loader makes by itself; empty if it is none of these."""
    if info.numbers > 2**20 or len(info.parts) != 1:
        return ""
    stored = checkpoint.stored[info.parts[0]]
    if info.refusal and stored.dtype in ("I64", "I32"):
        numbers = checkpoint.read_parts(name)[0].ravel()
        return "a list of positions" if np.array_equal(numbers, np.arange(numbers.size)) else ""
    if name.endswith(".bias") and not info.refusal and not np.any(checkpoint.read(name)):
        return "a bias of zeros"
    return ""


@dataclass(frozen=True)
class Pairing:
    """The tensors of a model, each with its counterpart in the base."""

    base: Checkpoint
    candidate: Checkpoint
    pairs: tuple[tuple[str, str], ...]  # Names in the model and in the base
    added: tuple[str, ...]  # Tensors that the base does not have
    lacking: tuple[str, ...]  # Tensors that the model does not have
    copies: tuple[str, ...]  # Tensors of one side that say nothing of their own, each with its meaning
    settings: tuple[str, ...]  # Settings that have other values in the two configurations


def pair_tensors(base: Headers, candidate: Headers) -> Pairing:
    """Return the tensors of two models that are one, by names and shapes; raise CheckpointError for names twice."""
    known, own = by_bare_name(base, refuse=True), by_bare_name(candidate, refuse=True)
    pairs = {name: known[bare] for bare, name in own.items() if bare in known}
    used, foreign = set(pairs.values()), candidate.model_config.foreign
    for name in [name for name in own.values() if foreign and name not in pairs]:
        # A converter may store it under another name: it counts where just one that is free can be it.
        aliases, starts = foreign.aliases(name) if foreign else (), base_prefixes(candidate.layout.factorization)
        possible = {known.get(bare) for alias in aliases for bare in (alias, bare_name(alias, starts))} - {None, *used}
        if len(possible) == 1:
            pairs[name] = str(possible.pop())
            used.add(pairs[name])
    alone = [name for name in own.values() if name not in pairs]
    lacking = [name for name in known.values() if name not in used]
    copies = dict(_copies(base, candidate, alone, lacking, pairs))
    added = dict.fromkeys((*(name for name in alone if name not in pairs), *find_unaccounted(base, candidate)))
    alone, lacking = ([name for name in names if name not in copies] for names in (added, lacking))
    spelled = tuple(f"{printable(name, 200)} is {what}" for name, what in copies.items())
    both, settings = (base.checkpoint, candidate.checkpoint), differing_settings(base, candidate)
    return Pairing(*both, tuple(pairs.items()), tuple(alone), tuple(lacking), spelled, settings)


def by_bare_name(model: Headers, refuse: bool = False) -> dict[str, str]:
    """Return names of tensors by those without the base model's prefix; doubles are left out, or are refused."""
    names, starts = dict[str, list[str]](), base_prefixes(model.layout.factorization)
    for name in model.checkpoint.tensors:
        names.setdefault(bare_name(name, starts), []).append(name)
    doubles = [bare for bare, every in names.items() if len(every) > 1]
    if refuse and doubles:
        raise CheckpointError(f"{model.model_config.repo} has two tensors that are {printable(doubles[0], 200)}")
    return {bare: every[0] for bare, every in names.items() if len(every) == 1}


def _copies(
    base: Headers, candidate: Headers, alone: list[str], lacking: list[str], pairs: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield tensors of one side that say nothing of their own; a copy of an embedding is held against the base's."""
    tied = all(model.model_config.config.get("tie_word_embeddings", True) is not False for model in (base, candidate))
    tables = [f"{name}.weight" for name in as_names(base.layout.factorization.embedding) if isinstance(name, str)]
    starts = base_prefixes(base.layout.factorization)
    spelled = (one for table in tables for one in (table, bare_name(table, starts)))
    rows = next((name for name in spelled if name in base.checkpoint.tensors), None)
    head = next((other for name, other in pairs.items() if rows and other == rows), None)
    for model, names in ((candidate, alone), (base, lacking)):
        for name in names:
            info = model.checkpoint.tensors[name]
            if tied and head and rows and info.shape == base.checkpoint.tensors[rows].shape:
                if model is candidate:
                    pairs[name] = rows
                    continue
                if np.array_equal(base.checkpoint.read(name), base.checkpoint.read(rows)):
                    yield name, "the embedding, to which it is tied"
                    continue
            if what := says_nothing(model.checkpoint, name, info) or _rotary_factors(model.checkpoint, name, base):
                yield name, what


def _rotary_factors(checkpoint: Checkpoint, name: str, base: Headers) -> str:
    """Return in words that a tensor is what converters make of rotary settings (`rope_type` llama3); else nothing."""
    config = base.model_config.config
    scalings = (one for key in ("rope_scaling", ROTARY) if isinstance(one := config.get(key), Mapping))
    scaling: Settings = next((one for one in scalings if "factor" in one), {})
    # Between frequencies whose waves are longer than the first positions, and those of short waves, there is a slope.
    keys = "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"
    values = [*map(scaling.get, keys), scaling.get("rope_theta", config.get("rope_theta"))]
    info = checkpoint.tensors[name]
    factors = checkpoint.read(name) if len(info.shape) == 1 and not info.refusal else np.empty(0)
    if not factors.size or not all(isinstance(one, int | float) and one > 0 for one in values):
        return ""
    factor, low, high, positions, theta = map(float, values)
    waves = 2 * np.pi * theta ** (np.arange(factors.size) / factors.size)
    smooth = np.clip((positions / waves - low) / (high - low or 1), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    return "made of the base's rotary settings" if np.allclose(factors, expected, rtol=1e-4) else ""
