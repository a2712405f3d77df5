"""What a Hub answers to those who write: accounts, commits, and pull requests, on top of the folders it serves."""

import base64
import hashlib
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hub import Hub, Route

Answer = tuple[int, Any]
_REPO = r"/api/models/(?P<name>[^/]+/[^/]+)"


@dataclass
class Commits:
    """The writing side of a Hub; `attach` makes the server answer for it."""

    hub: Hub
    room: Path
    """Where the folders of new commits go."""
    account: str | None = "wren"
    """Who the token belongs to; None refuses it."""
    proposals: list[dict[str, Any]] = field(default_factory=list)
    """Discussions as the Hub lists them, the first is number 1."""
    invalid: str = ""
    """What is wrong with every card, as the Hub would say it."""
    refusal: int = 0
    """The status that every commit is answered with."""
    made: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """Each commit: repository, revision, and the files in it."""

    def attach(self) -> "Commits":
        answers = {
            ("GET", r"/api/whoami-v2"): self._whoami,
            ("POST", r"/api/validate-yaml"): self._validate,
            ("POST", rf"{_REPO}/preupload/(?P<revision>.+)"): self._preupload,
            ("POST", rf"{_REPO}/commit/(?P<revision>.+)"): self._commit,
            ("GET", rf"{_REPO}/discussions"): self._discussions,
        }
        routes: list[Route] = [(method, re.compile(path), answer) for (method, path), answer in answers.items()]
        self.hub.routes += routes
        return self

    def file(self, name: str, revision: str, file: str) -> bytes:
        """The content of a file at a revision."""
        return (self.hub.published[name][revision] / file).read_bytes()

    def push(self, name: str, revision: str, files: dict[str, bytes]) -> str:
        """Commit as anybody would, and return the commit."""
        old = self.hub.published[name][revision]
        parent = self.hub.commit(name, revision)
        changed = [(file, hashlib.sha1(content).hexdigest()) for file, content in sorted(files.items())]
        commit = hashlib.sha1(repr((name, parent, changed)).encode()).hexdigest()
        shutil.copytree(old, self.room / commit)
        for file, content in files.items():
            (self.room / commit / file).parent.mkdir(exist_ok=True)
            (self.room / commit / file).write_bytes(content)
        self.hub.published[name] |= {revision: self.room / commit, commit: self.room / commit}
        return commit

    def propose(self, name: str, author: str, title: str, status: str = "open", pull_request: bool = True) -> int:
        """List a discussion and return its number; a pull request begins where main stands."""
        number = len(self.proposals) + 1
        self.proposals.append(
            {
                "num": number,
                "title": title,
                "author": {"name": author},
                "createdAt": "2026-11-01T00:00:00.000Z",
                "status": status,
                "repo": {"name": name, "type": "model"},
                "isPullRequest": pull_request,
            }
        )
        if pull_request:
            self.hub.published[name][f"refs/pr/{number}"] = self.hub.published[name]["main"]
        return number

    def _whoami(self, match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        return (200, {"name": self.account, "type": "user"}) if self.account else (401, {"error": "Invalid token"})

    def _validate(self, match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        errors = [{"message": self.invalid}] if self.invalid else []
        return 400 if errors else 200, {"errors": errors, "warnings": [{"message": "empty or missing yaml metadata"}]}

    def _preupload(self, match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        paths = [file["path"] for file in json.loads(body)["files"]]
        return 200, {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}

    def _discussions(self, match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        """The filters are ignored on purpose: whoever asks has to look at what comes back. One on each page."""
        page = int(query["p"])
        return 200, {"discussions": self.proposals[page : page + 1], "count": len(self.proposals), "start": page}

    def _commit(self, match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        name, revision = match["name"], match["revision"]
        if self.refusal:
            return self.refusal, {"error": "refused"}
        if revision not in self.hub.published[name]:
            return 404, {"error": "Invalid rev id"}
        lines = {line["key"]: line["value"] for line in map(json.loads, body.splitlines()) if line["key"] == "header"}
        parent = lines["header"]["parentCommit"]
        sent = [line["value"] for line in map(json.loads, body.splitlines()) if line["key"] == "file"]
        files = {file["path"]: base64.b64decode(file["content"]) for file in sent}
        if query.get("create_pr"):
            revision = f"refs/pr/{self.propose(name, str(self.account), lines['header']['summary'])}"
            self.hub.published[name][revision] = self.hub.published[name][parent]
        elif parent != self.hub.commit(name, revision):
            return 412, {"error": "The parent commit is not the head of the branch"}
        commit = self.push(name, revision, files)
        self.made.append((name, revision, sorted(files)))
        answer = {"commitOid": commit, "commitUrl": f"{self.hub.url}/{name}/commit/{commit}", "success": True}
        return 200, answer | {"pullRequestUrl": f"{self.hub.url}/{name}/discussions/{len(self.proposals)}"}
