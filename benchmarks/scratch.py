"""Scratch: a temporary folder of models that are written when they are first needed and gone when the command ends."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.isolated import isolated
from benchmarks.shapes import Model
from benchmarks.writing import write_models

RESERVE = 10**9  # bytes of disk that are left free


class DiskError(Exception):
    """The models do not fit on the disk."""


class Scratch:
    """A folder with models in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, models: Collection[Model]) -> None:
        folders = {self.model(model): model for model in models}
        isolated(write_models, {folder: model for folder, model in folders.items() if not folder.exists()})

    def model(self, model: Model) -> Path:
        return self.folder / model.folder

    @property
    def home(self) -> Path:
        """A home for commands, with empty caches at first."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return home

    def keep(self, models: Collection[Model]) -> None:
        """Remove every model but these."""
        kept = {model.folder for model in models}
        for folder in self.folder.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder)


@contextmanager
def scratch(root: Path) -> Iterator[Scratch]:
    """Yield an empty scratch folder in `root`, which is removed however the command ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="hf-lineage-bench-", dir=root) as folder:
        yield Scratch(Path(folder))


def most_at_once(needs: Sequence[Collection[Model]]) -> int:
    """Return the most bytes that lie on the disk at once where each model is kept from its first need to its last."""
    alive = ({*_union(needs[: number + 1])} & {*_union(needs[number:])} for number in range(len(needs)))
    return max((sum(model.shape.bytes for model in models) for models in alive), default=0)


def _union(needs: Sequence[Collection[Model]]) -> Iterator[Model]:
    return (model for models in needs for model in models)


def free(root: Path) -> int:
    """Return how many bytes may be written to the disk of a folder."""
    return max(shutil.disk_usage(root).free - RESERVE, 0)
