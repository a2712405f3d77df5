"""Names of bases as people write them, and the model of the Hub that each means, or why it means none.

All of it is untrusted input: a path names nothing on the Hub, and no other site is ever asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from hf_lineage.errors import printable
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

_TAG = re.compile(rf"base_model:(?:(?P<relation>{'|'.join(RELATIONS)}):)?(?P<name>.+)", re.IGNORECASE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<address>[^()\s]+)\)|<(?P<bare>[^<>\s]+)>")
_HUB = re.compile(
    r"(?:(?:https?|ssh)://)?(?:git@|www\.)?(?:huggingface\.co|hf\.co)[/:](?P<rest>.*)|hf://(?P<file>.*)", re.I
)
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SITE = re.compile(r"(?:[\w-]+\.)+(?:ai|cn|co|com|dev|io|net|org)/.+/.+", re.IGNORECASE)
_CACHED = re.compile(
    r"(?:^|[/\\])models--(?P<name>[\w.-]+?(?:--[\w.-]+?)?)(?:[/\\](?:snapshots[/\\](?P<commit>[0-9a-f]{40}))?.*)?$"
)
_PATH = re.compile(r"[/~$%\\]|\.{1,2}(?:[/\\]|$)|[A-Za-z]:[/\\]|file:|.*\\|.*/.*/|(?:.*/)?checkpoint-\d+/?$")


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


def at_revisions(declared: Iterable[Name], stated: Iterable[Name]) -> Sequence[Name]:
    """Return declared names, at the revisions of `stated`: an adapter changes the weights that it was trained on."""
    exact = {name.base.partition("@")[0].casefold(): name.base for name in stated if not name.problem}
    return [replace(name, base=exact.get(name.base.casefold(), name.base)) for name in declared]


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
    if (scheme := _SCHEME.match(text)) or _SITE.fullmatch(text):
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
