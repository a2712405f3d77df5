"""What is published on the small Hub, what goes wrong, and what was asked for."""

import hashlib
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.server.answers import Answer, Request
from tests.server.faults import Fault, Planned

if TYPE_CHECKING:
    from tests.server.commits import Commits

FILE = re.compile(r"/(?P<name>.+?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")

BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
LARGE_FILE = re.compile(r"/(.+?)/[0-9a-f]{40}/(.+)")


@dataclass(frozen=True)
class Part:
    """Bytes of a large file that were sent."""

    file: str
    """With the name of its repository before it."""
    start: int
    stop: int


@dataclass
class Hub:
    """A Hub whose tests may look behind the counter."""

    url: str = ""
    cdn: str = ""
    """Where large files are: another port, so another origin."""
    published: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Name -> revision (a branch, a tag or a commit) -> folder."""
    dates: dict[str, str] = field(default_factory=dict)
    """Name -> when it last changed, as the Hub writes it; each commit to a main branch is an hour after the last."""
    page: int = 1000
    """Models on a page of a list."""
    odd: list[Any] = field(default_factory=list)
    """What stands on every page besides the models."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Former name -> name: whoever asks for the one is sent to the other."""
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Name -> status and X-Error-Code; a gated repository still answers who it is, as on the real Hub."""
    commits: "Commits | None" = None
    """Who answers those that write, if anybody does."""
    faults: list[Planned] = field(default_factory=list)
    signature: int = 0
    """What addresses on the CDN are signed with; those signed before have expired."""
    requests: list[str] = field(default_factory=list)
    """Method and path, of the Hub itself."""
    parts: list[Part] = field(default_factory=list)
    """What the CDN sent."""
    tokens: set[str] = field(default_factory=set)
    """Every Authorization header that was sent to the Hub."""
    leaked: set[str] = field(default_factory=set)
    """Every Authorization header that was sent to the CDN."""
    hours: int = 0
    """How many commits to main branches there were."""
    at_once: int = 0
    most_at_once: int = 0
    """Requests to the CDN that were open at the same time."""
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
        """Let every signed address given out so far expire."""
        self.signature += 1

    def downloads(self) -> set[str]:
        """The files of which anything was sent."""
        found = (FILE.fullmatch(request.removeprefix("GET ")) for request in self.requests)
        return {f"{match['name']}/{match['file']}" for match in found if match} | {part.file for part in self.parts}

    def moved(self, name: str = "") -> int:
        """Bytes of the large files of a repository that were sent, of all without a name."""
        return sum(part.stop - part.start for part in self.parts if part.file.startswith(f"{name}/" if name else ""))

    def twice(self) -> list[Part]:
        """Parts that overlap one that was sent before."""
        found: list[Part] = []
        for part in sorted(self.parts, key=lambda part: (part.file, part.start, part.stop)):
            if found and found[-1].file == part.file and part.start < found[-1].stop:
                return [found[-1], part]
            found.append(part)
        return []

    def forget(self) -> None:
        """Forget what was asked for and what was sent."""
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
