"""Sort the settings of transformers' classes by running them: `python -m tests.settings` (twenty-five minutes).

Every setting of every listed class is changed to zero, off, none, and far up and down, with the same weights, and small
tensors likewise. What takes a branch out of the stream is written to the registry with the values that do not. What is
found is kept in a temporary file, so that a run that was stopped goes on.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import resource
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers.activations import ACT2CLS

from hf_lineage.architecture.config_checks import bounded_keys
from hf_lineage.architecture.loaded_layers import ALIASES
from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import Factorization
from tests.conformance.effects import BUILDS, DROWNED, FAILS, OFF, SAME, Tried
from tests.conformance.forms import variants
from tests.conformance.models import put, required, transformers

TABLE = Path("registry/loading/settings.json")
FOUND = Path(tempfile.gettempdir()) / f"settings-{transformers.__version__}.jsonl"
FACTORS = (0.0, 1e6, -1.0, 1e-6, 1e-3, 0.1, 10.0, 1e3)
FIRST = 3
"""Numbers that are tried first, as far apart as any: where nothing changes with them, nothing does in between."""
KINDS = ("relu", "gelu", "linear", "sigmoid", "tanh")
WORDS, MOST_MEMORY = 12, 2**33
BESIDE = re.compile(
    r"architectures|model_type|transformers_version|(torch_)?dtype|_.*|id2label|label2id|problem_type|vocab_size|"
    r"is_encoder_decoder|return_dict|output_\w+|\w+_token_ids?|\w+_token_index|chunk_size_feed_forward"
)
"""Settings that no layer reads, beside those that count layers: classes, labels, tokens and what else is given out."""
BAD = {OFF, DROWNED}


def cases(*files: Factorization) -> Iterator[tuple[Factorization, str, int, dict[str, Any]]]:
    """One class of each configuration in these files or all, its base if that is listed, in every form."""
    classes: dict[tuple[str, type], list[tuple[Factorization, str]]] = {}
    for listed in files or factorizations():
        for name in (name for name in listed.classes if hasattr(transformers, name)):
            classes.setdefault((listed.name, getattr(transformers, name).config_class), []).append((listed, name))
    for names in classes.values():
        listed, name = min(names, key=lambda pair: (not pair[1].endswith("Model"), len(pair[1])))
        for number, wanted in enumerate(variants(name)):
            yield listed, name, number, required(listed, name, wanted)


def settings(said: Mapping[str, Any], known: Collection[str], outer: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """The place and the value of every setting, but of configurations inside that are tried as models of their own."""
    for key, value in said.items():
        if key in ALIASES or BESIDE.fullmatch(key) or (isinstance(value, dict) and value.get("model_type") in known):
            continue
        if isinstance(value, dict):
            yield from settings(value, known, (*outer, key))
        if not (isinstance(value, dict) and "model_type" in value):
            yield (*outer, key), value


def others(value: Any, words: list[str]) -> list[Any]:
    """What a setting is changed to."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, value * 10, 0, 1, value * 100, None]
    if isinstance(value, float):
        return [*((value or 1.0) * factor for factor in FACTORS), None]
    if isinstance(value, str):
        return [None, *[word for word in (KINDS if value in ACT2CLS else words) if word != value][:WORDS]]
    if isinstance(value, list) and value:
        if all(isinstance(each, str) for each in value):
            return [None, *([word] * len(value) for word in words[:WORDS])]
        if all(isinstance(each, int | float) for each in value):
            if any(isinstance(each, float) for each in value):
                return [None, *([each * factor for each in value] for factor in FACTORS)]
            more = ([each + 1 for each in value], [each * 10 for each in value])  # a count of layers is no million
            return [None, [0] * len(value), [1] * len(value), *more]
    return [0, 1, 1000, 1e-3, True, False, "relu"] if value is None else []


