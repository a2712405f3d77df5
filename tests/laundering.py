"""Edits that leave a model's function where it was and move its weights: what an honest verdict must survive.

Each edits a transformers model in place. `blocks` hides how the two families name and store the same matrices: readers
are (hidden, width), writers (width, hidden), as views, so that an edit of them is an edit of the model.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch


class Block(NamedTuple):
    """One layer's MLP with the norm in front of it; `gate` and the biases only where the family has them."""

    mlp: Any
    norm: Any
    up: torch.Tensor
    gate: Any
    down: torch.Tensor
    up_bias: Any


def blocks(model: Any) -> Iterator[Block]:
    """Yield the MLP blocks of a Llama or a GPT-2 model."""
    if model.config.model_type == "gpt2":
        for layer in model.transformer.h:
            up, down = layer.mlp.c_fc, layer.mlp.c_proj
            yield Block(layer.mlp, layer.ln_2, up.weight.data.T, None, down.weight.data.T, up.bias.data)
    else:
        for layer in model.model.layers:
            up, gate, down = (getattr(layer.mlp, name).weight.data for name in ("up_proj", "gate_proj", "down_proj"))
            yield Block(layer.mlp, layer.post_attention_layernorm, up, gate, down, None)


def permute_hidden(model: Any) -> None:
    for block in blocks(model):
        order = torch.randperm(block.up.shape[0])
        for matrix in (block.up, block.gate, block.up_bias):
            if matrix is not None:
                matrix.copy_(matrix[order].clone())
        block.down.copy_(block.down[:, order].clone())


def rescale(model: Any) -> None:
    """Scale every hidden unit of a gated MLP by its own factor between 1/8 and 8, and undo it on the way out."""
    for block in blocks(model):
        scales = torch.exp2(6 * torch.rand(block.up.shape[0]) - 3)
        block.up.mul_(scales[:, None])
        block.down.div_(scales)


def swap_gains(model: Any) -> None:
    """Move a factor between 1/4 and 4 of every coordinate from the norm into the matrices that read its output."""
    for block in blocks(model):
        moved = torch.exp2(4 * torch.rand(block.up.shape[1]) - 2)
        block.norm.weight.data.div_(moved)
        if getattr(block.norm, "bias", None) is not None:
            block.norm.bias.data.div_(moved)
        for matrix in (block.up, block.gate):
            if matrix is not None:
                matrix.mul_(moved)


def shift_means(model: Any) -> None:
    """Add c 1ᵀ to W_in diag(γ) and 1 vᵀ to W_out: every LayerNorm subtracts both."""
    for block in blocks(model):
        readers, writers = block.up.abs().mean(), block.down.abs().mean()
        shift = 5 * readers * torch.randn(block.up.shape[0])
        inverse = 1 / block.norm.weight.data
        block.up.add_(shift[:, None] * inverse)
        block.up_bias.sub_(shift * (block.norm.bias.data * inverse).sum())
        block.down.add_(5 * writers * torch.randn(block.down.shape[1]))


def move_shifts(model: Any) -> None:
    """Move a vector from β of the norm in front of every MLP into the biases of its hidden units."""
    for block in blocks(model):
        moved = 0.5 * torch.randn(block.up.shape[1])
        block.norm.bias.data.add_(moved)
        block.up_bias.sub_(block.up @ moved)


def split_units(model: Any) -> None:
    """Split every third hidden unit of a gated MLP into two, which write one and two thirds of what it wrote."""
    for block in blocks(model):
        some = torch.arange(0, len(block.up), 3)
        gate, up = (torch.cat([matrix, matrix[some]]) for matrix in (block.gate, block.up))
        down = torch.cat([block.down, block.down[:, some] * 2 / 3], dim=1)
        down[:, some] /= 3
        for linear, matrix in ((block.mlp.gate_proj, gate), (block.mlp.up_proj, up), (block.mlp.down_proj, down)):
            linear.weight.data = matrix
    model.config.intermediate_size = len(up)


def add_dead_units(model: Any) -> None:
    """Give every MLP 4 % more hidden units that never fire, with weights ten times too large."""
    for block in blocks(model):
        extra = round(0.04 * block.up.shape[0])
        readers = 10 * block.up.std() * torch.randn(extra, block.up.shape[1])
        writers = 10 * block.down.std() * torch.randn(block.down.shape[0], extra)
        up, down = torch.cat([block.up, readers]), torch.cat([block.down, writers], dim=1)
        if block.gate is None:
            block.mlp.c_fc.weight.data, block.mlp.c_proj.weight.data = up.T.contiguous(), down.T.contiguous()
            block.mlp.c_fc.bias.data = torch.cat([block.up_bias, torch.full((extra,), -1e4)])
            block.mlp.c_fc.nf = len(up)
        else:
            block.mlp.up_proj.weight.data, block.mlp.down_proj.weight.data = up, down
            block.mlp.gate_proj.weight.data = torch.cat([block.gate, torch.zeros_like(readers)])
    setattr(model.config, "n_inner" if block.gate is None else "intermediate_size", len(up))


@torch.no_grad()
def outputs(model: Any) -> torch.Tensor:
    """Return what a model says to a fixed batch of tokens: logits, or the last hidden state of an encoder."""
    tokens = torch.randint(model.config.vocab_size, (4, 32), generator=torch.Generator().manual_seed(5))
    answer = model.eval()(tokens)
    return answer.logits if hasattr(answer, "logits") else answer.last_hidden_state


def laundered(model: Any, edit: Callable[[Any], None], seed: int = 0) -> float:
    """Apply an edit in place and return by how much the outputs moved, in units of their standard deviation."""
    before = outputs(model)
    torch.manual_seed(seed)
    edit(model)
    return float((outputs(model) - before).abs().max() / before.std())


LLAMA_EDITS = (permute_hidden, rescale, swap_gains, add_dead_units)
GPT2_EDITS = (permute_hidden, swap_gains, shift_means, add_dead_units)
"""Which edits preserve the function of which family: GELU is not homogeneous, RMSNorm subtracts no mean."""
