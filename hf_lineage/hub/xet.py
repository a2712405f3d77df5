"""Xet: how the Hub stores a large file, as ranges of chunks in larger objects.

The chunks of a range hold the same bytes in whatever file they occur. So two files whose ranges meet have these bytes
in common, which is known before any of them is downloaded. That they have no range in common says nothing.

The requests are those of https://huggingface.co/docs/xet/api: a token for a repository, and the terms of a file, in the
published form (`/v1/reconstructions`) or in that of newer clients (`/v2/reconstructions`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec

from hf_lineage.hub import client

LARGEST_ANSWER = 2**24
"""Bytes: of a file of 50 GB with many small ranges."""
PATIENCE = 8.0
"""Seconds for all answers; without them the weights are read, so that waiting longer gains nothing."""
VERSIONS = ("v2", "v1")
"""Forms of the answer, the newest first."""
AT_ONCE = 8

HASH = re.compile("[0-9a-fA-F]{64}")
Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**32)]


class Chunks(msgspec.Struct, frozen=True):
    """Which chunks of an object: those from `start` up to the one before `end`."""

    start: Count
    end: Count


class Term(msgspec.Struct, frozen=True):
    """Bytes of a file: some chunks of a stored object, and how many bytes they hold unpacked."""

    hash: Hash
    unpacked_length: Annotated[int, msgspec.Meta(ge=1, le=2**50)]
    range: Chunks


class _Answer(msgspec.Struct, frozen=True):
    terms: tuple[Term, ...]
    offset_into_first_range: Count = 0


class _Access(msgspec.Struct, frozen=True):
    address: str = msgspec.field(name="casUrl")
    token: Annotated[str, msgspec.Meta(max_length=2**14)] = msgspec.field(name="accessToken")


@dataclass(eq=False)
class Stored:
    """A file at a commit of a repository, as the Hub stores it, and what it told of it so far."""

    repo: str
    commit: str
    hash: str
    """Its Xet hash, of the form HASH."""
    size: int
    """Bytes."""
    terms: tuple[Term, ...] | None = None
    """In the order of its bytes; None before they are asked for, and empty where the Hub told none that fit."""


def ask_terms(files: Iterable[Stored]) -> None:
    """Ask the Hub for the terms of those files of which it was not asked before, all at once.

    Of a file about which the Hub tells nothing in time, or something that does not fit, there are none.
    """
    ends = time.monotonic() + PATIENCE
    unasked = [file for file in files if file.terms is None]
    repositories = sorted({(file.repo, file.commit) for file in unasked})
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="xet") as pool:
        granted = pool.map(lambda one: _access(one[0], one[1], ends), repositories)
        access = dict(zip(repositories, granted, strict=True))
        answers = pool.map(lambda file: _terms(access[file.repo, file.commit], file, ends), unasked)
        for file, terms in zip(unasked, answers, strict=True):
            file.terms = terms


def _access(name: str, commit: str, ends: float) -> _Access | None:
    """Where the chunks of a repository are listed, and the token for it, which holds for some minutes."""
    from huggingface_hub import constants

    address = f"{constants.ENDPOINT}/api/models/{quote(name)}/xet-read-token/{quote(commit, safe='')}"
    answer: _Access | None = _answer(address, client.headers(address), _Access, ends)
    if answer is None or urlsplit(answer.address).scheme not in {"https", urlsplit(constants.ENDPOINT).scheme}:
        return None
    return answer


def _terms(access: _Access | None, file: Stored, ends: float) -> tuple[Term, ...]:
    if access is None:
        return ()
    headers = {"Authorization": f"Bearer {access.token}"}
    for version in VERSIONS:
        address = f"{access.address.rstrip('/')}/{version}/reconstructions/{file.hash}"
        answer = _answer(address, headers, _Answer, ends)
        if answer is not None:
            whole = sum(term.unpacked_length for term in answer.terms) == file.size
            ordered = all(term.range.start < term.range.end for term in answer.terms)
            return answer.terms if whole and ordered and not answer.offset_into_first_range else ()
    return ()


def _answer(address: str, headers: dict[str, str], form: type[Any], ends: float) -> Any:
    """The answer to one request, in the form that is expected; None for a refusal, or for any other answer."""
    from huggingface_hub.utils import get_session, httpx  # type: ignore[attr-defined]

    try:
        left = max(0.1, ends - time.monotonic())
        with get_session().stream("GET", address, headers=headers, timeout=left) as response:
            content = b"".join(_bounded(response.iter_bytes(), ends)) if response.status_code == 200 else b""
        return msgspec.json.decode(content, type=form)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, RecursionError):
        return None


def _bounded(chunks: Iterator[bytes], ends: float) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > LARGEST_ANSWER or time.monotonic() > ends:
            raise ValueError("the answer is too long, or comes too slowly")
        yield chunk
