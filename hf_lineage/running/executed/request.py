"""Request: what a process that runs a model is asked for; plain values, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SHORT, LONG = "short", "long"
"""The kinds of input: windows of a text, each by itself, and the same windows behind other text."""
TOKENIZER = "tokenizer.json"
"""The file beside the weights that says what the tokens of a model are; without it, it reads bytes."""


@dataclass(frozen=True)
class Writer:
    """One stored matrix that writes into the stream, and what its columns are."""

    key: str
    """The path, the number of the layer and that of the set in it: its parts are held under this name."""
    tensor: str
    """Its name on disk."""
    part: int
    """How many of its inputs are one part: 1 in an MLP, the size of a head in attention."""
    parts: int
    """How many parts it has, of all experts that are stacked in it."""
    experts: int = 1
    """How many experts are stacked in it."""
    expert: int = 0
    """The number of its expert, where each is stored by itself."""


@dataclass(frozen=True)
class Load:
    """What a process loads."""

    folder: str
    """It holds the judged files and no others."""
    architecture: str
    """The class that it says it is, which is asked last."""
    files: Sequence[str]
    """Its files with weights."""
    writers: Sequence[Writer]
    limit: int
    """Bytes of memory that the process may take."""
    dtype: str = "float32"
    """In which numbers it is held and run."""
    memory: Mapping[str, int] = field(default_factory=lambda: {"cpu": 0})
    """Bytes of weights that each device may hold, by its name for accelerate."""
    offload: bool = False
    """Whether that is not enough, so that layers are read from disk whenever the model runs."""
    disk: int = 0
    """Bytes that such layers may take in the folder of the process."""
    prefix: str = ""
    """What the names of its tensors begin with, where it is a part of the model in the files."""
