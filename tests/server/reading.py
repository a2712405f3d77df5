"""The routes that read: the models of an author, who a model is, which files it has, and the files themselves."""

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from tests.server.hub import Answer, Hub, Request, Route, json_answer, refusal, route

# What is on the CDN, as the Hub's own .gitattributes says.
LARGE = frozenset({".safetensors", ".bin", ".gguf", ".onnx", ".onnx_data", ".pt", ".pth", ".ckpt"})
_API = r"hub/api/(models|datasets)"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def _found(told: Callable[[Hub, Request, dict[str, str], Path, str], Answer]) -> Route:
    """A route that tells something of a model, given its folder and commit; where there is none, it says why."""

    def answered(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
        name, revision, file = asked["name"], asked["revision"] or "main", "file" in asked
        if name in hub.renamed:
            return Answer(307, headers={"Location": request.target.replace(name, hub.renamed[name], 1)})
        status, code = hub.refused.get(name, (0, ""))
        if status and (code != "GatedRepo" or file):
            return refusal(status, code)
        if name not in hub.published:
            return refusal(404, "RepoNotFound")
        if revision not in hub.published[name]:
            return refusal(404, "RevisionNotFound")
        return told(hub, request, asked, hub.published[name][revision], hub.commit(name, revision))

    return answered


@route("GET HEAD", rf"{_API}/(?P<name>[^/]+(/(?!revision/|tree/)[^/]+)?)(/revision/(?P<revision>[^/]+))?")
@_found
def info(hub: Hub, request: Request, asked: dict[str, str], folder: Path, commit: str) -> Answer:
    siblings = [{"rfilename": file.relative_to(folder).as_posix()} for file in paths(folder)]
    named = {"_id": "0", "id": asked["name"], "modelId": asked["name"], "lastModified": hub.dates.get(asked["name"])}
    return json_answer(named | {"sha": commit, "private": False, "siblings": siblings})


@route("GET HEAD", rf"{_API}/(?P<name>.+?)/tree/(?P<revision>[^/]+)(/(?P<under>.+))?")
@_found
def tree(hub: Hub, request: Request, asked: dict[str, str], folder: Path, commit: str) -> Answer:
    under, deep = folder / asked["under"], request.query.get("recursive", "").casefold() == "true"
    files = [file for file in paths(folder) if (file.is_relative_to(under) if deep else file.parent == under)]
    return json_answer([_entry(folder, file) for file in files]) if files else refusal(404, "EntryNotFound", commit)


@route("POST", rf"{_API}/(?P<name>.+?)/paths-info/(?P<revision>[^/]+)")
@_found
def paths_info(hub: Hub, request: Request, asked: dict[str, str], folder: Path, commit: str) -> Answer:
    files = [folder / path for path in parse_qs(request.body.decode())["paths"]]
    return json_answer([_entry(folder, file) for file in files if file.is_file()])


@route("GET HEAD", r"hub/(datasets/)?(?P<name>.+?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
@_found
def resolve(hub: Hub, request: Request, asked: dict[str, str], folder: Path, commit: str) -> Answer:
    file = folder / asked["file"]
    if not file.is_file():
        return refusal(404, "EntryNotFound", commit)
    if file.suffix not in LARGE:
        whole = file.read_bytes()
        return _part(file, request, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(whole).hexdigest()}"'})
    linked = {"X-Linked-Size": str(file.stat().st_size), "X-Linked-ETag": f'"{sha256(file)}"'}
    address = f"{hub.cdn}/{quote(asked['name'])}/{commit}/{quote(asked['file'])}?signature={hub.signature}"
    return Answer(302, headers=linked | {"X-Repo-Commit": commit, "Location": address})


@route("GET", r"cdn/(?P<name>.+?)/(?P<revision>[0-9a-f]{40})/(?P<file>.+)")
def cdn(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
    """A large file, or a part of it, for whoever has a signature that has not expired."""
    if request.query.get("signature") != str(hub.signature):
        return Answer(403)
    file = hub.published[asked["name"]][asked["revision"]] / asked["file"]
    return _part(file, request, {"ETag": f'"{sha256(file)}"'})


@route("GET", r"hub/api/models")
def models(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
    """A page of the models of an author, the latest change first, with a link to the next; no private ones."""
    query = parse_qs(urlsplit(request.target).query)
    if query.get("sort") != ["lastModified"] or query.get("expand") != ["sha"]:
        return refusal(400, "BadRequest")
    (author,), start = query["author"], int(query.get("cursor", ["0"])[0])
    private = {name for name, (_, code) in hub.refused.items() if code == "RepoNotFound"}
    names = [name for name in hub.published if name.startswith(f"{author}/") and name not in private]
    names.sort(key=lambda name: hub.dates[name], reverse=True)
    page = [{"_id": "0", "id": name, "sha": hub.commit(name, "main")} for name in names[start : start + hub.page]]
    said = json_answer(page + hub.odd)
    if start + hub.page < len(names):
        following = urlencode(query | {"cursor": [start + hub.page]}, doseq=True)
        said.headers["Link"] = f'<{hub.url}/api/models?{following}>; rel="next"'
    return said


def paths(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def sha256(file: Path) -> str:
    found = file.stat()
    return _sha256(file, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=4096)
def _sha256(file: Path, _changed: int, _size: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _part(file: Path, request: Request, headers: dict[str, str]) -> Answer:
    """The range that was asked for, or the whole file."""
    size, asked = file.stat().st_size, _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None:
        return Answer(200, file.read_bytes(), headers, file)
    start, stop = int(asked[1]), min(int(asked[2] or size) + 1, size)
    if start >= stop:
        return Answer(416, headers={"Content-Range": f"bytes */{size}"})
    with file.open("rb") as stream:
        stream.seek(start)
        body = stream.read(stop - start)
    return Answer(206, body, headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}, file)


def _entry(folder: Path, file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    large = {"lfs": {"oid": sha256(file), "size": size, "pointerSize": 134}} if file.suffix in LARGE else {}
    path = file.relative_to(folder).as_posix()
    oid = hashlib.sha1(sha256(file).encode() if large else file.read_bytes()).hexdigest()
    return {"type": "file", "oid": oid, "size": size, "path": path, **large}
