"""Write the table of the parts of transformers' classes anew: `python -m tests.parts`, from the real modules."""

import contextlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.architecture.config_checks import as_listed
from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import prefixes as prefixes_of
from hf_lineage.errors import LineageError
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.source.config import Part, inside
from hf_lineage.source.headers import bind_headers
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, tiny_model, transformers
from tests.models import WEIGHTS
from tests.modeltypes import by_tables
from tests.tensors.names import loaded, module

TABLE = Path("registry/loading/parts.json")
LISTED = {name: one for one in factorizations() for name in one.classes}
FEWEST = 1000  # numbers of a part that counts as one, of a tiny model: a head or a mask has fewer


def whole_classes() -> list[str]:
    found = []
    for name in sorted(name for name in by_tables("MODEL_").keys() | LISTED.keys() if name in known_classes()):
        with contextlib.suppress(AttributeError, ImportError):
            if getattr(transformers, name).config_class.sub_configs:
                found.append(name)
    return found


def inner(model: Any) -> Iterator[tuple[str, Any]]:
    """Every part of a model that is a model, the outer ones first, but not what stands inside of a listed one."""
    taken: list[str] = []
    models = [(p, part) for p, part in model.named_modules() if p and isinstance(part, transformers.PreTrainedModel)]
    for path, part in models:
        within = part is model.base_model or any(path.startswith(f"{outer}.") for outer in taken)
        if not within and sum(each.numel() for each in part.parameters()) >= FEWEST:
            if type(part).__name__ in LISTED:
                taken.append(path)
            yield path, part


def settings_key(config: Any, wanted: Any, before: str = "") -> str | None:
    for key in config.sub_configs:
        held = getattr(config, key, None)
        if held is wanted:
            return f"{before}{key}"
        if held is not None and (found := settings_key(held, wanted, f"{before}{key}.")):
            return found
    return None


def prefixes(model: Any, path: str, part: Any) -> list[str]:
    """What may stand on disk before all names of a part; none where the part has other names by itself."""
    groups, own = loaded(model).groups, sorted(loaded(part).saved)
    starts = {name.removesuffix(own[0]) for name in groups if name.endswith(f".{own[0]}")}
    fitting = [start for start in starts if all(f"{start}{name}" in groups for name in own)]
    last = path.rpartition(".")[2]
    tied = {groups[f"{start}{own[0]}"] for start in fitting if f".{start}".endswith(f".{last}.")}
    named = sorted(start for start in fitting if groups[f"{start}{own[0]}"] in tied)
    return [start for start in named if not any(start != other and start.startswith(other) for other in named)]


OTHERWISE = {"Kimi_K25": ("language_model.model.blocks.", "language_model.model.layers.")}
"""Classes that transformers saves under names which no publisher uses, though it loads what they use."""


def saved(name: str, folder: Path) -> RepoRef:
    """A tiny model of a class, as it is published."""
    tiny_model(name, variants(name)[0]).save_pretrained(folder)
    for start, names in OTHERWISE.items():
        if name.startswith(start):
            stored = load_file(folder / WEIGHTS)
            save_file({key.replace(*names): tensor for key, tensor in stored.items()}, folder / WEIGHTS)
    return resolve(str(folder))


def seeing(folder: Path, seed: int, name: str = "LlavaForConditionalGeneration") -> Path:
    """A model of a class with a tower, with random numbers in every matrix."""
    saved(name, folder)
    torch.manual_seed(seed)
    stored = load_file(folder / WEIGHTS)
    drawn = {key: torch.randn(tensor.shape) if tensor.ndim > 1 else tensor for key, tensor in stored.items()}
    save_file(drawn, folder / WEIGHTS, {"format": "pt"})
    return folder


def read_back(repo: RepoRef, part: Part) -> None:
    """Raise unless a part is read from the numbers that its module has under one of its prefixes."""
    opened = bind_headers(inside(repo, as_listed(repo.config()), part))
    stored = load_file(repo.folder / WEIGHTS)
    name = next(slot.tensor for each in opened.layout.everything for slot in each.slots.values())
    kept = [stored[prefix + name].tolist() for prefix in part.prefixes if prefix + name in stored]
    assert opened.layout.unclaimed == (), opened.layout.unclaimed
    assert kept == [opened.checkpoint.read(name).tolist()], name


def not_read(name: str, parts: dict[str, Any]) -> set[str]:
    left = set(parts)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception):
        repo = saved(name, Path(folder))
        for label, part in parts.items():
            with contextlib.suppress(LineageError, AssertionError, KeyError, OSError):
                read_back(repo, msgspec.convert(part, Part))
                left.remove(label)
    return left


def of_class(name: str) -> tuple[dict[str, Any], str]:
    """The parts of a class, and why it has none, or not all of them."""
    try:
        model = module(name, variants(name)[0])
    except Exception as error:
        return {}, f"it cannot be built in tiny sizes ({type(error).__name__})"
    parts: dict[str, Any] = {}
    missing, layers = [], prefixes_of(LISTED[name]) if name in LISTED else ()
    for path, part in inner(model):
        kind, key = type(part).__name__, settings_key(model.config, part.config)
        starts = prefixes(model, path, part) if kind in LISTED else []
        alike = any(starts == other["prefixes"] for other in parts.values())
        if not starts or alike:
            why = " (one of two alike)" if alike else " (other names on disk)" if kind in LISTED else ""
            missing.append(f"{kind}{why}")
            continue
        label = (key or path).rpartition(".")[2].removesuffix("_config")
        label = label if label not in parts else path.rpartition(".")[2]
        parts[label] = {"class": kind, "settings": key or "", "prefixes": starts}
        if any(layer.startswith(start) for layer in layers for start in starts):
            parts[label]["read"] = True  # by the factorization already, as the language model or one of the towers
    for label in not_read(name, parts):
        missing.append(f"{parts.pop(label)['class']} (not read back from a tiny model)")
    return parts, ", ".join(sorted(set(missing)))


def table() -> dict[str, Any]:
    together, without = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name in whole_classes():
        parts, missing = of_class(name)
        if parts:
            together[json.dumps(parts, sort_keys=True)].append(name)
        if missing:
            without[missing].append(name)
    rows = [{"classes": names, "parts": json.loads(parts)} for parts, names in together.items()]
    return {"whole": rows, "without": dict(sorted(without.items()))}


def lines(said: dict[str, Any]) -> str:
    rows = ",\n".join(json.dumps(row) for row in said["whole"])
    without = ",\n".join(f"{json.dumps(why)}: {json.dumps(names)}" for why, names in said["without"].items())
    return f'{{"whole": [\n{rows}\n],\n"without": {{\n{without}\n}}}}\n'


if __name__ == "__main__":
    TABLE.write_text(lines(table()), encoding="utf-8")
