"""Listing: two models are the same by what the Hub lists of their files, before a weight is read.

The Hub names the content of every large file by its SHA-256, so equal names mean equal bytes, whatever the repository.
Which tensors a model has, and where they stand, is in headers, which are read in any case. A listing is what a server
says: the claim is not verified by it, and other files say nothing, since a full fine-tune changes all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hf_lineage.checking.judge.stage import ModelPair
from hf_lineage.checking.source import SAVED, FromWeights, OpenedModel
from hf_lineage.evidence import Code, Criteria, Verdict
from hf_lineage.evidence.judging import as_related
from hf_lineage.hub import client

SAME = (
    "the same files, by the Hub's listing: {} with weights, and the same configuration. Their bytes were not read; "
    "--budget full reads them"
)


def judge_listing(pair: ModelPair, criteria: Criteria) -> Verdict | None:
    """Return the verdict where the listing shows the same files; None where it shows others, or does not list one."""
    base, candidate = (_tensors(model) for model in (pair.base, pair.candidate))
    if not base or base != candidate or _settings(pair.base) != _settings(pair.candidate):
        return None
    files = len({content for content, *_ in base.values()})
    return as_related(Code.LISTED, SAME.format(f"{files} file{'s' * (files > 1)}"), criteria)


def _tensors(model: OpenedModel) -> Mapping[str, tuple[Any, ...]]:
    """Return, per name of a tensor, the SHA-256 of its file, and the tensor's place, type and shape there.

    Nothing where the Hub does not list one of these files, or where the model is none of the Hub.
    """
    if not isinstance(model, FromWeights) or model.local:
        return {}
    checkpoint = model.opened.checkpoint
    tensors = {
        name: (checkpoint.content(tensor.file), tensor.start, tensor.dtype, tensor.shape)
        for name, tensor in checkpoint.stored.items()
    }
    return tensors if all(client.SHA256.fullmatch(content) for content, *_ in tensors.values()) else {}


def _settings(model: OpenedModel) -> Mapping[str, Any]:
    config = model.opened.described.config if isinstance(model, FromWeights) else {}
    return {key: value for key, value in config.items() if key not in SAVED}
