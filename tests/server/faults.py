"""Faults: what an answer may become on its way. Each is a function of the right answer."""

from dataclasses import replace

from tests.server.hub import Answer, Fault, refusal


def says(answer: Answer) -> Fault:
    return lambda right: answer


unavailable = says(Answer(503))
gated = says(refusal(403, "GatedRepo"))  # as for a model whose conditions nobody has accepted
unauthorized = says(refusal(401, "RepoNotFound"))  # as for a private model without a token
missing = says(refusal(404, "EntryNotFound"))
expired = says(Answer(403))  # as the CDN says it of a signature that is too old


def slow(seconds: float) -> Fault:
    return lambda right: replace(right, pause=seconds)


def too_many(retry_after: int | None = None, reset: int | None = None) -> Fault:
    """429, with what it says about when to come back."""
    said = {"Retry-After": str(retry_after)} if retry_after is not None else {}
    said |= {"RateLimit": f'"resolvers";r=0;t={reset}'} if reset is not None else {}
    return says(Answer(429, headers=said))


def whole(right: Answer) -> Answer:
    """The whole file with 200 where a part was asked for."""
    assert right.file is not None, right
    headers = {key: value for key, value in right.headers.items() if key != "Content-Range"}
    return replace(right, status=200, headers=headers, body=right.file.read_bytes())


def short(right: Answer) -> Answer:
    """Half of the body, and a Content-Length that hides it."""
    return replace(right, body=right.body[: len(right.body) // 2])


def shifted(right: Answer) -> Answer:
    """Bytes of another range, and a Content-Range that says so."""
    start, _, rest = right.headers["Content-Range"].removeprefix("bytes ").partition("-")
    return replace(right, headers=right.headers | {"Content-Range": f"bytes {int(start) + 1}-{rest}"})


def compressed(right: Answer) -> Answer:
    """A Content-Encoding that nobody asked for."""
    return replace(right, headers=right.headers | {"Content-Encoding": "gzip"})


def dropped(right: Answer) -> Answer:
    """The connection is closed in the middle of the body."""
    return replace(right, cut=len(right.body) // 2)


def hung_up(right: Answer) -> Answer:
    """The connection is closed without a word."""
    return replace(right, status=0)


def changed(right: Answer) -> Answer:
    """The file is another one than before."""
    tags = {key: f'"{"0" * 64}"' for key in right.headers if key in ("ETag", "X-Linked-ETag")}
    return replace(right, headers=right.headers | tags)


def moved(right: Answer) -> Answer:
    """The answer is about another commit than was asked for."""
    return replace(right, headers=right.headers | {"X-Repo-Commit": "0" * 40})
