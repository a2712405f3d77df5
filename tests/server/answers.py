"""Requests and answers as plain values, and the table that leads from one to the other."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.server.hub import Hub


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    target: str
    """Path and query as sent."""
    path: str
    """Still quoted: a slash in a revision is %2F."""
    query: dict[str, str]
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes
    place: str
    """Which server was asked: hub or cdn."""


@dataclass(frozen=True)
class Answer:
    """One answer; a fault makes another one of it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    file: Path | None = None
    """What the body is a part of."""
    pause: float = 0
    """Seconds before anything is said."""
    cut: int | None = None
    """The connection is closed after so many bytes of the body."""


Route = Callable[["Hub", Request, dict[str, str]], Answer]
ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


def route(methods: str, pattern: str) -> Callable[[Route], Route]:
    """Enter a function into the table; the first route whose pattern is the whole of `METHOD place/path` answers.

    The groups of the pattern, unquoted, are its last argument.
    """

    def enter(function: Route) -> Route:
        ROUTES.append((methods, re.compile(pattern), function))
        return function

    return enter


def answer(hub: "Hub", request: Request) -> Answer:
    """What the first route that fits says."""
    for methods, pattern, function in ROUTES:
        match = pattern.fullmatch(f"{request.place}{request.path}")
        if match and request.method in methods.split():
            return function(hub, request, {key: unquote(value or "") for key, value in match.groupdict().items()})
    return refusal(404, "EntryNotFound")


def json_answer(value: Any, status: int = 200) -> Answer:
    """A value as JSON."""
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def refusal(status: int, code: str, commit: str = "") -> Answer:
    """A refusal as the Hub says it."""
    said = {"X-Error-Code": code, "X-Error-Message": "refused", "X-Repo-Commit": commit}
    return Answer(status, headers={key: value for key, value in said.items() if value})
