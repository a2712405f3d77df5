"""Names of bases as people write them, the model of the Hub that each means, and recipes of merges that name them.

All of it is untrusted input: a path names nothing on the Hub, and no other site is ever asked.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import yaml

from hf_lineage.errors import printable
from hf_lineage.files import safe_yaml
from hf_lineage.hub.repo import hub_name

NO_VALUE = frozenset({"", "~", "null", "Null", "NULL"})  # The texts by which YAML means that there is no value
RELATIONS = ("adapter", "finetune", "merge", "quantized")  # The relations that the Hub knows
KEYS = ("name", "model", "id", "repo_id", "model_id", "model_name", "base_model", "path")  # Of a mapping with a model
LONGEST = 1000  # Characters of a text that may be understood; no name of the Hub, and no address of one, is as long
PATH = "it is a path on the machine that trained the model, not a name on the Hub"
DATA_SET, PAGE = "it is a data set, not a model", "it is a page of the Hub that is not about one model"
ELSEWHERE = "it is an address of another site, and hf-lineage never contacts other sites"
UNLIKE, WORD = "it is not a model name such as org/model", "it is a word for no model"
SEVERAL = "it is several names in one text; write them as a list, one a line"
PREFIXED = "it begins with the name of the Hub; write org/model alone"
MOST = 1000  # Weights of one model, and numbers of one gradient; a recipe with more is not read
_TAG = re.compile(rf"base_model:(?:(?P<relation>{'|'.join(RELATIONS)}):)?(?P<name>.+)", re.IGNORECASE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<address>[^()\s]+)\)|<(?P<bare>[^<>\s]+)>")
_HUB = re.compile(
    r"(?:(?:https?|ssh)://)?(?:git@|www\.)?(?:huggingface\.co|hf\.co)[/:](?P<rest>.*)|hf://(?P<file>.*)", re.I
)
_SITE = re.compile(r"(?:[\w-]+\.)+(?:ai|cn|co|com|dev|io|net|org)/.+/.+", re.IGNORECASE)
_CACHED = re.compile(
    r"(?:^|[/\\])models--(?P<name>[\w.-]+?(?:--[\w.-]+?)?)(?:[/\\](?:snapshots[/\\](?P<commit>[0-9a-f]{40}))?.*)?$"
)
_PATH = re.compile(r"[/~$%\\]|\.{1,2}(?:[/\\]|$)|[A-Za-z]:[/\\]|file:|.*\\|.*/.*/|(?:.*/)?checkpoint-\d+/?$")
_BLOCK = re.compile(r"^(`{3,}|~{3,})[ \t]*ya?ml[ \t]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Name:
    """One base as it is declared: the model that is meant, or why none is."""

    base: str
    relation: str | None = None
    problem: str = ""  # Why it names no model; empty if it does


def names_in(value: Any, relation: str | None = None) -> Iterator[Name]:
    """Yield every base that a value of a configuration or a card declares: text, a list of it, or a mapping."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, Mapping):
            yield from _in_mapping(entry, relation)
        elif isinstance(entry, str):
            if entry.strip() not in NO_VALUE:
                yield parse_name(entry.strip(), relation)
        elif entry is not None:
            yield _no_name(type(entry).__name__, relation)


def parse_name(text: str, relation: str | None = None) -> Name:
    """Return the model of the Hub that a text means, with the relation that the text states, if any.

    >>> parse_name("https://huggingface.co/org/name/tree/main").base
    'org/name'
    >>> parse_name("base_model:merge:org/name")
    Name(base='org/name', relation='merge', problem='')
    >>> parse_name("C:/models/llama").problem
    'it is a path on the machine that trained the model, not a name on the Hub'
    """
    if not text.isprintable() or re.fullmatch(r"[-+]?[\d_.]+", text) or len(text) > LONGEST:
        return _no_name(text, relation)
    if tag := _TAG.fullmatch(text):
        text, relation = tag["name"], tag["relation"].lower() if tag["relation"] else relation
    if link := _LINK.fullmatch(text.strip("`\"' ")):
        text = link["address"] or link["bare"]
    meant, problem = _meaning(text.strip("`\"' "))
    return Name(printable(text, 200), relation, problem) if problem else Name(meant, relation)


def bases_of_adapter(config: Mapping[str, Any]) -> Iterator[Name]:
    """Yield the base that the configuration of an adapter names, at the revision that it states."""
    name, revision = config.get("base_model_name_or_path", config.get("model")), config.get("revision")
    for base in names_in(name, "adapter"):
        exact = f"{base.base}@{revision}" if isinstance(revision, str) and revision not in {*NO_VALUE, "main"} else ""
        yield replace(base, base=exact) if exact and not base.problem and hub_name(exact) else base


