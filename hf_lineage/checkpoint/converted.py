"""Converted models: what opens the files of each form, which of them are read, and what a report says of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hf_lineage.checkpoint.ctranslate2 import open_ctranslate2
from hf_lineage.checkpoint.gguf import open_gguf
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.onnx import files_of_onnx, open_onnx
from hf_lineage.checkpoint.unusual import NO_WEIGHTS, OTHER
from hf_lineage.errors import printable
from hf_lineage.hub.converted import Converted
from hf_lineage.hub.gguf_files import offered
from hf_lineage.hub.reference import RepoRef

GRAPH = "{} is a graph, which was read for its weights by the names in it; what else it computes was not checked"


def open_converted(repo: RepoRef, model: Converted) -> Checkpoint:
    """Return the checkpoint in the files of a converted model, by the names in them.

    Raise CheckpointError if they are damaged, NothingToCompare if they are of a kind that is not read.
    """
    return OPENERS[model.form](repo, model.files)


def files_read(repo: RepoRef, model: Converted) -> list[str]:
    """Return the names of the files that are read: of several ONNX files one, and what it names; raise as above."""
    return files_of_onnx(repo, model.files) if model.form == "onnx" else list(model.files)


def notes_on(repo: RepoRef, model: Converted) -> tuple[str, ...]:
    """Return sentences about the file that was read, and the others that the repository has."""
    read = files_read(repo, model)
    shown = printable(read[0], 200)
    graph = (GRAPH.format(shown),) if model.form == "onnx" else ()
    others = {*offered(repo, f".{model.form}"), *(name for name in repo.files() if name.endswith(OTHER))} - {*read}
    unread = [name for name in others if not NO_WEIGHTS.fullmatch(name)]
    if not unread:
        return graph
    how = "which --file names" if repo.file else f"{HOW[model.form]}; --file names another"
    return (*graph, f"{shown} was read, {how}; {len(unread)} more files may hold weights too")


HOW = {
    "gguf": "by its name the most precise of the GGUF files",
    "onnx": "by its name the most precise of the ONNX files that can be read",
    "ctranslate2": "which CTranslate2 loads",
}
"""The form of a converted model -> why a file of it was chosen."""
OPENERS: Mapping[str, Callable[[RepoRef, Sequence[str]], Checkpoint]] = {
    "gguf": open_gguf,
    "onnx": open_onnx,
    "ctranslate2": lambda repo, files: open_ctranslate2(repo, files[0]),
}
"""The form of a converted model -> what opens its files."""
