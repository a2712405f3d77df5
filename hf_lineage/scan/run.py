"""A scan: the models that are on this disk, with the digests of their tensors and the verdicts on what they declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking import Options, Report, check_source
from hf_lineage.errors import CheckpointError, NetworkError, RepositoryError
from hf_lineage.evidence import SEVERITY, ExitCode
from hf_lineage.scan.local_model import LocalModel
from hf_lineage.scan.same import Digest, group_by_digests, group_by_names

FAILURES = (CheckpointError, NetworkError, RepositoryError, MemoryError)
"""Errors of one model, which do not stop the check of the others; a wrong option does."""


@dataclass(frozen=True)
class Entry:
    """One model, and what came of reading it."""

    model: LocalModel
    digest: Digest | None = None
    """None where nobody asked for it."""
    report: Report | None = None
    """What was judged of it; None where nobody asked for it, or it declares nothing, or could not be read."""
    failure: str = ""
    """Why it could not be checked; empty if it was."""

    @property
    def problem(self) -> str:
        """Why something of it could not be read; empty if it could."""
        return self.model.problem or (self.digest.problem if self.digest else "") or self.failure


@dataclass(frozen=True)
class Scan:
    """All models that are there, and sentences about what was passed over."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The names of models with the same tensors: by their bytes where all were read, else by the names of files."""
        if self.by_bytes:
            digests = [entry.digest or Digest() for entry in self.entries]
            return group_by_digests([entry.model for entry in self.entries], digests)
        return group_by_names(entry.model for entry in self.entries)

    @property
    def by_bytes(self) -> bool:
        """Whether the bytes of the tensors were read."""
        return any(entry.digest for entry in self.entries)

    @property
    def exit_code(self) -> ExitCode:
        """The most severe code of what was judged, an error where something could not be read.

        A model that declares nothing counts as RELATED.
        """
        if any(entry.problem for entry in self.entries):
            return ExitCode.ERROR
        codes = [entry.report.exit_code for entry in self.entries if entry.report and entry.report.rows]
        return max(codes, key=SEVERITY.index, default=ExitCode.RELATED)


def judge(model: LocalModel, options: Options) -> tuple[Report | None, str]:
    """Return the report on what a model declares, or why it could not be checked; neither where it declares nothing."""
    if model.repo is None or model.problem or not model.claims:
        return None, ""
    try:
        return check_source(model.repo.name, model.repo, (), options), ""
    except FAILURES as error:
        return None, str(error) or "not enough memory; try --set max-memory=8GiB"


def permit(model: LocalModel, options: Options) -> LocalModel:
    """Return a model with what the options allow to read of it."""
    return replace(model, repo=model.repo and options.allowed(model.repo))


def scanned(
    models: Sequence[LocalModel],
    digests: Sequence[Digest] | None,
    judged: Sequence[tuple[Report | None, str]] | None,
    notes: Sequence[str] = (),
) -> Scan:
    """Return the models with what came of reading each, where that was asked for."""
    nothing = (None, "")
    entries = (
        Entry(model, digests[at] if digests else None, *(judged[at] if judged else nothing))
        for at, model in enumerate(models)
    )
    return Scan(tuple(entries), tuple(notes))
