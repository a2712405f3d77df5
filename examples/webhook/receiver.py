"""A receiver of the Hub's webhooks: what is pushed to a watched model is checked, and a false claim is told.

The Hub waits only for a moment, so a push is queued and checked by one worker. Results are lines of JSON on standard
output; with LINEAGE_ANSWER=discussion a model whose claim is UNRELATED also gets a discussion, one for each commit.
"""

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fastapi
import guard
from huggingface_hub import HfApi, WebhookPayload, WebhooksServer
from starlette.middleware import Middleware

MAIN = "refs/heads/main"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_WAITING = 100
UNRELATED = 1
"""The exit code of `hf-lineage check` for a claim that the weights contradict."""
SECONDS = int(os.environ.get("LINEAGE_SECONDS", "1800"))
CACHE = Path(os.environ.get("LINEAGE_CACHE", tempfile.gettempdir())) / "signatures"
LARGEST_CACHE = 2 * 2**30
"""Bytes of signatures that are kept, so that a base is not read again for every push."""
ANSWERS = ("log", "discussion")
SECRETS = ("WEBHOOK_SECRET",)
"""What the process that reads a model does not get to see."""


@dataclass(frozen=True)
class Push:
    """A new commit on the main branch of a model."""

    model: str
    commit: str


def pushed(payload: WebhookPayload) -> Push | None:
    """Return the push that an event tells of; None for anything else.

    Pull requests and discussions are other events: what is answered here never starts another check.
    """
    if payload.repo.type != "model" or not payload.event.scope.startswith("repo.content"):
        return None
    heads = [ref.newSha or "" for ref in payload.updatedRefs or () if ref.ref == MAIN]
    if not heads or not COMMIT.fullmatch(heads[-1]) or not NAME.fullmatch(payload.repo.name):
        return None
    return Push(payload.repo.name, heads[-1])


def check(push: Push, room: Path) -> tuple[int, str]:
    """Return the exit code of `hf-lineage check`, and the report as Markdown, in which untrusted names are escaped."""
    report = room / "lineage.md"
    command = [sys.executable, "-I", "-m", "hf_lineage.cli", "check", "--on-hub", "--report", f"markdown={report}"]
    env = {name: value for name, value in os.environ.items() if name not in SECRETS}
    done = subprocess.run(
        [*command, "--", f"{push.model}@{push.commit}"],
        cwd=room, env=env | {"HF_HOME": str(room / "home"), "HF_LINEAGE_CACHE": str(CACHE)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, report.read_text("utf-8") if report.exists() else done.stderr.strip()[-2000:]


def tell(push: Push, report: str) -> str:
    """Open a discussion about a commit, unless there is one of ours already; return its address.

    Discussions of others do not count: with one of this title an owner could keep the report from being shown.
    """
    api, title = HfApi(), f"Lineage of commit {push.commit[:12]}"
    account = api.whoami()["name"]
    for known in api.get_repo_discussions(push.model, author=account, discussion_type="discussion"):
        if (known.title, known.author) == (title, account):
            return known.url
    return api.create_discussion(push.model, title=title, description=report).url


class Waiting:
    """Pushes that are to be checked, each once: the Hub sends an event again, and so may whoever has seen one."""

    def __init__(self) -> None:
        self.pushes: queue.Queue[Push] = queue.Queue(MOST_WAITING)
        self.open: set[Push] = set()
        """Those that wait, and the one that is checked."""

    def add(self, push: Push) -> None:
        """Have a push checked, unless it already is to be; raise queue.Full where too many wait."""
        if push in self.open:
            return
        self.open.add(push)
        try:
            self.pushes.put_nowait(push)
        except queue.Full:
            self.open.discard(push)
            raise

    @contextlib.contextmanager
    def next(self) -> Iterator[Push]:
        """Wait for a push; it may be added again after the block."""
        push = self.pushes.get()
        try:
            yield push
        finally:
            self.open.discard(push)


def work(waiting: Waiting, answer: str) -> None:
    """Check what is waiting, for ever; what goes wrong with one model is told and does not stop the others."""
    while True:
        with waiting.next() as push:
            print(json.dumps(result_of(push, answer)), flush=True)


def result_of(push: Push, answer: str) -> dict[str, object]:
    """Check a push, and answer it if its claim is contradicted; an error is a result too."""
    result: dict[str, object] = {"model": push.model, "commit": push.commit}
    try:
        with tempfile.TemporaryDirectory(prefix="lineage-") as room:
            code, report = check(push, Path(room))
        result |= {"exit_code": code, "report": report}
        if code == UNRELATED and answer == "discussion":
            result["discussion"] = tell(push, report)
        guard.prune(CACHE, LARGEST_CACHE)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    return result


def server(secret: str, waiting: Waiting) -> WebhooksServer:
    """Return the receiver; it answers those alone who know the secret."""
    app = WebhooksServer(webhook_secret=secret)

    @app.add_webhook("/lineage")
    async def lineage(payload: WebhookPayload) -> fastapi.responses.JSONResponse:
        push = pushed(payload)
        if push is None:
            return fastapi.responses.JSONResponse({"checked": False})
        try:
            waiting.add(push)
        except queue.Full:
            return fastapi.responses.JSONResponse({}, status_code=503)
        return fastapi.responses.JSONResponse({"checked": True}, status_code=202)

    return app


def main() -> None:
    secret, answer = os.environ.get("WEBHOOK_SECRET", ""), os.environ.get("LINEAGE_ANSWER", "log")
    if len(secret) < 16:
        sys.exit("Set WEBHOOK_SECRET to the secret of the webhook, 16 characters at least: anybody can send events")
    if answer not in ANSWERS:
        sys.exit(f"LINEAGE_ANSWER is {' or '.join(ANSWERS)}")
    waiting = Waiting()
    threading.Thread(target=work, args=(waiting, answer), daemon=True).start()
    guarded = Middleware(guard.Guard, reads=guard.PAGE, writes="/webhooks/lineage", secret=secret)
    server(secret, waiting).launch(share=False, ssr_mode=False, app_kwargs={"middleware": [guarded]})


if __name__ == "__main__":
    main()