def _meaning(text: str) -> tuple[str, str]:
    """Return the name of a model on the Hub, or what the text is instead."""
    # Words that templates and programs leave where no base was given.
    empty = "none", "n/a", "na", "nan", "-", "undefined", "unknown", "tbd", "todo", "false", "[]", "{}"
    if text.casefold() in empty:
        return "", WORD
    names = [name for name in re.split(r"(?:[\s,;|+&]|(?<=\s)and(?=\s))+", text) if name]
    if len(names) > 1 and all("/" in name and not _meaning(name)[1] for name in names):
        return "", SEVERAL
    if address := _HUB.fullmatch(text):
        return _at_address(address["rest"] if address["rest"] is not None else address["file"])
    if cached := _CACHED.search(text):
        name = cached["name"].replace("--", "/", 1)
        return _check_name(f"{name}@{cached['commit']}" if cached["commit"] else name)
    if (scheme := re.match(r"(?i:(?P<scheme>[a-z][a-z0-9+.-]*)://)", text)) or _SITE.fullmatch(text):
        return "", PATH if scheme and scheme["scheme"].lower() == "file" else ELSEWHERE
    if re.match(r"datasets/[^/]+/[^/]+/?$", text):
        return "", DATA_SET
    if re.fullmatch(r"(?i:huggingface(?:_hub)?|hf)/[^/]+/[^/]+/?", text):
        return "", PREFIXED
    if _PATH.match(text.rstrip("/") or "/"):
        return "", PATH
    return _check_name(text.rstrip("/"))


def _at_address(rest: str) -> tuple[str, str]:
    """Return the model that a page of the Hub shows, by what follows the name of its host."""
    parts = [unquote(part) for part in re.split(r"[?#]", rest)[0].split("/") if part]
    parts = parts[1:] if parts[:1] == ["models"] and len(parts) > 2 else parts
    first, others = parts[0].lower() if parts else "", {"", "api", "blog", "collections", "docs", "learn", "models"}
    if first in others | {"papers", "posts", "spaces"}:
        return "", PAGE
    if first == "datasets":
        return "", DATA_SET
    at_commit = {"tree", "blob", "raw", "resolve", "commit"}
    words = 1 if len(parts) == 1 or parts[1] in at_commit | {"commits", "discussions", "edit"} else 2
    name, page = "/".join(parts[:words]), parts[words:]
    revision = page[1] if len(page) > 1 and page[0] in at_commit else "main"
    name = re.sub(r"\.git$|:[\w.-]+$", "", name)
    return _check_name(name if revision == "main" else f"{name}@{revision}")


def _check_name(name: str) -> tuple[str, str]:
    return (name, "") if hub_name(name) else ("", UNLIKE)


def _in_mapping(entry: Mapping[str, Any], relation: str | None) -> Iterator[Name]:
    """Yield the bases that a mapping declares: a name under a usual key, or the list that the Hub answers with."""
    word = str(entry.get("relation")).strip().lower()
    relation = word if word in RELATIONS else relation
    models = entry.get("models")
    if isinstance(models, list) and not any(isinstance(entry.get(key), str) for key in KEYS):
        for model in models:
            name = model.get("id") or model.get("name") if isinstance(model, Mapping) else model
            yield from names_in(name if isinstance(name, str) else type(model).__name__, relation)
        return
    name = next((entry[key] for key in KEYS if isinstance(entry.get(key), str)), None)
    yield _no_name("a mapping without a name", relation) if name is None else parse_name(name.strip(), relation)


def _no_name(text: str, relation: str | None) -> Name:
    words = printable(text, 200)
    return Name(words, relation, f"base_model must be a model name such as org/model, not {words}")


@dataclass(frozen=True)
class MergeRecipe:
    """The method, base model, weights and layers by which a merge says that it was made."""

    method: str
    base: str = ""  # The model from which differences are taken; empty where the method takes none
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # Model -> by slice a number, gradient or list
    layers: Mapping[str, int] = field(default_factory=dict)  # Model, in lower case -> number of layers taken from it

    def weight(self, model: str, tensor: str) -> float | None:
        """Return a model's weight in a tensor, in a linear merge as its share; None where it is not declared."""
        if self.method == "passthrough":
            return self.layers[model] / sum(self.layers.values()) if self.layers.get(model) else None
        weights = {name: _mean(settings, tensor) for name, settings in self.settings.items()}
        if self.method != "linear" or model not in weights:
            return weights.get(model)
        numbers = [weight for weight in weights.values() if weight is not None]
        own, total = weights[model], sum(numbers)
        return None if own is None or len(numbers) < len(weights) or abs(total) < 1e-6 else own / total


def parents_in(config: Mapping[str, Any]) -> Iterator[Name]:
    """Yield the parents in a configuration of mergekit: its base, and those of its models, slices and modules."""
    yield from _model_name(config.get("base_model"))
    for _, key, entry in _sources(config):
        yield from _model_name(entry.get(key))


