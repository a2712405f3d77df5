"""What is asked of the Hugging Face Hub, all of it through its own client: snapshots of chosen files, and listings.

`HF_TOKEN`, `HF_HOME`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` work as they do for `hf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from hf_lineage.errors import RepositoryError

Answer = TypeVar("Answer")


def snapshot(name: str, revision: str | None, files: Iterable[str]) -> tuple[Path, str]:
    """Fetch chosen files from the root of a Hub repository and return the cache's folder of them and its commit.

    Raise RepositoryError if there is no such repository or revision, it is gated, or the Hub cannot be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Progress(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # None: only on a terminal.
            super().__init__(*args, **{"disable": None} | kwargs)  # type: ignore[no-untyped-call]

    def download() -> str:
        return snapshot_download(name, revision=revision, allow_patterns=patterns, tqdm_class=Progress)

    patterns = [file.translate({ord(c): f"[{c}]" for c in "*?["}) for file in files]
    folder = Path(_ask(name, download))
    return folder, folder.name


def listing(name: str, revision: str | None) -> list[str]:
    """Return the names of all files of a Hub repository; raise RepositoryError as `snapshot` does."""
    from huggingface_hub import HfApi

    return _ask(name, lambda: HfApi().list_repo_files(name, revision=revision))


def _ask(name: str, question: Callable[[], Answer]) -> Answer:
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

    try:
        return question()
    except errors.GatedRepoError:
        raise RepositoryError(f"{name} is gated: ask for access on its page and set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise RepositoryError(f"{name} has no such revision on the Hub: check what stands after the @") from None
    except errors.RepositoryNotFoundError:
        raise RepositoryError(
            f"{name} is neither a folder nor on the Hub, or is private: check the name, or set HF_TOKEN"
        ) from None
    except (OSError, ValueError, httpx.HTTPError) as error:
        said = str(error).partition("\n")[0]
        raise RepositoryError(
            f"{name} is neither a folder nor to be had from the Hub ({said}); check the connection"
        ) from None
