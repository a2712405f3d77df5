"""Pictures to learn from: CIFAR-10 where it can be had, otherwise the handwritten digits of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.paper.experiment import Bench
from benchmarks.paper.parts.online import dataset
from benchmarks.paper.parts.public import CIFAR10

CLASSES = 10
DIGITS, CIFAR = "digits", CIFAR10.family


@dataclass(frozen=True)
class Pictures:
    """Square pictures (b, c, s, s), and what each shows (b,)."""

    images: Tensor
    classes: Tensor

    @property
    def flat(self) -> Tensor:
        """One row for each picture (b, c s s)."""
        return self.images.flatten(1)

    @property
    def targets(self) -> Tensor:
        """One-hot (b, 10)."""
        return functional.one_hot(self.classes, CLASSES).float()

    def enlarged(self, scale: int) -> Tensor:
        """Return pictures (b, c, s scale, s scale), every pixel as a square."""
        return functional.interpolate(self.images, scale_factor=scale)


@dataclass(frozen=True)
class Source:
    """What is trained on, and what is held out; pixels have mean 0 and variance 1 over both."""

    training: Pictures
    held_out: Pictures


def digits() -> Source:
    """Return 1797 pictures of 8 by 8; the last fifth is held out."""
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    return split(torch.from_numpy(pixels).view(-1, 1, 8, 8), torch.from_numpy(classes), training=1437)


def cifar() -> Source:
    """Return 60,000 pictures of 32 by 32 in three colours, 10,000 of them held out; needs `datasets` and the Hub.

    Raise UnavailableError where they cannot be had.
    """
    training, held_out = (list(dataset(CIFAR10, split)) for split in ("train", "test"))
    return of_rows([*training, *held_out], len(training))


def of_rows(rows: list[dict[str, Any]], training: int) -> Source:
    """Return the pictures of rows with an image `img` (s, s, c) of bytes and its class `label`."""
    images = np.stack([np.asarray(row["img"]) for row in rows]).transpose(0, 3, 1, 2)
    return split(torch.from_numpy(images), torch.tensor([row["label"] for row in rows]), training)


def split(images: Tensor, classes: Tensor, training: int) -> Source:
    """Return the first so many pictures for training, and the others."""
    images = (images.float() - images.float().mean()) / images.float().std()
    return Source(Pictures(images[:training], classes[:training]), Pictures(images[training:], classes[training:]))


SOURCES: Mapping[str, Callable[[], Source]] = {DIGITS: digits, CIFAR: cifar}


@cache
def source(name: str) -> Source:
    """Return the pictures of a name."""
    return SOURCES[name]()


def at_hand(bench: Bench) -> str:
    """Return the name of what can be had: CIFAR-10 has to be fetched, and is the paper's size only."""
    return CIFAR if bench.scale == "paper" and bench.online else DIGITS
