"""What is written to the Hugging Face Hub: commits and pull requests, through its own client."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import ask

Answer = TypeVar("Answer")
MOVED, REFUSED = 412, (401, 403, 404)
"""How the Hub answers where a branch is not where it was, and where an account may not do what it asks for."""


def commit(name: str, files: Mapping[str, bytes], parent: str, message: str, **where: Any) -> str:
    """Commit files to a Hub repository whose branch stands at `parent`, and return the address of what came of it.

    `where` is that of `create_commit`: the `revision` to commit to, or `create_pr` to propose it instead. Raise
    RepositoryError if the branch has moved, the account may not write there, or the Hub refuses, NetworkError if it
    cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    operations = [CommitOperationAdd(path, content) for path, content in files.items()]

    def send() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the Hub's advice on metadata that is none of ours
            done = HfApi().create_commit(name, operations, commit_message=message, parent_commit=parent, **where)
        return str(done.pr_url or done.commit_url)

    return _write(name, send)


def open_proposal(name: str, title: str) -> int | None:
    """Return the number of the open pull request with this title that this account made, the latest of several."""
    from huggingface_hub import HfApi

    def find() -> int | None:
        mine = HfApi().whoami()["name"]
        found = HfApi().get_repo_discussions(
            name, author=mine, discussion_type="pull_request", discussion_status="open"
        )
        ours = (mine, title, "open", True)
        numbers = [each.num for each in found if (each.author, each.title, each.status, each.is_pull_request) == ours]
        return max(numbers, default=None)

    return _write(name, find)


def same_files(name: str, a: str, b: str, besides: Collection[str]) -> bool:
    """Return whether a Hub repository has the same files at two commits, not counting some; False if one is gone."""
    from huggingface_hub import HfApi, RepoFile

    def files(commit: str) -> dict[str, str]:
        tree = HfApi().list_repo_tree(name, revision=commit, recursive=True)
        return {file.path: file.blob_id for file in tree if isinstance(file, RepoFile) and file.path not in besides}

    try:
        return ask(name, lambda: files(a) == files(b))
    except RepositoryError:
        return False


def _write(name: str, question: Callable[[], Answer]) -> Answer:
    """Ask for something that needs an account; RepositoryError says what it lacks."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

    try:
        return question()
    except errors.LocalTokenNotFoundError:
        raise RepositoryError(f"{name}: writing needs an account; run `hf auth login` or set HF_TOKEN") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == MOVED:
            raise RepositoryError(f"{name}: the branch moved while it was checked; run again") from None
        if status in REFUSED:
            raise RepositoryError(
                f"{name}: the Hub refuses the change ({status}): there is no such branch, pull requests are switched "
                "off, or the account may not write there; check the permissions of HF_TOKEN"
            ) from None
        raise NetworkError(f"{name}: the Hub answers {status} ({_first_line(error)}); run again later") from None
    except UnicodeDecodeError:
        raise RepositoryError(f"{name}: the Hub takes README.md as UTF-8 only; save it as that") from None
    except ValueError as error:
        raise RepositoryError(f"{name}: the Hub refuses README.md: {' '.join(str(error).split())}; mend it") from None
    except (OSError, httpx.HTTPError) as error:
        raise NetworkError(f"{name}: the Hub cannot be reached ({_first_line(error)}); run again") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
