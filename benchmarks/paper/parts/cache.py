"""Cache: what was trained or scored once is found again by what it depends on, so that a stopped run goes on."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


@dataclass(frozen=True)
class Cache:
    """A folder of values: tensors, numbers, texts, and lists and mappings of them, nothing that could run."""

    folder: Path
    tell: Callable[[str, float], None] = lambda *_: None  # is told what was made, and in how many seconds

    def kept(self, what: str, depends: object, make: Callable[[], T]) -> T:
        """Return what `make` returns, from the folder if it is there.

        `depends` is everything the value depends on, made of dataclasses, mappings, sequences, texts and numbers;
        a number raised when the code changes its meaning belongs to it.
        """
        file = self.folder / what / f"{key(depends)}.pt"
        if file.exists():
            value: T = torch.load(file, weights_only=True)
            return value
        value = self._made(what, make)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        torch.save(value, part)
        part.replace(file)  # an interrupted run leaves no half a file
        return value

    def kept_folder(self, what: str, depends: object, make: Callable[[Path], object]) -> Path:
        """Return the folder that `make` fills, such as a checkpoint; `depends` is as for `kept`."""
        folder = self.folder / what / key(depends)
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            self._made(what, lambda: make(part))
            part.replace(folder)
        return folder

    def _made(self, what: str, make: Callable[[], T]) -> T:
        start = time.monotonic()
        value = make()
        self.tell(what, time.monotonic() - start)
        return value


def key(depends: object) -> str:
    """Return a name for a configuration, another one for every other configuration and version of torch."""
    text = json.dumps([torch.__version__, depends], default=_plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: asdict(value)}
    if isinstance(value, range):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a configuration")


def digest(folder: Path) -> str:
    """Return the SHA-256 of a saved model's weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
