"""Commits and pull requests on the Hugging Face Hub, written through its own client."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from hf_lineage.errors import RepositoryError, printable
from hf_lineage.hub import client, listing

SAME = "Already up to date; nothing was written."
CARD = "README.md"


def commit(name: str, files: Mapping[str, bytes], parent: str, message: str, **where: Any) -> str:
    """Commit files to a Hub repository whose branch stands at `parent`; return the address of commit or pull request.

    `where` is that of `create_commit`: the `revision` to commit to, `create_pr` to propose it instead. Raise
    BranchMovedError if the branch has moved, RepositoryError if the account may not write there or the Hub refuses,
    NetworkError if it cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    try:
        files.get(CARD, b"").decode()
    except UnicodeDecodeError:
        raise RepositoryError(f"{name}: the Hub accepts {CARD} in UTF-8 only; save it as UTF-8") from None
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]

    def send() -> str:
        with warnings.catch_warnings(), _bars_for_terminals():
            warnings.simplefilter("ignore")  # the Hub's advice on metadata that this commit does not change
            done = HfApi().create_commit(name, operations, commit_message=message, parent_commit=parent, **where)
        return str(done.pr_url or done.commit_url)

    return client.send(name, send)


@contextlib.contextmanager
def _bars_for_terminals() -> Iterator[None]:
    """Let the client show the progress of an upload on a terminal only."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silenced = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if silenced:
        disable_progress_bars()
    try:
        yield
    finally:
        if silenced:
            enable_progress_bars()


def propose(name: str, title: str, description: str, parent: str, changes: Callable[[str], Mapping[str, bytes]]) -> str:
    """Open a pull request with the changes against `parent`, or update the one that is open already.

    Return a sentence on what was done; `changes` returns the files that differ from those at a commit. Raise as
    `commit` does.
    """
    files = changes(parent)
    if not files:
        return SAME
    number = open_proposal(name, title)
    if number is None:
        url = commit(name, files, parent, title, commit_description=description, create_pr=True)
        return f"Opened a pull request: {printable(url)}"
    ref = f"refs/pr/{number}"
    tip = listing.head(name, ref)
    files = changes(tip)
    if not files:
        return f"Pull request {number} is already up to date; nothing was written."
    url = commit(name, files, tip, title, commit_description=description, revision=ref)
    return f"Updated pull request {number}: {printable(url)}"


def open_proposal(name: str, title: str) -> int | None:
    """Return the number of the open pull request with this title that this account made, the latest of several."""
    from huggingface_hub import HfApi

    def find() -> int | None:
        account = HfApi().whoami()["name"]
        discussions = HfApi().get_repo_discussions(
            name, author=account, discussion_type="pull_request", discussion_status="open"
        )
        wanted = (account, title, "open", True)
        numbers = [one.num for one in discussions if (one.author, one.title, one.status, one.is_pull_request) == wanted]
        return max(numbers, default=None)

    return client.send(name, find)


def same_files(name: str, a: str, b: str, besides: Collection[str]) -> bool:
    """Return whether a Hub repository has the same files at two commits, `besides` aside; False if a commit is gone."""

    def files(commit: str) -> dict[str, listing.Entry]:
        return {path: entry for path, entry in listing.tree(name, commit).items() if path not in besides}

    try:
        return files(a) == files(b)
    except RepositoryError:
        return False
