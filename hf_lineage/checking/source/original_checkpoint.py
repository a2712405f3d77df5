"""Makers' files: `params.json` and consolidated weights, read as the configuration and the tensors of transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hf_lineage.checkpoint import Checkpoint
from hf_lineage.checkpoint.foreign import original as naming
from hf_lineage.checkpoint.foreign.gguf import Heads, renamed
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub import RepoRef

PARAMS, CONFIG = "params.json", "config.json"
WEIGHTS = re.compile(r"consolidated[\w.-]*\.(safetensors|pth|pt)")
PART = re.compile(r"consolidated\.(?P<number>\d\d)\.pth?")
"""Parts of all matrices, one for each GPU."""


def makers_config(repo: RepoRef) -> dict[str, Any] | None:
    """Return the configuration that `params.json` stands for; None for a repository with a `config.json`.

    Raise NothingToCompare where it describes another kind of model, or the weights are cut into parts.
    """
    params = _params(repo)
    return None if params is None else naming.config_of(params)


def by_names_of_transformers(repo: RepoRef, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint of makers' files by the names on the Hub's disk; another one as it is."""
    params = _params(repo)
    if params is None:
        return checkpoint
    query = _count(params, "n_heads", 1)
    heads = Heads(query, _count(params, "n_kv_heads", query))
    return renamed(checkpoint, naming.names(checkpoint.tensors), lambda _: heads)


def makers_notes(repo: RepoRef) -> tuple[str, ...]:
    """Return a sentence about makers' files; none about another repository."""
    return () if _params(repo) is None else (f"{PARAMS} and the makers' names of tensors were read as transformers'",)


def _params(repo: RepoRef) -> Mapping[str, Any] | None:
    files = [name for name in repo.files() if WEIGHTS.fullmatch(name)]
    if not files or repo.has(CONFIG) or not repo.offers(PARAMS):
        return None
    parts = sorted(name for name in files if PART.fullmatch(name))
    if len(parts) > 1:
        raise NothingToCompare(
            f"{repo}: every matrix is cut into {len(parts)} parts ({parts[0]} and others), one for each GPU, which are "
            "not put together here; check the release that has a config.json"
        )
    repo.fetch(PARAMS)
    return repo.read_json(PARAMS)


def _count(params: Mapping[str, Any], key: str, default: int) -> int:
    count = params.get(key) or default
    if type(count) is not int or not 1 <= count <= 2**16:
        raise CheckpointError(f"{PARAMS} says `{key}`: {str(count)[:50]}, which counts no heads; do not trust it")
    return count
