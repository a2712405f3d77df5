"""Pictures to learn from: the handwritten digits of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

CLASSES = 10
TRAINING = 1437
"""Pictures that are trained on; the others are held out."""


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


@cache
def digits() -> Source:
    """Return 1797 pictures of 8 by 8; the last fifth is held out."""
    from sklearn.datasets import load_digits

    pixels, classes = (torch.from_numpy(found) for found in load_digits(return_X_y=True))
    images = pixels.view(-1, 1, 8, 8).float()
    images = (images - images.mean()) / images.std()
    return Source(Pictures(images[:TRAINING], classes[:TRAINING]), Pictures(images[TRAINING:], classes[TRAINING:]))
