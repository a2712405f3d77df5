"""Claims: the bases that a repository declares, and the files that declare them.

To read another file that declares bases, add an entry to the table SOURCES; no other module changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from hf_lineage.claims.card import front_matter, opens, parted
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.files import plain_yaml
from hf_lineage.hub.reference import RepoRef

CARD, LORA_CONFIG, MERGE_CONFIG = "README.md", "adapter_config.json", "mergekit_config.yml"
LARGEST = 2**20
"""The most bytes of a configuration, and of the beginning of a card, that are read for claims."""
MOST_CLAIMS = 100
"""The most claims of one model, because each may cost a download."""
NULL = frozenset({"", "~", "null", "Null", "NULL"})
"""The texts by which YAML means that there is no value."""
_NUMBER = re.compile(r"[-+]?[\d_.]+")


@dataclass(frozen=True)
class Claim:
    """One base that a repository declares, the relation to it, and every file that declares it."""

    base: str
    relation: str | None
    sources: tuple[str, ...]
    problem: str = ""
    """Why the claim cannot be followed; empty if it can."""


@dataclass(frozen=True)
class Claims:
    """All claims of a repository; `conflicts` describes how its files disagree."""

    claims: tuple[Claim, ...]
    conflicts: tuple[str, ...]


Declared = tuple[str | None, list[tuple[str, str]]]
"""A relation, and each base with the problem of its name, empty for none."""


@dataclass(frozen=True)
class ClaimSource:
    """One file of a repository in which bases are declared."""

    file: str
    declares: Callable[[RepoRef], Declared]
    """Returns what the file declares; raises CheckpointError if it cannot be parsed."""


def read_claims(repo: RepoRef) -> Claims:
    """Return what a repository declares in any of its files; raise CheckpointError if one cannot be parsed."""
    declared = {source.file: source.declares(repo) for source in SOURCES}
    claims: dict[str, Claim] = {}
    for file, (relation, bases) in declared.items():
        for base, problem in dict.fromkeys(bases):
            claim = claims.get(base, Claim(base, relation, (), problem))
            claims[base] = Claim(base, claim.relation or relation, (*claim.sources, file), problem)
    if len(claims) > MOST_CLAIMS:
        raise CheckpointError(f"{repo} declares {len(claims)} bases; name those to check with --base")
    by_file = {file: sorted({base for base, _ in bases}) for file, (_, bases) in declared.items() if bases}
    agree = len({tuple(bases) for bases in by_file.values()}) <= 1
    conflicts = () if agree else ("; ".join(f"{file} declares {', '.join(bases)}" for file, bases in by_file.items()),)
    return Claims(tuple(claims.values()), conflicts)


def _in_card(repo: RepoRef) -> Declared:
    metadata = _front_matter(repo)
    relation = _text(metadata.get("base_model_relation"))
    return relation and printable(relation, 40), list(_bases(metadata.get("base_model")))


def _in_adapter(repo: RepoRef) -> Declared:
    config = repo.read_json(LORA_CONFIG, LARGEST) or {}
    return "adapter", list(_bases(config.get("base_model_name_or_path")))


def _in_merge(repo: RepoRef) -> Declared:
    config = _yaml(repo, MERGE_CONFIG, repo.read_text(MERGE_CONFIG, LARGEST))
    return "merge", list(dict.fromkeys(_merged(config)))


SOURCES = [ClaimSource(CARD, _in_card), ClaimSource(LORA_CONFIG, _in_adapter), ClaimSource(MERGE_CONFIG, _in_merge)]
"""In the order of reports; if several files declare one base, the first relation counts."""


def _front_matter(repo: RepoRef) -> dict[str, Any]:
    """The metadata of the model card, empty if there is none."""
    _, lines = parted(repo.read_head(CARD, LARGEST) or "")
    start, stop = front_matter(lines) or (0, 0)
    if not stop and opens(lines):
        raise CheckpointError(
            f"{repo}: the metadata at the top of {CARD} does not end in a line of --- within "
            f"{LARGEST >> 20} MiB; end it with one"
        )
    return _yaml(repo, CARD, "\n".join(line.rstrip() for line in lines[start:stop]))


def _yaml(repo: RepoRef, file: str, text: str | None) -> dict[str, Any]:
    """Mappings and lists of plain text, which is enough for names and safe for untrusted input."""
    try:
        content = plain_yaml.load(text or "")
    except yaml.YAMLError as error:
        line = plain_yaml.line(error)
        where = f", line {line} of its YAML" if line else ""
        what = plain_yaml.problem(error)
        raise CheckpointError(f"{repo}: {file}{where}: {what}; correct it, or name the base with --base") from None
    if not content:
        return {}
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{repo}: {file} holds a {type(content).__name__} where keys and values belong; correct it"
        )
    return content


def _text(value: object) -> str | None:
    """A value without surrounding spaces; None if it is not text, or means that there is no value."""
    return value.strip() if isinstance(value, str) and value.strip() not in NULL else None


def _bases(value: object) -> Iterator[tuple[str, str]]:
    """Each declared base with the problem it has, if any."""
    for entry in value if isinstance(value, list) else [value]:
        name = _text(entry)
        if name is not None and name.isprintable() and not _NUMBER.fullmatch(name):
            yield name, ""
        elif name is not None or not (entry is None or isinstance(entry, str)):
            shown = printable(name or type(entry).__name__, 200)
            yield shown, f"base_model must be a model name such as org/model, not {shown}"


def _merged(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The parents in a mergekit configuration: `base_model`, `models`, and the `sources` of `slices`."""
    yield from _model_name(config.get("base_model"))
    for entry in _entries(config.get("models")):
        yield from _model_name(entry.get("model"))
    for piece in _entries(config.get("slices")):
        for entry in _entries(piece.get("sources")):
            yield from _model_name(entry.get("model"))


def _entries(value: object) -> Iterator[dict[str, Any]]:
    yield from (entry for entry in (value if isinstance(value, list) else []) if isinstance(entry, dict))


def _model_name(value: object) -> Iterator[tuple[str, str]]:
    """What mergekit writes: `org/model`, `org/model+org/lora`, or the parts as a mapping."""
    if isinstance(value, dict):
        value = value.get("path") or value.get("model")
        value = value.get("path") if isinstance(value, dict) else value
    for base, problem in _bases(value):
        yield base.split("+", 1)[0], problem
