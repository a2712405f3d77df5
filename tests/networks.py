"""Many small residual networks, really trained, each from a seed of its own: what the null is tested on."""

import functools
from collections.abc import Sequence

import torch

from hf_lineage.signature.computing.devices import workers
from hf_lineage.signature.extraction.whole import empty, put
from hf_lineage.signature.products.matrix_product import MatrixProduct
from hf_lineage.signature.products.probes import Probes
from hf_lineage.signature.products.residual import Block, summarise
from hf_lineage.signature.recipe import Recipe
from hf_lineage.signature.values import PathSignature

WIDTH, HIDDEN, LAYERS, CLASSES = 24, 48, 4, 8


@functools.cache
def train(count: int, steps: int = 300, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return W_in (count, L, hidden, width) and W_out (count, L, width, hidden) of networks trained side by side.

    All see the same data in the same order, as independent models of one kind often do; every network draws its own
    initial weights. The task is to name the class of a noisy prototype through x + W_out relu(W_in rms(x)) layers.
    """
    data = torch.Generator().manual_seed(1_000_003 + seed)
    prototypes = torch.randn(CLASSES, WIDTH, generator=data)
    weights = torch.Generator().manual_seed(seed)

    def initial(*shape: int) -> torch.Tensor:
        return (torch.randn(count, *shape, generator=weights) / shape[-1] ** 0.5).requires_grad_()

    embed, head = initial(WIDTH, WIDTH), initial(CLASSES, WIDTH)
    w_in, w_out = initial(LAYERS, HIDDEN, WIDTH), initial(LAYERS, WIDTH, HIDDEN)
    optimizer = torch.optim.AdamW([embed, head, w_in, w_out], lr=1e-2, weight_decay=1.0)
    for _ in range(steps):
        labels = torch.randint(CLASSES, (32,), generator=data)
        stream = (prototypes[labels] + torch.randn(32, WIDTH, generator=data)) @ embed.mT
        for layer in range(LAYERS):
            normed = stream * torch.rsqrt(stream.square().mean(-1, keepdim=True) + 1e-6)
            stream = stream + torch.relu(normed @ w_in[:, layer].mT) @ w_out[:, layer].mT
        logits = stream @ head.mT
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat(count), reduction="sum") / 32
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return w_in.detach(), w_out.detach()


def stack(blocks: Sequence[Block]) -> PathSignature:
    """Return the blocks of some layers as the signature of a path."""
    found = empty(len(blocks), blocks[0].sketch.shape, len(blocks[0].corner))
    for layer, block in enumerate(blocks):
        put(found, layer, block)
    return found


def signatures(count: int, recipe: Recipe, seed: int = 0) -> list[PathSignature]:
    """Return the signature of each of `count` independently trained networks."""
    w_in, w_out = train(count, seed=seed)
    probes = Probes.draw(recipe, WIDTH)
    with workers() as share:
        return [
            stack(
                [
                    summarise([MatrixProduct(out.numpy(), inn.numpy(), 1)], probes, recipe, share)
                    for out, inn in zip(w_out[number], w_in[number], strict=True)
                ]
            )
            for number in range(count)
        ]
