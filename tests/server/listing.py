"""The route that lists models: of one author, the latest change first, a page at a time, with a link to the next."""

from urllib.parse import parse_qs, urlencode, urlsplit

from tests.server.answers import Answer, Request, json_answer, refusal, route
from tests.server.hub import Hub


@route("GET", r"hub/api/models")
def models(hub: Hub, request: Request, asked: dict[str, str]) -> Answer:
    """One page; a gated model is listed, a hidden one is not."""
    query = parse_qs(urlsplit(request.target).query)
    if query.get("sort") != ["lastModified"] or query.get("expand") != ["sha"]:
        return refusal(400, "BadRequest")
    (author,), start = query["author"], int(query.get("cursor", ["0"])[0])
    names = [name for name in hub.published if name.startswith(f"{author}/") and not hidden(hub, name)]
    names.sort(key=lambda name: hub.dates[name], reverse=True)
    said = json_answer([entry(hub, name) for name in names[start : start + hub.page]] + hub.odd)
    if start + hub.page < len(names):
        following = urlencode(query | {"cursor": [start + hub.page]}, doseq=True)
        said.headers["Link"] = f'<{hub.url}/api/models?{following}>; rel="next"'
    return said


def hidden(hub: Hub, name: str) -> bool:
    """Whether a model is private."""
    return hub.refused.get(name, (0, ""))[1] == "RepoNotFound"


def entry(hub: Hub, name: str) -> dict[str, str]:
    """What a list says of a model."""
    return {"_id": "0", "id": name, "sha": hub.commit(name, "main")}
