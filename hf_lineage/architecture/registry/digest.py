"""Fingerprint: a digest of the factorization, on which numbers depend besides the weights and the recipe."""

from __future__ import annotations

import hashlib

import msgspec

from hf_lineage.architecture.registry.schema import Factorization, Lora


def fingerprint(factorization: Factorization) -> str:
    """Return a digest of what a factorization says about the tensors; another digest may mean other numbers.

    Left out are the listed classes, the ignored matrices, the key that counts the layers, what only
    adapters need, and all default values.
    """
    relevant = msgspec.structs.replace(factorization, classes=(), ignores=(), depth=None, lora=Lora())
    return hashlib.sha256(repr(_plain(relevant)).encode()).hexdigest()


def _plain(value: object) -> object:
    """A value with its structs as sorted pairs of name and value, without those at their defaults."""
    if isinstance(value, msgspec.Struct):
        named = ((field.name, field.default, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return sorted((name, _plain(setting)) for name, default, setting in named if setting not in (default, {}))
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return sorted((key, _plain(item)) for key, item in value.items()) if isinstance(value, dict) else value