def recipe_in(config: Mapping[str, Any]) -> MergeRecipe | None:
    """Return the recipe of a configuration of mergekit, None if it names no method."""
    method = config.get("merge_method")
    if not isinstance(method, str):
        return None
    method = printable(method.strip().lower(), 40)
    base, is_slerp = _name(config.get("base_model")), method == "slerp"
    key = "t" if is_slerp else "weight"
    settings, layers = dict[str, list[Any]](), dict[str, int]()
    for common, named, entry in _sources(config):
        if named != "model" or not (name := _name(entry.get(named))):
            continue
        parameters = (some for some in [entry.get("parameters"), *common] if isinstance(some, dict))
        value = next((some[key] for some in parameters if key in some), None)
        if value is not None:
            # SLERP gives t to the second model, 1 - t to the base.
            settings.setdefault(name, []).append({"less": value} if is_slerp and name == base else value)
        span = entry.get("layer_range")
        first, last = map(_number, span) if isinstance(span, list) and len(span) == 2 else (None, None)
        is_range = first is not None and last is not None and 0 <= first <= last
        layers[name] = layers.get(name, 0) + (int((last or 0) - (first or 0)) if is_range else 0)
    # Methods whose names begin so add differences from their base.
    begins = "task_", "ties", "dare_", "della", "breadcrumbs", "model_breadcrumbs", "sce", "model_stock"
    return MergeRecipe(method, base if method.startswith(begins) else "", settings, layers)


def recipe_in_card(text: str) -> MergeRecipe | None:
    """Return the recipe in the first block of YAML in a card that holds one, as mergekit writes it; None without."""
    blocks = (block[2] for block in _BLOCK.finditer(text.replace("\r\n", "\n")) if "merge_method" in block[2])
    try:
        config = safe_yaml.load(next(blocks, ""))
    except yaml.YAMLError:
        return None
    return recipe_in(config) if isinstance(config, dict) else None


def _sources(config: Mapping[str, Any]) -> Iterator[tuple[list[Any], str, Mapping[str, Any]]]:
    """Yield every model: the parameters that hold for it if it has none, the nearest first; its key and its entry."""
    modules, whole = config.get("modules"), config.get("parameters")
    inside = (part for part in (modules.values() if isinstance(modules, dict) else ()) if isinstance(part, dict))
    for part in (config, *inside):
        outer = [whole] if part is config else [part.get("parameters"), whole]
        for models, key in (("models", "model"), ("experts", "source_model"), ("shared_experts", "source_model")):
            yield from ((outer, key, entry) for entry in _entries(part.get(models)))
        for piece in _entries(part.get("slices")):
            inner = [piece.get("parameters"), *outer]
            yield from ((inner, "model", entry) for entry in _entries(piece.get("sources")))


def _mean(settings: Sequence[Any], tensor: str) -> float | None:
    """Return the mean of a weight over layers and slices; None where one cannot be read or holds for other tensors."""
    values = [_value(setting, tensor) for setting in settings] if len(settings) <= MOST else [None]
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _value(setting: Any, tensor: str) -> float | None:
    """Return one setting as a number: a gradient is interpolated between the first layer and the last."""
    if isinstance(setting, dict):
        if "less" in setting:
            value = _value(setting["less"], tensor)
            return None if value is None else 1 - value
        return _value(setting.get("value"), tensor) if _holds(setting, tensor) else None
    if not isinstance(setting, list) or len(setting) > MOST:
        return _number(setting)
    if any(isinstance(some, dict) for some in setting):
        chosen = next((some for some in setting if isinstance(some, dict) and _holds(some, tensor)), None)
        return None if chosen is None else _value(chosen.get("value"), tensor)
    numbers = [_number(some) for some in setting if not isinstance(some, list)]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(setting):
        return None
    return sum((a + b) / 2 for a, b in itertools.pairwise(known)) / (len(known) - 1) if known[1:] else known[0]


def _holds(setting: Mapping[str, Any], tensor: str) -> bool:
    chosen = setting.get("filter")
    return chosen in (None, "", "*", "null") or (isinstance(chosen, str) and bool(tensor) and chosen in tensor)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str) and len(value) < 40 else math.nan
    except ValueError:
        return None
    return number if abs(number) <= 1e6 else None


def _entries(value: object) -> Iterator[dict[str, Any]]:
    yield from (entry for entry in (value if isinstance(value, list) else []) if isinstance(entry, dict))


def _name(value: object) -> str:
    name = next(_model_name(value), None)
    return "" if name is None or name.problem else name.base.casefold()


def _model_name(value: object) -> Iterator[Name]:
    """Yield the model that mergekit writes as `org/model`, as `org/model+org/lora`, or as a mapping of these parts."""
    if isinstance(value, dict):
        value = value.get("path") or value.get("model")
        value = value.get("path") if isinstance(value, dict) else value
    yield from names_in(value.split("+", 1)[0] if isinstance(value, str) else value, "merge")
