"""GGUF: the configuration and the checkpoint of a model that llama.cpp's files hold, as those of the Hub's disk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint import Checkpoint, constant
from hf_lineage.checkpoint.foreign.gguf import Heads, head, renamed
from hf_lineage.checkpoint.foreign.gguf import names as naming
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import RepoRef

HEADS, KEY_VALUE_HEADS = "attention.head_count", "attention.head_count_kv"


def gguf_config(repo: RepoRef, files: Sequence[str]) -> dict[str, Any]:
    """Return the configuration that the metadata of a GGUF file stand for.

    Every loader of such a file goes by its metadata, so a `config.json` beside it says nothing.
    """
    return naming.config_of(_metadata(repo, files))


def gguf_named(
    repo: RepoRef, files: Sequence[str], factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    """Return the checkpoint of a GGUF file by the names on the Hub's disk."""
    del config
    metadata = _metadata(repo, files)

    def heads(name: str) -> Heads:
        layer = re.search(r"\d+", name)
        query = _count(metadata, HEADS, int(layer[0]) if layer else 0)
        return Heads(query or 1, _count(metadata, KEY_VALUE_HEADS, int(layer[0]) if layer else 0) or query or 1)

    by_name = renamed(checkpoint, naming.names(metadata, factorization, checkpoint.tensors), heads)
    learned = {name: constant(value) for name, value in naming.learned(metadata, factorization)}
    return by_name.with_tensors({**by_name.tensors, **learned}) if learned else by_name


def _metadata(repo: RepoRef, files: Sequence[str]) -> Mapping[str, Any]:
    return head(repo, files[0]).header.metadata


def _count(metadata: Mapping[str, Any], key: str, layer: int) -> int:
    """A number of heads, which may be one for all layers or a list of one for each; 0 where nothing is said."""
    count = metadata.get(f"{metadata[naming.ARCHITECTURE]}.{key}", 0)
    value = count[layer] if isinstance(count, tuple) and layer < len(count) else count
    if not isinstance(value, int) or not 0 <= value <= 2**16:
        raise CheckpointError(f"the GGUF file says {key}: {str(count)[:50]}, which counts no heads; do not trust it")
    return value
