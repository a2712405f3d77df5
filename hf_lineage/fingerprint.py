"""Fingerprint: what a number depends on besides the weights and the recipe, as a digest."""

from __future__ import annotations

import hashlib

import msgspec

from hf_lineage.schema import Factorization


def fingerprint(factorization: Factorization) -> str:
    """Return a digest of what a factorization says of the tensors: another one may make other numbers.

    Which classes it is for, which matrices belong to no branch, where `config.json` counts the layers, and what is at
    its default, is no part of it.
    """
    reading = msgspec.structs.replace(factorization, classes=(), ignores=(), depth=None)
    return hashlib.sha256(repr(_said(reading)).encode()).hexdigest()


def _said(value: object) -> object:
    """A value with its structs as sorted pairs, without what is at its default."""
    if isinstance(value, msgspec.Struct):
        named = ((field.name, field.default, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return sorted((name, _said(found)) for name, default, found in named if found not in (default, {}))
    if isinstance(value, tuple):
        return tuple(map(_said, value))
    return sorted((key, _said(item)) for key, item in value.items()) if isinstance(value, dict) else value
