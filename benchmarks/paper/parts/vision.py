"""Pictures to learn from, the digits of scikit-learn, and vision models of transformers that are really trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn import functional
from transformers.utils import logging

from benchmarks.paper.parts.cache import Cache

CLASSES = 10
TRAINING = 1437  # pictures that are trained on; the others are held out


@dataclass(frozen=True)
class Pictures:
    """Square pictures (b, c, s, s), and what each shows (b,)."""

    images: Tensor
    classes: Tensor

    @property
    def flat(self) -> Tensor:
        return self.images.flatten(1)

    @property
    def targets(self) -> Tensor:
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


logging.disable_progress_bar()

VERSION = 2  # raised when the code below comes to mean something else
RESNET = "ResNetForImageClassification"
PART = 1000  # pictures that a model sees at once where it learns nothing


@dataclass(frozen=True)
class Vision:
    """A model, and how it is trained: AdamW, the rate rising and falling once. The paper says nothing of either."""

    architecture: str
    config: Mapping[str, Any]
    epochs: int
    rate: float = 3e-3
    decay: float = 2.0
    batch: int = 32
    scale: int = 2  # pixels of the model's picture for one of the digits'
    seed: int = 0

    @property
    def untrained(self) -> Any:
        torch.manual_seed(self.seed)
        architecture = getattr(transformers, self.architecture)
        return architecture(architecture.config_class(num_channels=1, num_labels=CLASSES, **self.config))

    @property
    def trained(self) -> Any:
        """The model after training."""
        model, data = self.untrained.train(), digits().training
        images, classes = data.enlarged(self.scale), data.classes
        order = torch.Generator().manual_seed(self.seed)
        steps = self.epochs * -(-len(images) // self.batch)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.rate, weight_decay=self.decay)
        rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, steps)
        for _ in range(self.epochs):
            for chosen in torch.split(torch.randperm(len(images), generator=order), self.batch):
                optimizer.zero_grad()
                model(pixel_values=images[chosen], labels=classes[chosen]).loss.backward()
                optimizer.step()
                rates.step()
        return model

    def folder(self, cache: Cache) -> Path:
        """Return where the trained model lies, trained now or before."""
        return cache.kept_folder("vision", [VERSION, self], lambda to: self.trained.save_pretrained(to))

    def begun(self, cache: Cache) -> Path:
        """Return where the untrained model lies."""
        return cache.kept_folder("vision", [VERSION, self, "untrained"], lambda to: self.untrained.save_pretrained(to))

    @torch.no_grad()
    def right(self, folder: Path) -> float:
        """Return the share of the pictures held out that a model in a folder tells right."""
        model = getattr(transformers, self.architecture).from_pretrained(folder, local_files_only=True).eval()
        data = digits().held_out
        parts = torch.split(data.enlarged(self.scale), PART)
        said = torch.cat([model(pixel_values=part).logits.argmax(dim=1) for part in parts])
        return float((said == data.classes).float().mean())


def basic(seed: int, epochs: int) -> Vision:
    """Return a small ResNet of basic blocks: two stages of three, the first of the second no residual branch."""
    config = {"embedding_size": 32, "hidden_sizes": [32, 64], "depths": [3, 3], "layer_type": "basic"}
    return Vision(RESNET, config, epochs, seed=seed)


def bottleneck(epochs: int, blocks: int = 9) -> Vision:
    """Return a small ResNet with one stage of bottleneck blocks, all but the first without weights in the shortcut."""
    config = {"embedding_size": 32, "hidden_sizes": [64], "depths": [blocks], "layer_type": "bottleneck"}
    return Vision(RESNET, config, epochs)


def vit(epochs: int, layers: int = 6, rate: float = 1e-3, decay: float = 2.0) -> Vision:
    """Return a small ViT, patches of 4 by 4."""
    config = {
        "hidden_size": 64, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 256,
        "image_size": 8, "patch_size": 4, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    return Vision("ViTForImageClassification", config, epochs, rate, decay, scale=1)
