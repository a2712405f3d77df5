"""Releases: which models somebody publishes on the Hub, at which commit, and when they last changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from hf_lineage.errors import NetworkError, RepositoryError, printable
from hf_lineage.hub import client
from hf_lineage.hub.addresses import hub_name

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

MOST_LISTED = 50_000
"""Models of one author: fifty pages of the Hub."""
_WANTED: Any = ["sha", "lastModified"]
_QUERY = {"sort": "lastModified", "expand": _WANTED}


@dataclass(frozen=True)
class Release:
    """A model as it stands on the Hub: its name today, its commit, and when it last changed."""

    watched: str
    """The author or the model that was asked for."""
    model: str
    commit: str
    changed: datetime


@dataclass(frozen=True)
class Listing:
    """What an author published, the latest first, and a sentence about each listed entry that cannot be a model."""

    releases: tuple[Release, ...]
    problems: tuple[str, ...]


def since(author: str, moment: datetime | None) -> Listing:
    """Return the models of an author that changed at a moment or later, all of them without one.

    The Hub lists the latest first, so only the pages with such models are requested. Raise RepositoryError if
    the author has no models or too many, or can be none by the name, NetworkError if the Hub cannot be reached or its
    answer has another form.
    """
    from hf_lineage.hub.translation import access

    if hub_name(author) != author or "/" in author:
        raise RepositoryError(f"{printable(author, 200)} is not the name of an account on the Hub; check it")

    releases, problems, seen = [], [], 0
    for seen, info in enumerate(_latest(author), 1):
        if moment is not None and info.last_modified is not None and info.last_modified < moment:
            break
        if seen > MOST_LISTED:
            raise RepositoryError(f"{author} has more than {MOST_LISTED} models that changed; give a later --since")
        try:
            releases.append(_release(author, info))
        except NetworkError as error:
            problems.append(str(error))
    if not seen:
        raise RepositoryError(f"{author} has no public models on the Hub; check the name, or {access()}")
    return Listing(tuple(releases), tuple(problems))


def current(model: str) -> Release:
    """Return a model as it stands on the Hub now; raise as `since` does."""
    from huggingface_hub import HfApi

    return client.ask(model, lambda: _release(model, HfApi().model_info(model, expand=_WANTED)), request="listing")


def _latest(author: str) -> Iterator[ModelInfo]:
    """The models of an author, the latest first, page by page.

    The client's own `list_models` is silent for 25 seconds where there is no network. A page without models is the
    last, whatever it names as the next, so that the number of models bounds the requests.
    """
    from huggingface_hub import constants

    address = f"{constants.ENDPOINT}/api/models?{urlencode({'author': author} | _QUERY, doseq=True)}"
    while address:
        models, following = client.ask(author, partial(_page, address), request="listing")
        yield from models
        address = following if models else ""


def _page(address: str) -> tuple[list[ModelInfo], str]:
    """The models of one page, and the address of the next one, if there is one."""
    from huggingface_hub import ModelInfo

    answer = client.answered(address)
    models = [ModelInfo(**model) for model in answer.json()]  # type: ignore[no-untyped-call]
    return models, answer.links.get("next", {}).get("url", "")


def _release(watched: str, info: ModelInfo) -> Release:
    """The model that an answer describes; NetworkError if it cannot be one."""
    name, commit, changed = info.id, info.sha, info.last_modified
    valid = isinstance(name, str) and name.isascii() and "/" in name and hub_name(name) == name
    if not (valid and isinstance(commit, str) and client.COMMIT.fullmatch(commit) and changed):
        raise NetworkError(
            f"{watched}: the Hub lists {printable(name, 200)} at commit {printable(commit, 50)}, changed "
            f"{printable(changed, 50)}, which cannot be a model; it is left out"
        )
    return Release(watched, name, commit, changed)
