"""A small Hub as plain values: requests and answers, what is published, what goes wrong, and what was asked for.

A table leads from a request to the function that answers it.
"""

import hashlib
import itertools
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.server.commits import Commits

FILE = re.compile(r"/(?P<name>.+?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
LARGE_FILE = re.compile(r"/(.+?)/[0-9a-f]{40}/(.+)")


@dataclass(frozen=True)
class Request:
    method: str
    target: str  # path and query as sent
    path: str  # still quoted: a slash in a revision is %2F
    query: dict[str, str]
    headers: dict[str, str]  # by lower-case name
    body: bytes
    place: str  # which server was asked: hub or cdn


@dataclass(frozen=True)
class Answer:
    """One answer; a fault makes another one of it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    file: Path | None = None  # what the body is a part of
    pause: float = 0  # seconds before anything is said
    cut: int | None = None  # the connection is closed after so many bytes of the body


Fault = Callable[[Answer], Answer]


@dataclass
class Planned:
    """A fault that meets some of the requests whose `METHOD place/path` holds a text."""

    fault: Fault
    where: str
    left: int
    skip: int = 0  # how many of them pass before


class Part(NamedTuple):
    file: str  # a large one of which bytes were sent, with the name of its repository before it
    start: int
    stop: int


@dataclass
class Hub:
    """A Hub whose tests may look behind the counter."""

    url: str = ""
    cdn: str = ""  # where large files are: another port, so another origin
    published: dict[str, dict[str, Path]] = field(default_factory=dict)  # name -> branch, tag or commit -> folder
    dates: dict[str, str] = field(default_factory=dict)  # name -> when it last changed, an hour after the last commit
    page: int = 1000  # models on a page of a list
    odd: list[Any] = field(default_factory=list)  # what stands on every page besides the models
    renamed: dict[str, str] = field(default_factory=dict)  # former name -> name to which whoever asks for it is sent
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Name -> status and X-Error-Code; a gated repository still answers who it is, as on the real Hub."""
    commits: "Commits | None" = None  # who answers those that write, if anybody does
    faults: list[Planned] = field(default_factory=list)
    signature: int = 0  # what addresses on the CDN are signed with; those signed before have expired
    requests: list[str] = field(default_factory=list)  # method and path, of the Hub itself
    parts: list[Part] = field(default_factory=list)  # what the CDN sent
    tokens: set[str] = field(default_factory=set)  # every Authorization header that was sent to the Hub
    leaked: set[str] = field(default_factory=set)  # and to the CDN
    hours: int = 0  # how many commits to main branches there were
    at_once: int = 0
    most_at_once: int = 0  # requests to the CDN that were open at the same time
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def publish(self, name: str, folder: Path, revision: str = "main") -> str:
        """Serve a folder under a name and return its commit; a branch that exists moves there."""
        commit = hashlib.sha1(f"{name} {revision} {folder}".encode()).hexdigest()
        if revision == "main":
            self.hours += 1
            self.dates[name] = f"{BEGINNING + timedelta(hours=self.hours):%Y-%m-%dT%H:%M:%S.000Z}"
        self.published.setdefault(name, {}).update({revision: folder, commit: folder})
        return commit

    def commit(self, name: str, revision: str) -> str:
        """The commit that a revision of a published model means."""
        known = self.published[name]
        return next(key for key, folder in known.items() if len(key) == 40 and folder == known[revision])

    def plan(self, fault: Fault, where: str = "", times: int = 1, skip: int = 0) -> None:
        """Let a fault meet the next requests whose `METHOD place/path` holds this text, after some that pass."""
        self.faults.append(Planned(fault, where, times, skip))

    def expire(self) -> None:
        self.signature += 1

    def downloads(self) -> set[str]:
        found = (FILE.fullmatch(request.removeprefix("GET ")) for request in self.requests)
        return {f"{match['name']}/{match['file']}" for match in found if match} | {part.file for part in self.parts}

    def moved(self, name: str = "") -> int:
        """Bytes of the large files of a repository that were sent, of all without a name."""
        return sum(part.stop - part.start for part in self.parts if part.file.startswith(f"{name}/" if name else ""))

    def twice(self) -> list[tuple[Part, Part]]:
        """Parts that overlap, in pairs."""
        pairs = itertools.pairwise(sorted(self.parts))
        return [(one, other) for one, other in pairs if one.file == other.file and other.start < one.stop]

    def forget(self) -> None:
        for kept in (self.requests, self.parts, self.tokens, self.leaked):
            kept.clear()

    def spoiled(self, request: Request, right: Answer) -> Answer:
        """The answer after the first planned fault that meets the request."""
        with self.lock:
            said = f"{request.method} {request.place}{request.path}"
            for plan in self.faults:
                if plan.left and plan.where in said:
                    plan.skip -= 1
                    if plan.skip < 0:
                        plan.left -= 1
                        break
            else:
                return right
        return plan.fault(right)


Route = Callable[[Hub, Request, dict[str, str]], Answer]
ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


def route(methods: str, pattern: str) -> Callable[[Route], Route]:
    """Enter a function into the table; the first route whose pattern is the whole of `METHOD place/path` answers.

    The groups of the pattern, unquoted, are its last argument.
    """

    def enter(function: Route) -> Route:
        ROUTES.append((methods, re.compile(pattern), function))
        return function

    return enter


def answer(hub: Hub, request: Request) -> Answer:
    for methods, pattern, function in ROUTES:
        match = pattern.fullmatch(f"{request.place}{request.path}")
        if match and request.method in methods.split():
            return function(hub, request, {key: unquote(value or "") for key, value in match.groupdict().items()})
    return refusal(404, "EntryNotFound")


def json_answer(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def refusal(status: int, code: str, commit: str = "") -> Answer:
    said = {"X-Error-Code": code, "X-Error-Message": "refused", "X-Repo-Commit": commit}
    return Answer(status, headers={key: value for key, value in said.items() if value})
