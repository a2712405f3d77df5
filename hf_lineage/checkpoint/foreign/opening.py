"""Converted models: what opens the files of each form, which of them are read, and what a report says of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hf_lineage.checkpoint.foreign.ctranslate2 import open_ctranslate2
from hf_lineage.checkpoint.foreign.files import CTRANSLATE2, ONNX, Converted
from hf_lineage.checkpoint.foreign.gguf import SUFFIX as GGUF
from hf_lineage.checkpoint.foreign.gguf import offered, open_gguf
from hf_lineage.checkpoint.foreign.onnx import files_of_onnx, files_of_pair, open_onnx, open_pair
from hf_lineage.checkpoint.foreign.unusual_layouts import NO_WEIGHTS, WEIGHT_FILES
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import ONE_FILE, printable
from hf_lineage.hub import RepoRef

GRAPH = "{} is a graph, which was read for its weights by the names in it; what else it computes was not checked"


class Form(NamedTuple):
    """A form of converted models."""

    open: Callable[[RepoRef, Sequence[str]], Checkpoint]
    suffix: str
    """How its files end."""
    how: str
    """Why the file was chosen that is read."""
    read: Callable[[RepoRef, Sequence[str]], list[str]] = lambda _repo, files: list(files)
    """Those of the files that are read, and what they name."""
    remark: str = ""
    """A sentence about every such file."""


def open_converted(repo: RepoRef, model: Converted) -> Checkpoint:
    """Return the checkpoint in the files of a converted model, by the names in them.

    Raise CheckpointError if they are damaged, NothingToCompare if they are of a kind that is not read.
    """
    return FORMS[model.form].open(repo, model.files)


def files_read(repo: RepoRef, model: Converted) -> list[str]:
    """Return the names of the files that are read: of several ONNX files one, and what it names; raise as above."""
    return FORMS[model.form].read(repo, model.files)


def notes_on(repo: RepoRef, model: Converted) -> tuple[str, ...]:
    """Return sentences about the file that was read, and the others that the repository has."""
    form, read = FORMS[model.form], files_read(repo, model)
    shown = printable(read[0], 200)
    remarks = (form.remark.format(shown),) if form.remark else ()
    others = {*offered(repo, form.suffix), *(name for name in repo.files() if name.endswith(WEIGHT_FILES))} - {*read}
    unread = [name for name in others if not NO_WEIGHTS.fullmatch(name)]
    if not unread:
        return remarks
    how = "as it was named" if repo.file else f"{form.how}; name another {ONE_FILE}"
    return (*remarks, f"{shown} was read, {how}; {len(unread)} more files may hold weights too")


FORMS: Mapping[str, Form] = {
    "gguf": Form(open_gguf, GGUF, "by its name the most precise of the GGUF files"),
    "onnx pair": Form(open_pair, ONNX, "with its decoder, by their names the most precise", files_of_pair, GRAPH),
    "onnx": Form(
        open_onnx, ONNX, "by its name the most precise of the ONNX files that can be read", files_of_onnx, GRAPH
    ),
    "ctranslate2": Form(lambda repo, files: open_ctranslate2(repo, files[0]), CTRANSLATE2, "which CTranslate2 loads"),
}
"""The forms of converted models by name."""
