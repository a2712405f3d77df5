"""Converted models: the configuration and the checkpoint of what other programs load, as those of the Hub's disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checking.source.gguf import gguf_config, gguf_named
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.checkpoint.foreign import by_pieces, converted
from hf_lineage.checkpoint.foreign import names as exported
from hf_lineage.checkpoint.foreign.ctranslate2 import header_of as ctranslate2_header
from hf_lineage.checkpoint.foreign.ctranslate2 import names as ctranslate2
from hf_lineage.checkpoint.foreign.onnx import config_of
from hf_lineage.checkpoint.foreign.onnx import graph_of as onnx_graph
from hf_lineage.hub import RepoRef

Files = Sequence[str]


class Form(NamedTuple):
    """A form of converted models."""

    config: Callable[[RepoRef, Files], dict[str, Any]]
    """The configuration, as `config.json` would say it."""
    named: Callable[[RepoRef, Files, Factorization, Mapping[str, Any], Checkpoint], Checkpoint]
    """The checkpoint by the names on the Hub's disk."""


def converted_config(repo: RepoRef) -> dict[str, Any] | None:
    """Return the configuration of a converted model; None for one that transformers loads."""
    model = converted(repo)
    return FORMS[model.form].config(repo, model.files) if model else None


def by_names_of_the_hub(
    repo: RepoRef, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    """Return the checkpoint of a converted model by the names on the Hub's disk; another one as it is."""
    model = converted(repo)
    return FORMS[model.form].named(repo, model.files, factorization, config, checkpoint) if model else checkpoint


def _onnx_config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """That of `config.json`; where there is none, what the graph says."""
    return repo.config() if repo.has("config.json") else dict(config_of(onnx_graph(repo, files).weights))


def _pair_config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """That of `config.json`: a graph does not say that it has a counterpart."""
    del files
    return repo.config()


def _onnx_named(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del repo, files
    return by_pieces(checkpoint, exported.as_exported(factorization, checkpoint.shapes, config))


def _ctranslate2_contents(repo: RepoRef, files: Files) -> ctranslate2.Contents:
    header = ctranslate2_header(repo, files[0])
    shapes = {name: variable.shape for name, variable in header.variables.items()}
    shapes |= {name: shapes[target] for name, target in header.aliases.items()}
    return ctranslate2.Contents(header.specification, shapes, header.numbers)


def _ctranslate2_config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """What the file says; the `config.json` beside it is CTranslate2's own and names no class."""
    return ctranslate2.config_of(_ctranslate2_contents(repo, files))


def _ctranslate2_named(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del config
    contents = _ctranslate2_contents(repo, files)
    kept = {name: shape for name, shape in contents.shapes.items() if name in checkpoint.tensors}
    held = ctranslate2.Contents(contents.specification, kept, contents.numbers)
    return by_pieces(checkpoint, ctranslate2.pieces(factorization, held))


FORMS: Mapping[str, Form] = {
    "gguf": Form(gguf_config, gguf_named),
    "onnx pair": Form(_pair_config, _onnx_named),
    "onnx": Form(_onnx_config, _onnx_named),
    "ctranslate2": Form(_ctranslate2_config, _ctranslate2_named),
}
"""The forms of converted models by name."""
