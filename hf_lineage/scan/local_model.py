"""LocalModel: one model on this disk, with what its files say about it; or why they cannot be read."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from hf_lineage.checkpoint.foreign.gguf import read_head
from hf_lineage.claims import GGUF_TITLE, Claim, read_claims
from hf_lineage.errors import LineageError, printable
from hf_lineage.files import is_file, typed
from hf_lineage.hub import RepoRef

CONTENT = re.compile(r"(?:sha256-)?(?P<digest>[0-9a-f]{64})")
"""The name of a file that says the SHA-256 of its content: of a blob of Ollama, and of a large file of the Hub."""


@dataclass(frozen=True)
class LocalModel:
    """One model on this disk, or a place that cannot be read."""

    name: str
    """As it is typed behind `hf-lineage check`, with options where these are needed; in words of a shell."""
    where: str
    """The store in which it is."""
    form: str = ""
    repo: RepoRef | None = None
    """None where it cannot be opened."""
    files: tuple[Path, ...] = ()
    """Those that hold its weights."""
    claims: tuple[Claim, ...] = ()
    """The bases that it declares."""
    title: str = ""
    """What a GGUF file calls itself; empty where it does not."""
    problem: str = ""
    """Why it cannot be read; empty if it can."""

    @property
    def size(self) -> int:
        """Bytes of its files with weights."""
        return sum(file.stat().st_size for file in self.files if file.is_file())

    @property
    def contents(self) -> frozenset[tuple[str, int]]:
        """The SHA-256 and the size of each file as its name says it, else where it lies; nobody read them for it."""
        return frozenset((digest_in(file) or str(file.resolve()), file.stat().st_size) for file in self.files)


def digest_in(file: Path) -> str:
    """Return the SHA-256 that the name of a file says, by which a store calls it; empty if it says none."""
    real = file.resolve()
    named = CONTENT.fullmatch(real.name)
    return named["digest"] if named and "blobs" in {real.parent.name, real.parent.parent.name} else ""


def with_claims(model: LocalModel) -> LocalModel:
    """Return a model with what its files say about it, or why they cannot be read."""
    repo = model.repo
    if missing := next((file.name for file in model.files if not is_file(str(file))), None):
        return replace(model, problem=f"{printable(missing, 200)} is a pipe or a link to nothing; remove it")
    try:
        claims = read_claims(repo).claims if repo else ()
        title = read_head(repo, repo.file).header.metadata.get(GGUF_TITLE) if repo and repo.file else None
    except (LineageError, OSError) as error:
        return replace(model, problem=str(error))
    return replace(model, claims=claims, title=printable(title, 100) if isinstance(title, str) else "")


def unlisted(error: OSError, where: str) -> LocalModel:
    """Return what stands in a list for a folder that cannot be listed."""
    why = f"cannot be listed: {error.strerror or error}; check its permissions"
    return LocalModel(shlex.quote(typed(error.filename or ".")), where, problem=why)
