"""The routes that tell of which stored chunks a file is made, as the storage behind the Hub does (Xet)."""

import functools
import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.server.answers import Answer, Request, json_answer, refusal, route
from tests.server.hub import Hub

TOKEN = "chunks"
"""What gives access to the storage."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@route("GET", r"hub/api/models/(?P<name>.+?)/xet-read-token/(?P<revision>[^/]+)")
def token(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
    """Where the storage is, and what gives access to it."""
    if not hub.chunk or asked["revision"] not in hub.published.get(asked["name"], {}):
        return refusal(404, "RepoNotFound")
    return json_answer({"casUrl": hub.cdn, "exp": 2**31, "accessToken": TOKEN})


@route("GET", r"cdn/(?P<form>v1|v2)/reconstructions/(?P<hash>[0-9a-f]{64})")
def reconstruction(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
    """Of which chunks a file is made."""
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return Answer(401)
    if asked["form"] in hub.unknown_forms:
        return Answer(404)
    folders = {folder for revisions in hub.published.values() for folder in revisions.values()}
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    stored = _stored(tuple((file, file.stat().st_mtime_ns) for file in files), hub.chunk)
    if asked["hash"] not in stored:
        return Answer(404)
    fetched: dict[str, Any] = {"xorbs": {}} if asked["form"] == "v2" else {"fetch_info": {}}
    return json_answer({"offset_into_first_range": 0, "terms": stored[asked["hash"]], **fetched})


def xet_hash(file: Path) -> str:
    """The name of a content in the storage, which is another one than its SHA-256."""
    return hashlib.sha3_256(file.read_bytes()).hexdigest()


@functools.lru_cache(maxsize=4)
def _stored(files: tuple[tuple[Path, int], ...], size: int) -> dict[str, list[dict[str, Any]]]:
    """The terms of each file: of chunks that were stored before, and of one new object with its other chunks."""
    known: dict[bytes, tuple[str, int, int]] = {}
    stored = {}
    for file, _ in files:
        name, numbers, places = xet_hash(file), itertools.count(), []
        for chunk in chunks(file.read_bytes(), size):
            digest = hashlib.sha256(chunk).digest()
            if digest not in known:
                known[digest] = name, next(numbers), len(chunk)
            places.append(known[digest])
        stored[name] = list(_terms(places))
    return stored


def _terms(places: list[tuple[str, int, int]]) -> Iterator[dict[str, Any]]:
    """Chunks that follow each other in one object become one term."""
    runs = itertools.groupby(enumerate(places), key=lambda one: (one[1][0], one[1][1] - one[0]))
    for _, run in runs:
        own = [place for _, place in run]
        end = own[-1][1] + 1
        length = sum(place[2] for place in own)
        yield {"hash": own[0][0], "unpacked_length": length, "range": {"start": own[0][1], "end": end}}


def chunks(content: bytes, size: int) -> list[bytes]:
    """A content in pieces that end where its last eight bytes say so, from an eighth of a size to twice as long."""
    windows = np.ndarray((max(0, len(content) - 7),), "<u8", content, strides=(1,))
    ends = 8 + np.flatnonzero(windows * MULTIPLIER < np.uint64(2**64 // size))
    cuts = [0]
    for end in [*map(int, ends), len(content)]:
        while end - cuts[-1] > 2 * size:
            cuts.append(cuts[-1] + 2 * size)
        if end - cuts[-1] >= size // 8 or (end == len(content) and end > cuts[-1]):
            cuts.append(end)
    return [content[start:stop] for start, stop in itertools.pairwise(cuts)]
