"""Many small residual networks, really trained, each from a seed of its own: what the null is tested on."""

import functools
from collections.abc import Callable, Sequence

import torch

from hf_lineage.signature.devices import workers
from hf_lineage.signature.extract import empty, put_block
from hf_lineage.signature.matrix_product import MatrixProduct, Probes
from hf_lineage.signature.recipe import Recipe
from hf_lineage.signature.residual import Block, summarise
from hf_lineage.signature.values import PathSignature

WIDTH, HIDDEN, LAYERS, CLASSES = 24, 48, 4, 8


@functools.cache
def train(count: int, steps: int = 300, seed: int = 0, layer_norm: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
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
            read = stream - stream.mean(-1, keepdim=True) if layer_norm else stream
            normed = read * torch.rsqrt(read.square().mean(-1, keepdim=True) + 1e-6)
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
        put_block(found, layer, block)
    return found


Arrange = Callable[[torch.Tensor], torch.Tensor]
"""From W_out (L, width, hidden) of a network to a matrix (d, width), the new coordinates of its stream."""


def padded(w_out: torch.Tensor) -> torch.Tensor:
    """Return the stream with a third more coordinates, which are zero."""
    return torch.eye(WIDTH + WIDTH // 3, w_out.shape[1])


def ordered(w_out: torch.Tensor) -> torch.Tensor:
    """Return coordinates in descending order of what is written to them."""
    return torch.eye(WIDTH)[w_out.square().sum(dim=(0, 2)).argsort(descending=True)]


def principal(w_out: torch.Tensor) -> torch.Tensor:
    """Return the principal axes of what is written, the largest last."""
    axes: torch.Tensor = torch.linalg.eigh((w_out @ w_out.mT).sum(dim=0))[1].mT
    return axes


def signatures(
    count: int, recipe: Recipe, seed: int = 0, arrange: Arrange | None = None, layer_norm: bool = False
) -> list[PathSignature]:
    """Return the signature of each of `count` independently trained networks."""
    w_in, w_out = train(count, seed=seed, layer_norm=layer_norm)
    found = []
    with workers() as share:
        for read, written in zip(w_in, w_out, strict=True):
            turn = arrange(written) if arrange else torch.eye(WIDTH)
            probes = Probes.draw(recipe, len(turn))
            pairs = zip((turn @ written).numpy(), (read @ turn.T).numpy(), strict=True)
            terms = (MatrixProduct(out, inn, 1, centred=layer_norm) for out, inn in pairs)
            found.append(stack([summarise([term], probes, recipe, share) for term in terms]))
    return found
