"""Shards as a stranger may bring them, in a checkout or on the Hub."""

from dataclasses import replace

import numpy as np

from hf_lineage.index.storage import shards
from hf_lineage.index.storage.shards import Entry

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")
CODEC = 171
"""Where the footer of `three` says how its first column is compressed."""


def keys(count):
    return np.random.default_rng(0).integers(0, 256, (count, 256), np.uint8)


def three():
    """A shard of three models."""
    return shards.encoded([replace(ENTRY, model=f"org/{number}") for number in range(3)], keys(3))


def aborting():
    """The same with one byte changed, a codec that there is not: pyarrow aborts the process that reads it."""
    content = bytearray(three())
    content[footer(content) + CODEC] = 0x7F
    return bytes(content)


def footer(content):
    """Where the footer of a shard begins."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")
