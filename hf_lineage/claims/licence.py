"""Licence: what a model card says a model is licensed under. It is the author's word, and nothing here judges it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from hf_lineage.claims.card import front_matter, parted
from hf_lineage.claims.names import NO_VALUE
from hf_lineage.errors import LineageError, printable
from hf_lineage.files import plain_yaml
from hf_lineage.hub import RepoRef

CARD = "README.md"
LARGEST = plain_yaml.SHORT
"""Bytes at the beginning of a card in which its metadata have to end; those of any card on the Hub do."""
TEXT, NOTICE = "LICENSE", "NOTICE"
FILES = {
    TEXT: re.compile(r"(licen[cs]e|copying)([-_.].*)?", re.IGNORECASE),
    NOTICE: re.compile(r"(.*[-_.])?notices?([-_.].*)?", re.IGNORECASE),
}
"""The files that a licence may ask to be passed on, by their usual names: its text, and a note on the origin."""
ASKING = {
    TEXT: re.compile(r"\b(mit|apache|bsd|isc|[al]?gpl|llama|gemma|qwen|tongyi|deepseek|\w*rail)"),
    NOTICE: re.compile(r"\b(llama|gemma|qwen|tongyi)"),
}
"""Licences that ask for such a file, by how a card spells them."""
_PAGE = re.compile(r"https://[A-Za-z0-9.-]+(/[A-Za-z0-9._~/%#?=&+@-]*)?")
LONGEST, MOST = 200, 10
"""Characters of one value, and licences of one card, that are shown."""


@dataclass(frozen=True)
class Licence:
    """What `license`, `license_name` and `license_link` of a card say, each on one printable line; empty if nothing."""

    identifier: str
    """As the Hub spells it, such as apache-2.0, or other."""
    name: str = ""
    link: str = ""

    def __str__(self) -> str:
        more = ", ".join(filter(None, (self.name, self.link)))
        return " ".join(filter(None, (self.identifier, f"({more})" if more else "")))

    @property
    def page(self) -> str:
        """The address of its text, empty where the link is none of the web."""
        return self.link if _PAGE.fullmatch(self.link) else ""

    @property
    def asks(self) -> frozenset[str]:
        """The kinds of files that it is known to ask for."""
        words = f"{self.identifier} {self.name}".casefold()
        return frozenset(kind for kind, licences in ASKING.items() if licences.search(words))

    @property
    def words(self) -> frozenset[str]:
        """The licences that it is, in lower case: each of those in a list, and `other` by the name that is given."""
        named = self.name if self.identifier.casefold() in ("", "other") else self.identifier
        return frozenset(word for one in named.casefold().split(",") if (word := one.strip()))

    def differs(self, other: Licence) -> bool:
        """Return whether another one is stated in other words; a link may be to a copy."""
        mine, others = ((one.identifier.casefold(), one.name.casefold()) for one in (self, other))
        return mine != others


@dataclass(frozen=True)
class Ancestor:
    """A base that the weights bear out, or one behind it, with its licence and what this asks of the model."""

    name: str
    declared_by: str = ""
    """The model of which a file declares it; empty where none does, and somebody else named it."""
    licence: Licence | None = None
    missing: tuple[str, ...] = ()
    """The kinds of FILES that its licence asks for, or that it has, and that the model does not have."""
    verdict: str = ""
    """What its weights say of the model, in words; empty if they were not compared."""
    problem: str = ""
    """Why nothing was read of it; empty if it was read."""


def licence_files(repo: RepoRef) -> frozenset[str]:
    """Return the kinds of FILES that are at the root of a repository, by their names alone."""
    names = replace(repo, subfolder="").files()
    return frozenset(kind for kind, pattern in FILES.items() if any(map(pattern.fullmatch, names)))


def stated(source: object) -> Licence | None:
    """Return the licence that the card of a repository states; None without one, or where its card cannot be read.

    Only the file that is here already is read: nothing is fetched for it.
    """
    if not isinstance(source, RepoRef):
        return None
    try:
        text = replace(source, subfolder="").read_head(CARD, LARGEST) or ""
        _, lines = parted(text)
        start, stop = front_matter(lines) or (0, 0)
        metadata = plain_yaml.load("\n".join(line.rstrip() for line in lines[start:stop]))
    except (LineageError, OSError, yaml.YAMLError):
        return None
    return _licence(metadata) if isinstance(metadata, Mapping) else None


def _licence(metadata: Mapping[str, Any]) -> Licence | None:
    licence = Licence(*(_text(metadata.get(key)) for key in ("license", "license_name", "license_link")))
    return licence if licence.identifier or licence.name or licence.link else None


def _text(value: object) -> str:
    """A value as it is shown: a text, or the texts of a list."""
    values = value[:MOST] if isinstance(value, list) else [value]
    texts = (text.strip() for text in values if isinstance(text, str))
    return printable(", ".join(text for text in texts if text not in NO_VALUE), LONGEST)
