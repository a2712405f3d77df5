"""What a Hub answers to those who write: accounts, commits, and pull requests, on top of the folders it serves."""

import base64
import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.server.hub import Answer, Hub, Request, json_answer, refusal, route
from tests.server.reading import LARGE

_REPO = r"hub/api/models/(?P<name>[^/]+/[^/]+)"


@dataclass
class Commits:
    """The writing side of a Hub; `attach` makes the server answer for it."""

    hub: Hub
    room: Path  # where the folders of new commits go
    account: str | None = "wren"  # who the token belongs to; None refuses it
    proposals: list[dict[str, Any]] = field(default_factory=list)  # discussions as the Hub lists them, from number 1
    invalid: str = ""  # what is wrong with every card, as the Hub would say it
    refusal: int = 0  # the status that every commit is answered with
    uploaded: dict[str, bytes] = field(default_factory=dict)  # large files by their digest
    made: list[tuple[str, str, list[str]]] = field(
        default_factory=list
    )  # repository, revision and files of each commit

    def attach(self) -> "Commits":
        self.hub.commits = self
        return self

    def file(self, name: str, revision: str, file: str) -> bytes:
        return (self.hub.published[name][revision] / file).read_bytes()

    def push(self, name: str, revision: str, files: dict[str, bytes]) -> str:
        old = self.hub.published[name][revision]
        parent = self.hub.commit(name, revision)
        changed = [(file, hashlib.sha1(content).hexdigest()) for file, content in sorted(files.items())]
        commit = hashlib.sha1(repr((name, parent, changed)).encode()).hexdigest()
        shutil.copytree(old, self.room / commit)
        for file, content in files.items():
            (self.room / commit / file).parent.mkdir(parents=True, exist_ok=True)
            (self.room / commit / file).write_bytes(content)
        self.hub.published[name] |= {revision: self.room / commit, commit: self.room / commit}
        return commit

    def propose(self, name: str, author: str, title: str, status: str = "open", pull_request: bool = True) -> int:
        """List a discussion and return its number; a pull request begins where main stands."""
        number = len(self.proposals) + 1
        who = {"author": {"name": author}, "repo": {"name": name, "type": "model"}}
        what = {"num": number, "title": title, "createdAt": "2026-11-01T00:00:00.000Z", "status": status}
        self.proposals.append({**who, **what, "isPullRequest": pull_request})
        if pull_request:
            self.hub.published[name][f"refs/pr/{number}"] = self.hub.published[name]["main"]
        return number

    def commit(self, name: str, revision: str, query: dict[str, str], body: bytes) -> Answer:
        if self.refusal:
            return json_answer({"error": "refused"}, self.refusal)
        if revision not in self.hub.published[name]:
            return json_answer({"error": "Invalid rev id"}, 404)
        sent: dict[str, list[dict[str, str]]] = {"file": [], "lfsFile": []}
        for line in map(json.loads, body.splitlines()):
            sent.setdefault(line["key"], []).append(line["value"])
        (header,) = sent["header"]
        files = {file["path"]: base64.b64decode(file["content"]) for file in sent["file"]}
        files |= {file["path"]: self.uploaded[file["oid"]] for file in sent["lfsFile"]}
        if query.get("create_pr"):
            revision = f"refs/pr/{self.propose(name, str(self.account), header['summary'])}"
            self.hub.published[name][revision] = self.hub.published[name][header["parentCommit"]]
        elif header["parentCommit"] != self.hub.commit(name, revision):
            return json_answer({"error": "The parent commit is not the head of the branch"}, 412)
        commit = self.push(name, revision, files)
        self.made.append((name, revision, sorted(files)))
        done = {"commitOid": commit, "commitUrl": f"{self.hub.url}/{name}/commit/{commit}", "success": True}
        return json_answer(done | {"pullRequestUrl": f"{self.hub.url}/{name}/discussions/{len(self.proposals)}"})


def _commits(hub: Hub) -> Commits:
    return hub.commits or Commits(hub, Path(), account=None)


@route("GET", r"hub/api/whoami-v2")
def whoami(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    account = _commits(hub).account
    return json_answer({"name": account, "type": "user"}) if account else json_answer({"error": "Invalid token"}, 401)


@route("POST", r"hub/api/validate-yaml")
def validate(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    invalid = _commits(hub).invalid
    errors = [{"message": invalid}] if invalid else []
    warnings = [{"message": "empty or missing yaml metadata"}]
    return json_answer({"errors": errors, "warnings": warnings}, 400 if errors else 200)


@route("POST", rf"{_REPO}/preupload/(?P<revision>.+)")
def preupload(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    paths = [file["path"] for file in json.loads(request.body)["files"]]
    modes = {path: "lfs" if Path(path).suffix in LARGE else "regular" for path in paths}
    files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
    return json_answer({"files": files})


@route("POST", r"hub/(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
def batch(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    """Where large files are sent to, those that are not there yet."""
    objects = json.loads(request.body)["objects"]
    for each in objects:
        if each["oid"] not in _commits(hub).uploaded:
            each["actions"] = {"upload": {"href": f"{hub.cdn}/upload/{each['oid']}"}}
    return json_answer({"transfer": "basic", "objects": objects})


@route("PUT", r"cdn/upload/(?P<oid>[0-9a-f]{64})")
def upload(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    assert hashlib.sha256(request.body).hexdigest() == named["oid"]
    _commits(hub).uploaded[named["oid"]] = request.body
    return Answer(200)


@route("GET", rf"{_REPO}/discussions")
def discussions(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    """The filters are ignored on purpose: whoever asks has to look at what comes back. One on each page."""
    page, proposals = int(request.query["p"]), _commits(hub).proposals
    return json_answer({"discussions": proposals[page : page + 1], "count": len(proposals), "start": page})


@route("POST", rf"{_REPO}/commit/(?P<revision>.+)")
def commit(hub: Hub, request: Request, named: dict[str, str]) -> Answer:
    if hub.commits is None:
        return refusal(401, "")
    return hub.commits.commit(named["name"], named["revision"], request.query, request.body)
