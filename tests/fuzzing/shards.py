"""Shards of an index, changed a little: the header of their keys, or their lines."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hf_lineage.index.shard import Entry, Shard, write
from tests.fuzzing.changes import json_file, safetensors_file, spliced

ENTRIES = [Entry(f"org/{row}", "c" * 40, "mlp", 64, 2, "mlp-robust-64") for row in range(40)]


def key_files(room: Path) -> Callable[[Random], bytes]:
    """Keys of some models, with another header or metadata, or other bytes."""
    content = write(room, "valid", ENTRIES, np.zeros((len(ENTRIES), 256), np.uint8)).read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    inner = json.loads(header["__metadata__"]["index"])

    def case(random: Random) -> bytes:
        how = random.randrange(3)
        if how == 0:
            return spliced(random, content)
        if how == 1:
            return safetensors_file(random, header, content[begin:])
        changed = header | {"__metadata__": {"index": json_file(random, inner).decode(errors="replace")}}
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + content[begin:]

    return case


def line_files(room: Path) -> Callable[[Random], bytes]:
    """Lines of some models, of which one is another, or with other bytes."""
    lines = Shard.open(room / "valid.safetensors").models.read_bytes().splitlines()

    def case(random: Random) -> bytes:
        some = list(lines)
        at = random.randrange(len(some))
        some[at] = json_file(random, json.loads(some[at])).replace(b"\n", b" ")
        content = b"\n".join(some) + b"\n"
        return content if random.randrange(2) else spliced(random, content)

    return case


def keys_read(file: Path) -> Any:
    """Every key of a shard."""
    return [len(some) for some in Shard.open(file).pieces()]


def lines_read(room: Path) -> Callable[[bytes], Any]:
    """Every model of a shard with these lines."""
    shard = Shard.open(room / "valid.safetensors")

    def read(content: bytes) -> Any:
        shard.models.write_bytes(content)
        return shard.entries()

    return read
