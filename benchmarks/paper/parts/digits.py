"""scikit-learn's handwritten digits, 1797 pictures of 8 by 8: they stand in for CIFAR-10, which is not in a package."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

TRAINED = 1437
"""Four fifths; the rest is held out."""
CLASSES = 10
SIDE = 8


@dataclass(frozen=True)
class Digits:
    """Pictures (b, 64) of mean 0 and variance 1 over all pixels, and what they show (b,)."""

    pictures: Tensor
    classes: Tensor

    @property
    def targets(self) -> Tensor:
        """One-hot (b, 10)."""
        return functional.one_hot(self.classes, CLASSES).float()

    def images(self, scale: int) -> Tensor:
        """Return pictures (b, 1, 8 scale, 8 scale), every pixel as a square."""
        return functional.interpolate(self.pictures.view(-1, 1, SIDE, SIDE), scale_factor=scale)


def digits() -> tuple[Digits, Digits]:
    """Return what is trained on, and what is held out."""
    pictures, classes = (torch.from_numpy(found) for found in load_digits(return_X_y=True))
    pictures = (pictures.float() - pictures.float().mean()) / pictures.float().std()
    return Digits(pictures[:TRAINED], classes[:TRAINED]), Digits(pictures[TRAINED:], classes[TRAINED:])
