"""Quotes: the numbers that people quote of two models, from a few rows of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hf_lineage.architecture import LayerSet
from hf_lineage.architecture.registry import as_names
from hf_lineage.checking.relation.matrices import matrix, rows_of
from hf_lineage.checking.source import FromWeights, OpenedModel
from hf_lineage.checkpoint import overlap, single
from hf_lineage.evidence import Verdict, cosine
from hf_lineage.signature import Vector
from hf_lineage.signature.extraction import Sample

ROWS = 1024
"""Rows of the embedding that are read."""
QKV = ("query", "key", "value")
NAMES = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures", "model_type")
"""Keys of `config.json` that are no settings of the architecture."""


def quoted(base: OpenedModel | Verdict, candidate: OpenedModel | Verdict) -> Mapping[str, float]:
    """Return the numbers of two models that are read from their weights, by the identifiers of `KINDS`."""
    if not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights):
        return {}
    if any(model.opened.checkpoint.remote for model in (base, candidate)):
        return {}
    gains = _gains(base), _gains(candidate)
    centred = [[one - one.mean() for one in side] for side in gains]
    numbers = {
        "configuration": _configuration(base, candidate),
        "tokens": overlap(base.opened.described.repo, candidate.opened.described.repo),
        "gains": cosine(gains[0], gains[1]),
        "gains_centred": cosine(centred[0], centred[1]),
        "deviations": cosine(_deviations(base), _deviations(candidate), centred=True),
        "biases": cosine(_biases(base), _biases(candidate)),
        "embedding": cosine(_embedding(base), _embedding(candidate)),
    }
    return {kind: value for kind, value in numbers.items() if value is not None}


def _configuration(base: FromWeights, candidate: FromWeights) -> float | None:
    """The part of the base's settings that the candidate has as well."""
    first, second = (model.opened.described.config for model in (base, candidate))
    keys = [key for key in first if key not in NAMES]
    return sum(second.get(key) == first[key] for key in keys) / len(keys) if keys else None


def _sets(model: FromWeights, branch: str = "") -> Iterator[LayerSet]:
    branches = model.opened.layout.branches
    for layer in range(model.layers):
        yield from (sets[layer][0] for name, sets in branches.items() if sets[layer] and branch in ("", name))


def _gains(model: FromWeights) -> list[Vector]:
    """The gains of the norms of all layers."""
    names = (name for one in _sets(model) for name in (one.norm, one.output_norm, one.inner_norm))
    return list(_vectors(model, names))


def _biases(model: FromWeights) -> list[Vector]:
    """The vectors that are added to queries, keys and values."""
    sets = _sets(model, "attention")
    names = (one.biases.get(one.slots[role].tensor) for one in sets for role in QKV if role in one.slots)
    return list(_vectors(model, names))


def _deviations(model: FromWeights) -> list[Vector]:
    """The standard deviations of the attention matrices of all layers, of some rows each."""
    deviations = []
    for layer, one in enumerate(_sets(model, "attention")):
        rows = ((slot, rows_of(model, role, slot, layer, Sample(0), sampled=False)) for role, slot in one.slots.items())
        deviations.append(np.array([float(matrix(model, slot, some).std()) for slot, some in rows]))
    return deviations


def _embedding(model: FromWeights) -> list[Vector]:
    """The first rows of the embedding, less their mean, which all tokens have in common."""
    checkpoint = model.opened.checkpoint
    names = (f"{name}.weight" for name in as_names(model.opened.layout.factorization.embedding))
    name = next((name for name in names if name in checkpoint.tensors), None)
    if name is None:
        return []
    stored = checkpoint.rows(name)
    numbers: Any = single(
        checkpoint.read_pieces(name, [stored.tensor.rows(slice(0, ROWS))]) if stored else checkpoint.read(name)[:ROWS]
    )
    return [numbers - numbers.mean(axis=0)]


def _vectors(model: FromWeights, names: Iterator[str | None]) -> Iterator[Vector]:
    for name in dict.fromkeys(filter(None, names)):
        for tensor in (name, f"{name}.weight"):
            if tensor in model.opened.checkpoint.tensors:
                yield np.asarray(single(model.opened.checkpoint.read(tensor)), np.float64)
                break
