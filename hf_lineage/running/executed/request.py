"""Request: the values that a process which runs a model is given; plain values, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SHORT, LONG = "short", "long"
"""The kinds of input: windows of a text, each by itself, and the same windows behind other text."""
TOKENIZER = "tokenizer.json"
"""The file beside the weights that says what the tokens of a model are; without it, it reads bytes."""


@dataclass(frozen=True)
class Writer:
    """One stored matrix that writes into the residual stream, and the parts that its columns belong to."""

    key: str
    """The path, the number of the layer and the number of the set in the layer; its parts are held under this name."""
    tensor: str
    """The name of the matrix on disk."""
    part: int
    """Number of inputs in one part: 1 in an MLP, the size of a head in attention."""
    parts: int
    """Number of parts, over all experts that are stacked in the tensor."""
    experts: int = 1
    """Number of experts that are stacked in the tensor."""
    expert: int = 0
    """The number of its expert, where each is stored by itself."""


@dataclass(frozen=True)
class Load:
    """The model that a process loads, and the bounds on memory and disk within which it does."""

    folder: str
    """The folder that holds the judged files and no others."""
    architecture: str
    """The class that `config.json` names, which is tried last."""
    files: Sequence[str]
    """The files with weights."""
    writers: Sequence[Writer]
    limit: int
    """Bytes of memory that the process may take."""
    dtype: str = "float32"
    """The dtype in which the model is held and run."""
    memory: Mapping[str, int] = field(default_factory=lambda: {"cpu": 0})
    """Bytes of weights that each device may hold, by its name for accelerate."""
    offload: bool = False
    """Whether `memory` is not enough, so that some layers are read from disk whenever the model runs."""
    disk: int = 0
    """Bytes that such layers may take in the folder of the process."""
    prefix: str = ""
    """Beginning of the names of its tensors, where it is a part of the model in the files."""
