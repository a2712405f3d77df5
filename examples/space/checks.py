"""One check for a stranger: a process of its own that may take so much time, memory and disk, and that has no secrets.

The process is `hf-lineage check`. It reads configurations, cards and parts of the weights, over the network, and runs
nothing that a repository holds: no pickles, no remote code. It gets neither the token nor any other variable of the
Space, so nobody reads a private model with it, and it works in an empty folder, which is removed afterwards.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import guard
from huggingface_hub import HfApi, RepoFile
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})(@(?P<revision>\w[\w.-]{0,119}))?", re.ASCII
)
LARGEST_MODEL, MOST_FILES = 300 * 10**9, 5000
"""Bytes and files of a repository; what is read of it is much less."""
LARGEST_PAGE = 4 * 2**20
LARGEST_CACHE = 2 * 2**30
"""Bytes of signatures that are kept, so that a base is not read again for every model that names it."""
SECONDS = int(os.environ.get("LINEAGE_SECONDS", "300"))
MEMORY, ADDRESSES, LARGEST_FILE = "4GiB", 16 * 2**20, LARGEST_MODEL // 512
"""What hf-lineage plans with, the KiB that its process may address, and the blocks of 512 bytes of a file it writes.

What is fetched of weights lies in a file that is as large as they are, and empty but for that."""
LOCAL_HUB = os.environ.get("LINEAGE_LOCAL_HUB", "")
"""A folder of org/name folders in which models are looked up before the Hub, to try the Space without it."""
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "HF_ENDPOINT", "HF_HUB_DISABLE_XET")
"""The variables of the Space that the process sees."""
LIMITED = 'ulimit -v "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null; shift 2; exec "$@"'
"""A shell lowers its own limits and becomes the process; macOS knows no limit of addresses."""


class Refused(Exception):  # noqa: N818 - the answer to a request, not a failure
    """A request that is not carried out; the text says why, and has to be escaped."""


@dataclass(frozen=True)
class Request:
    """Which model is checked, and on which base if not on those that it declares."""

    model: str
    base: str = ""

    @classmethod
    def of(cls, model: str, base: str) -> "Request":
        """Take what somebody typed; only names of the Hub are names."""
        request = cls(model.strip(), base.strip())
        for name in filter(None, (request.model, request.base)):
            if not NAME.fullmatch(name):
                raise Refused(f"{name[:200]!r} is no name of the Hub, such as org/model or org/model@revision.")
        if not request.model:
            raise Refused("Name a model, such as org/model.")
        return request


def page(request: Request) -> str:
    """Return the page about a model, as `hf-lineage check --format html` writes it, or raise Refused."""
    for name in filter(None, (request.model, request.base)):
        _bounded(name)
    with tempfile.TemporaryDirectory(prefix="lineage-") as room:
        file = Path(room, "page.html")
        based = ["--base", request.base] if request.base else []
        based += ["--local-hub", str(Path(LOCAL_HUB).resolve())] if LOCAL_HUB else []
        options = ["--on-hub", "--set", f"max-memory={MEMORY}", "--format", "html", "--output", str(file), *based]
        done = _run(["check", *options, "--", request.model], Path(room))
        guard.prune(_cache(), LARGEST_CACHE)
        if not file.exists():
            raise Refused(_last_line(done.stderr))
        if file.stat().st_size > LARGEST_PAGE:
            raise Refused("The page is too large to be shown here; run hf-lineage on a machine of your own.")
        return file.read_text(encoding="utf-8")


def frame(text: str) -> str:
    """Return a page as a frame in which nothing runs, whose only origin is none."""
    return (
        '<iframe id="lineage" title="Lineage report" sandbox referrerpolicy="no-referrer" '
        f'style="width: 100%; height: 80vh; border: 0" srcdoc="{html.escape(text)}"></iframe>'
    )


def refusal(error: Refused) -> str:
    """Return a refusal as markup."""
    return f'<p role="alert">{html.escape(str(error))}</p>'


def _bounded(name: str) -> None:
    """Raise Refused for a repository that is not there, or larger than what is checked here."""
    match = NAME.fullmatch(name)
    if match is None:
        raise Refused("This is no name of the Hub.")
    if LOCAL_HUB and Path(LOCAL_HUB, match["name"]).is_dir():
        return
    total = 0
    try:
        tree = HfApi(token=False).list_repo_tree(match["name"], revision=match["revision"], recursive=True)
        for number, entry in enumerate(tree):
            total += entry.size if isinstance(entry, RepoFile) else 0
            if total > LARGEST_MODEL or number == MOST_FILES:
                raise Refused(f"{name} is larger than what is checked here; run hf-lineage on a machine of your own.")
    except (HfHubHTTPError, HFValidationError):
        raise Refused(f"{name} cannot be read without an account: it is not there, private, or gated.") from None


def _run(arguments: list[str], room: Path) -> "subprocess.CompletedProcess[str]":
    settings = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    settings |= {"HF_HOME": str(room / "home"), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    settings |= {"HF_LINEAGE_CACHE": str(_cache()), "HF_TOKEN_PATH": str(room / "none"), "XDG_CONFIG_HOME": str(room)}
    program = [sys.executable, "-I", "-m", "hf_lineage.cli", *arguments]
    shell = ["sh", "-c", LIMITED, "sh", str(ADDRESSES), str(LARGEST_FILE), *program]
    try:
        return subprocess.run(
            shell, cwd=room, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Refused(f"The check took longer than {SECONDS} seconds; run hf-lineage on your own machine.") from None


def _last_line(text: str) -> str:
    """What the program says last, which is one line about what went wrong."""
    lines = text.strip().splitlines() or ["The check was stopped: it needed more memory than there is here."]
    return lines[-1].removeprefix("hf-lineage: ")[:2000]


def _cache() -> Path:
    return Path(os.environ.get("LINEAGE_CACHE", tempfile.gettempdir())) / "signatures"