def known_words(build: Any) -> list[str]:
    """The words that the code of a class compares something with, or looks something up by."""
    words = set()
    for each in (build, build.config_class):
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[each.__module__]))):
            inside = ast.walk(node) if isinstance(node, ast.Compare) else getattr(node, "keys", [])
            words |= {part.value for part in inside if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return sorted(word for word in words if re.fullmatch(r"[A-Za-z][\w-]{0,30}", word))


def tried(tiny: Tried, known: Collection[str]) -> dict[str, list[Any]]:
    """By dotted key the value of a tiny model and pairs of another value and what becomes of the branches."""
    words, found = known_words(tiny.build), {}
    for place, value in settings(tiny.said, known):
        outcomes: list[tuple[Any, str]] = []
        for other in others(value, words):
            said = put(tiny.said, place, other)
            if other == value or tiny.unread(place, said):
                continue
            counts = _number(value) and other is not None
            size = BUILDS in (how for _, how in outcomes[:2])
            still = len(outcomes) >= FIRST and {how for _, how in outcomes} <= {SAME, FAILS}
            if not counts or not (still or (size and other)):
                outcomes.append((other, tiny.outcome(said)))
        if outcomes:
            found[".".join(place)] = [value, outcomes]
    return found


def sources(build: Any) -> str:
    """The code of a class and of its configurations, also of those inside."""
    config = build.config_class
    parts = {kind.__module__ for kind in (build, config, *config.sub_configs.values())}
    files = {name.replace(".configuration_", ".modeling_") for name in parts} | parts
    found = (importlib.import_module(name) for name in files if importlib.util.find_spec(name))
    return "\n".join(map(inspect.getsource, found))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Everything that was found, what a stopped run has found before this one first."""
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    yield from done
    everything, had = list(cases()), {(row["file"], row["class"], row["number"]) for row in done}
    known = {getattr(transformers, name).config_class.model_type for _, name, _, _ in everything}
    for listed, name, number, wanted in everything:
        if (listed.name, name, number) in had:
            continue
        row: dict[str, Any] = {"file": listed.name, "class": name, "number": number}
        try:
            with tempfile.TemporaryDirectory() as folder:
                tiny = Tried(listed, name, wanted, Path(folder))
                row |= {"type": tiny.said["model_type"], "keys": tried(tiny, known), "tensors": list(tiny.tensors())}
        except Exception as error:
            print(f"{listed.name} {name} {number}: {error!r}"[:300], flush=True)
            continue
        with path.open("a") as file:
            file.write(f"{json.dumps(row)}\n")
        yield row


def allowed(value: Any, outcomes: Iterable[tuple[Any, str]]) -> dict[str, Any] | None:
    """Which values switch nothing off; None where all do not."""
    pairs = [(part, how) for other, how in [*outcomes, (value, SAME)] for part in _parts(other)]
    if not any(how in BAD for _, how in pairs):
        return None
    numbers = sorted({(part, how in BAD) for part, how in pairs if _number(part)})
    usual = [part for part in _parts(value) if _number(part)] or [
        part for part, bad in numbers if part == 1 and not bad
    ]
    others = [part for part, how in pairs if not _number(part) and how not in BAD]
    fine: dict[str, Any] = {"others": sorted(set(others), key=str)} if others else {}
    if usual:
        below = [part for part, bad in numbers if bad and part < min(usual)]
        above = [part for part, bad in numbers if bad and part > max(usual)]
        good = [part for part, bad in numbers if not bad]
        fine |= {"least": min(part for part in good if part > max(below))} if below else {}
        fine |= {"most": max(part for part in good if part < min(above))} if above else {}
    return fine


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def scales(found: Iterable[tuple[str, tuple[int, ...], Mapping[str, str]]]) -> Iterator[tuple[str, dict[str, bool]]]:
    """Small tensors that take a branch out of the stream where they are small, or where they are far on one side."""
    for name, _, outcomes in found:
        low = OFF in (outcomes["*0"], outcomes["*1e-7"])
        one_side = (outcomes["=1e4"] == OFF) != (outcomes["=-1e4"] == OFF)
        if (low or one_side) and not name.endswith(("running_mean", "running_var")):
            yield name, {key: True for key, so in (("small", low), ("large", one_side)) if so}


def spellings(kind: Any, key: str) -> Iterator[str]:
    """The names under which `config.json` may say a setting."""
    first, _, rest = key.partition(".")
    aliases = [old for old, new in (kind.attribute_map or {}).items() if new == first]
    yield from (f"{name}.{rest}".removesuffix(".") for name in (first, *aliases))


def digest(kind: Any) -> str:
    """What tells that a configuration has other settings than those that were tried."""
    return f"{zlib.crc32(' '.join(sorted(kind().to_dict())).encode()):08x}"


def table(found: Iterable[Mapping[str, Any]]) -> str:
    """The whole file."""
    types: dict[str, dict[str, Any]] = {}
    for row in found:
        kind = getattr(transformers, row["class"]).config_class
        entry = types.setdefault(row["type"], {"settings": digest(kind), "held": set(), "rest": {}, "small": {}})
        code = sources(getattr(transformers, row["class"]))
        entry["held"] |= {key for key in bounded_keys() if re.search(rf"\b{key}\b", code)}
        inner = {key: sub().model_type for key, sub in kind.sub_configs.items() if hasattr(sub, "model_type")}
        entry["inner"] = {key: name for key, name in sorted(inner.items()) if name}
        for key, (value, outcomes) in row["keys"].items():
            if key.rpartition(".")[2] not in bounded_keys() and (fine := allowed(value, outcomes)) is not None:
                entry["rest"] |= dict.fromkeys(spellings(kind, key), fine)
        entry["small"] |= dict(scales(row["tensors"]))
    for entry in types.values():
        entry["held"] = sorted(entry["held"])
    said = {name: {key: value for key, value in types[name].items() if value} for name in sorted(types)}
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in said.items()) + "\n}\n"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))  # a size far up is refused, and not a crash
    TABLE.write_text(table(rows(FOUND)), encoding="utf-8")
