"""Claims: what a repository says about its ancestry, and which of its files says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from hf_lineage import plain_yaml
from hf_lineage.card import front_matter, opens, parted
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.repo import RepoRef

CARD, LORA_CONFIG, MERGE_CONFIG = "README.md", "adapter_config.json", "mergekit_config.yml"
LARGEST = 2**20
"""Bytes of a configuration, and of a card that are looked at: one with pictures is longer, its metadata is not."""
MOST_CLAIMS = 100
"""Each may be a download."""
NULL = frozenset({"", "~", "null", "Null", "NULL"})
"""How YAML writes that there is no value."""
_NUMBER = re.compile(r"[-+]?[\d_.]+")


@dataclass(frozen=True)
class Claim:
    """What a repository says: that its base is `base`, by which relation, and every file that says so."""

    base: str
    relation: str | None
    sources: tuple[str, ...]
    problem: str = ""
    """Why the claim cannot be followed; empty if it can."""


@dataclass(frozen=True)
class Claims:
    """Everything a repository declares; `conflicts` says where its files disagree."""

    claims: tuple[Claim, ...]
    conflicts: tuple[str, ...]


def read_claims(repo: RepoRef) -> Claims:
    """Return what a repository declares in its card, its LoRA adapter's and its merge's configuration.

    Raise CheckpointError if one of these files cannot be parsed.
    """
    card = _front_matter(repo)
    relation = _said(card.get("base_model_relation"))
    declared = {
        CARD: (relation and printable(relation, 40), list(_bases(card.get("base_model")))),
        LORA_CONFIG: (
            "adapter",
            list(_bases((repo.read_json(LORA_CONFIG, LARGEST) or {}).get("base_model_name_or_path"))),
        ),
        MERGE_CONFIG: (
            "merge",
            list(dict.fromkeys(_merged(_yaml(repo, MERGE_CONFIG, repo.read_text(MERGE_CONFIG, LARGEST))))),
        ),
    }
    claims: dict[str, Claim] = {}
    for file, (relation, bases) in declared.items():
        for base, problem in dict.fromkeys(bases):
            known = claims.get(base, Claim(base, relation, (), problem))
            claims[base] = Claim(base, known.relation or relation, (*known.sources, file), problem)
    if len(claims) > MOST_CLAIMS:
        raise CheckpointError(f"{repo} declares {len(claims)} bases; name those to check with --base")
    said = {file: sorted({base for base, _ in bases}) for file, (_, bases) in declared.items() if bases}
    agree = len({tuple(bases) for bases in said.values()}) <= 1
    conflicts = () if agree else ("; ".join(f"{file} declares {', '.join(bases)}" for file, bases in said.items()),)
    return Claims(tuple(claims.values()), conflicts)


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
    """Mappings and lists of plain text: names are all that is wanted, and a hostile file can ask for nothing more."""
    try:
        content = plain_yaml.load(text or "")
    except yaml.YAMLError as error:
        line = plain_yaml.line(error)
        where = f", line {line} of its YAML" if line else ""
        what = plain_yaml.problem(error)
        raise CheckpointError(f"{repo}: {file}{where}: {what}; mend it, or name the base with --base") from None
    if not content:
        return {}
    if not isinstance(content, dict):
        raise CheckpointError(f"{repo}: {file} holds a {type(content).__name__} where keys and values belong; mend it")
    return content


def _said(value: object) -> str | None:
    """A value that is text."""
    return value.strip() if isinstance(value, str) and value.strip() not in NULL else None


def _bases(value: object) -> Iterator[tuple[str, str]]:
    """Each declared base with the problem it has, if any."""
    for entry in value if isinstance(value, list) else [value]:
        name = _said(entry)
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
