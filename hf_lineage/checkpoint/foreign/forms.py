"""The table of foreign forms, and the choice of the form that a repository is read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign import ctranslate2, gguf, onnx, pickles
from hf_lineage.checkpoint.foreign.form import ForeignForm, ListedForm, list_files
from hf_lineage.checkpoint.foreign.unusual_layouts import NO_WEIGHTS, PICKLES, WEIGHT_FILES
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import StoredTensor, header
from hf_lineage.errors import ONE_FILE, NothingToCompare, OptionError, printable
from hf_lineage.hub import RepoRef

FORMS: list[ListedForm] = [
    ListedForm((".gguf",), lambda: gguf.GGUF),
    ListedForm((".onnx",), lambda: onnx.ONNX_PAIR),
    ListedForm((".onnx",), lambda: onnx.ONNX),
    ListedForm(("model.bin",), lambda: ctranslate2.CTRANSLATE2),
    ListedForm(("params.json",), lambda: import_module(f"{__package__}.original").ORIGINAL),
    ListedForm(PICKLES, lambda: pickles.PICKLE),
]
"""All foreign forms; one that is opened as files of transformers is chosen only where no other one is."""


@dataclass(frozen=True)
class ForeignModel:
    """A repository that is read in a foreign form; each function raises as those of the form do."""

    repo: RepoRef
    ends: tuple[str, ...]
    form: ForeignForm
    files: tuple[str, ...]
    """All parts of a GGUF model; of several ONNX files of one model all, the most precise first; an encoder and its
    decoder."""

    @property
    def by_transformers(self) -> bool:
        """Whether its files are chosen and opened as those of transformers."""
        return self.form.open is None

    def config(self) -> dict[str, Any]:
        """Return the configuration, as `config.json` of transformers would say it."""
        return self.form.config(self.repo, self.files)

    def open(self) -> Checkpoint:
        """Return the checkpoint by the names in the files, which are not those of transformers."""
        if self.form.open is None:
            raise ValueError(f"{self.form.name} is opened as files of transformers")
        return self.form.open(self.repo, self.files)

    def rename(self, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint by the names on the Hub's disk."""
        return self.form.rename(self.repo, self.files, factorization, config, checkpoint)

    def list_read(self) -> list[str]:
        """Return the names of the files that are read: of several ONNX files one, and what it names."""
        return self.form.read(self.repo, self.files)

    def tokens(self) -> Mapping[str, int] | None:
        """Return the number of every token by its text; None where other files hold the tokenizer."""
        return self.form.tokens(self.repo, self.files)

    def notes(self) -> tuple[str, ...]:
        """Return sentences about the file that was read, and the others that the repository has."""
        read = self.list_read()
        name = printable(read[0], 200)
        remarks = (self.form.remark.format(name),) if self.form.remark else ()
        if self.by_transformers:
            return remarks
        files = self.repo.files()
        others = {*list_files(self.repo, *self.ends), *(file for file in files if file.endswith(WEIGHT_FILES))}
        unread = [file for file in others - {*read} if not NO_WEIGHTS.fullmatch(file)]
        if not unread:
            return remarks
        how = "as it was named" if self.repo.file else f"{self.form.how}; name another {ONE_FILE}"
        return (*remarks, f"{name} was read, {how}; {len(unread)} more files may hold weights too")


def foreign_model(repo: RepoRef) -> ForeignModel | None:
    """Return how a repository is read where it is not as transformers saves it; None where it is.

    Raise NothingToCompare where there are several models, CheckpointError where a part is missing, OptionError where
    the file is that the user names.
    """
    if repo.file is not None and not nameable(repo.file):
        ends = [*dict.fromkeys(end for listed in FORMS if listed.form().open for end in listed.ends)]
        raise OptionError(
            f"{repo}: {printable(repo.file, 200)} is not a file for --file; it reads {', '.join(ends[:-1])} and "
            f"{ends[-1]}"
        )
    by_library: dict[str, ForeignModel] = {}
    for listed in FORMS:
        if not listed.is_possible(repo):
            continue
        form = listed.form()
        possible = form.name not in by_library and (form.open is not None or not by_library)
        if possible and (files := form.choose(repo)):
            by_library[form.name] = ForeignModel(repo, listed.ends, form, files)
    if len(by_library) > 1:
        names = ", ".join(printable(model.files[0], 100) for model in by_library.values())
        raise NothingToCompare(f"{repo} holds models for several libraries ({names}); name one {ONE_FILE}")
    return next(iter(by_library.values()), None)


def nameable(file: str) -> bool:
    """Return whether --file may name such a file, and its path stand for a model.

    >>> nameable("onnx/model_q4.onnx"), nameable("model.bin"), nameable("pytorch_model.bin")
    (True, True, False)
    """
    return any(listed.is_name(file) and listed.form().open is not None for listed in FORMS)


def read_header(file: str, path: Path, shown: str) -> Iterable[tuple[str, StoredTensor]]:
    """Yield the tensors that one file of transformers describes, by the form of its name; errors call it `shown`."""
    own = (listed.form().header for listed in FORMS if listed.is_name(file))
    return next(filter(None, own), header)(path, shown)
