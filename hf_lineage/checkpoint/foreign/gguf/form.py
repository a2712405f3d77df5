"""GGUF as a foreign form: the configuration and the tensors of the files of llama.cpp, as those of the Hub's disk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign.form import Files, ForeignForm
from hf_lineage.checkpoint.foreign.gguf.files import choose_files, read_head, read_tokens
from hf_lineage.checkpoint.foreign.gguf.names import ARCHITECTURE, config_of, list_aliases, list_learned, name_tensors
from hf_lineage.checkpoint.foreign.gguf.tensors import apply_factors, open_gguf
from hf_lineage.checkpoint.foreign.pieces import MOST_HEADS, Heads, by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import constant
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import RepoRef

HEADS, KEY_VALUE_HEADS = "attention.head_count", "attention.head_count_kv"
BEGINS = "\u2581"
"""Before a token that begins a word, in the vocabularies of sentencepiece and llama.cpp."""


def _config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """Return the configuration by the file's metadata, as all loaders do; a `config.json` beside it is ignored."""
    return config_of(_metadata(repo, files))


def _rename(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del config
    metadata = _metadata(repo, files)

    def heads(name: str) -> Heads:
        number = re.search(r"\d+", name)
        layer = int(number[0]) if number else 0
        query = _count(metadata, HEADS, layer)
        return Heads(query or 1, _count(metadata, KEY_VALUE_HEADS, layer) or query or 1)

    plain = apply_factors(checkpoint)
    renamed = by_pieces(plain, name_tensors(metadata, factorization, plain.tensors), heads)
    learned = {name: constant(value) for name, value in list_learned(metadata, factorization)}
    return renamed.with_tensors({**renamed.tensors, **learned}) if learned else renamed


def _tokens(repo: RepoRef, files: Files) -> dict[str, int]:
    """Return the number of each token; llama.cpp's marks of the first piece of a word are made those of WordPiece."""
    texts: Iterable[str] = read_tokens(repo, files[0])
    if _metadata(repo, files).get("tokenizer.ggml.model") == "bert":
        texts = (_in_wordpiece(text) for text in texts)
    return {text: number for number, text in enumerate(texts)}


def _in_wordpiece(text: str) -> str:
    if text.startswith("[") and text.endswith("]"):
        return text
    return text.removeprefix(BEGINS) if text.startswith(BEGINS) else f"##{text}"


def _metadata(repo: RepoRef, files: Files) -> Mapping[str, Any]:
    return read_head(repo, files[0]).header.metadata


def _count(metadata: Mapping[str, Any], key: str, layer: int) -> int:
    """Return a number of heads, which may be one for all layers or a list of one for each; 0 if there is none."""
    count = metadata.get(f"{metadata[ARCHITECTURE]}.{key}", 0)
    value = count[layer] if isinstance(count, tuple) and layer < len(count) else count
    if not isinstance(value, int) or not 0 <= value <= MOST_HEADS:
        raise CheckpointError(f"the GGUF file says {key}: {str(count)[:50]}, not a number of heads; do not trust it")
    return value


GGUF: ForeignForm = ForeignForm(
    "gguf",
    choose_files,
    open_gguf,
    _rename,
    _config,
    aliases=list_aliases,
    tokens=_tokens,
    how="the most precise GGUF file by its name (--file all judges each)",
)
