"""Hiding: edits of a Llama or a GPT-2 that leave its function where it was, one for each way to do so.

Each edits a model of transformers in place and draws from torch's own generator. A model after an edit is a folder,
with the distance by which the edit moved its logits.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.paper.parts.cache import Cache, digest
from benchmarks.paper.parts.laundering import FunctionError
from benchmarks.paper.parts.streams import Heads, Read, heads, is_gpt2, layers, random_turn, set_layers, stream
from tests import laundering
from tests.laundering import add_dead_units, blocks, move_shifts, permute_hidden, rescale, shift_means

Change = Callable[[Any], None]  # edits a model of transformers in place; what it draws comes from torch's own generator
VERSION = 2  # raised when an edit of `hiding` comes to mean something else
ROUNDING = 3e-5
"""By how much logits of about ten may move: a norm of transformers and a softmax round to float32 whatever the model
is in, and a turned stream is rounded elsewhere."""
NOTED = "edit.json"


@dataclass(frozen=True)
class Case:
    """A model after an edit."""

    folder: Path
    moved: float  # the largest difference of a logit of the module of transformers before and after


@contextmanager
def doubles() -> Iterator[None]:
    """Draw what an edit draws in float64: a shift that cancels in a norm leaves float32 fewer digits."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float64", local_files_only=True).eval()


@torch.no_grad()
def moved(model: Any, change: Change, tokens: Tensor, seed: int = 0) -> float:
    """Edit a model in place and return the largest difference of a logit on the tokens (b, t).

    Raise FunctionError where that is more than rounding.
    """
    before = model(input_ids=tokens).logits
    with doubles():
        torch.manual_seed(seed)
        change(model)
    difference = float((model(input_ids=tokens).logits - before).abs().max())
    if not difference <= ROUNDING:
        raise FunctionError(f"the logits moved by {difference:.2g}, more than {ROUNDING:g}")
    return difference


def hidden(cache: Cache, folder: Path, name: str, change: Change, tokens: Tensor) -> Case:
    """Return a saved model after an edit that leaves its function where it was, in float32."""

    def make(into: Path) -> None:
        model = loaded(folder)
        difference = moved(model, change, tokens)
        model.float().save_pretrained(into)
        (into / NOTED).write_text(json.dumps(difference), encoding="utf-8")

    made = cache.kept_folder("hidden", [VERSION, digest(folder), name, list(tokens.shape)], make)
    return Case(made, float(json.loads((made / NOTED).read_text(encoding="utf-8"))))


def swap_gains(model: Any) -> None:
    """Move a factor between 1/4 and 4 of every coordinate from each norm to what reads it."""
    for read in stream(model).reads:
        moved = torch.exp2(4 * torch.rand(read.norm.weight.shape[0], dtype=torch.float64) - 2).to(read.norm.weight)
        move(read, moved)


def move(read: Read, factor: Tensor) -> None:
    """Move a factor of every coordinate from a norm to what reads it."""
    for tensor in (read.norm.weight, getattr(read.norm, "bias", None)):
        if tensor is not None:
            tensor.data.div_(factor)
    for reader in read.readers:
        reader.mul_(factor)


def fold_gains(model: Any) -> None:
    """Move all gains to what reads them, so that every norm has ones."""
    for read in stream(model).reads:
        move(read, read.norm.weight.data.clone())


def permute_stream(model: Any) -> None:
    """Reorder the residual coordinates in everything that reads or writes them."""
    seen = stream(model)
    order = torch.randperm(seen.width)
    for vector in (*seen.vectors, *seen.shifts, *(read.norm.weight.data for read in seen.reads)):
        vector.copy_(vector[order].clone())
    for reader in seen.readers:
        reader.copy_(reader[:, order].clone())
    for writer in seen.writers:
        writer.copy_(writer[order].clone())


def flip_stream(model: Any) -> None:
    """Change the sign of half of the residual coordinates; RMSNorm alone does not see it."""
    seen = stream(model)
    signs = 2.0 * torch.randint(0, 2, (seen.width,)).to(seen.writers[0]) - 1
    for reader in seen.readers:
        reader.mul_(signs)
    for writer in seen.writers:
        writer.mul_(signs[:, None])


def rotate(model: Any) -> None:
    """Turn the residual stream by a random orthogonal matrix.

    A LayerNorm subtracts the mean, so that the turn of a GPT-2 leaves the vector of ones where it is.
    """
    seen = stream(model)
    turn_stream(model, random_turn(seen.width, seen.keeps_mean))


def turn_stream(model: Any, by: Tensor) -> None:
    """Turn the residual stream by an orthogonal matrix, gains folded first."""
    fold_gains(model)
    seen = stream(model)
    turn = by.to(seen.writers[0])
    for reader in seen.readers:
        reader.copy_(reader @ turn.T)
    for writer in (*seen.writers, *seen.vectors, *seen.shifts):
        writer.copy_(turn @ writer)


def flip_hidden(model: Any) -> None:
    """Change the sign of half of the units of every gated MLP, on the way in and on the way out."""
    for block in blocks(model):
        signs = 2.0 * torch.randint(0, 2, (len(block.up),)).to(block.up) - 1
        block.up.mul_(signs[:, None])
        block.down.mul_(signs)


def split_units(model: Any) -> None:
    """Split every third hidden unit in two, which write one and two thirds of it, and each unit after it in half."""
    for block in blocks(model):
        for start, share in ((0, 1 / 3), (1, 1 / 2)):
            some = torch.arange(start, len(block.up), 3)
            _extend(block, some, share)
            block = next(each for each in blocks(model) if each.mlp is block.mlp)
    hidden = len(block.up)
    setattr(model.config, "n_inner" if is_gpt2(model) else "intermediate_size", hidden)


def _extend(block: laundering.Block, some: Tensor, share: float) -> None:
    """Give an MLP a second copy of some units, which writes the rest of what the first writes no more."""
    rest = block.down[:, some] * (1 - share)
    block.down[:, some] *= share
    up, down = torch.cat([block.up, block.up[some]]), torch.cat([block.down, rest], dim=1)
    if block.gate is None:
        block.mlp.c_fc.weight.data, block.mlp.c_proj.weight.data = up.T.contiguous(), down.T.contiguous()
        block.mlp.c_fc.bias.data = torch.cat([block.up_bias, block.up_bias[some]])
        block.mlp.c_fc.nf = len(up)
    else:
        block.mlp.up_proj.weight.data, block.mlp.down_proj.weight.data = up, down
        block.mlp.gate_proj.weight.data = torch.cat([block.gate, block.gate[some]])


def permute_heads(model: Any) -> None:
    """Reorder the heads of every layer, and the query heads that share one key and value head among themselves."""
    for each in heads(model):
        shared, inner = torch.randperm(len(each.key)), torch.randperm(each.query.shape[1])
        for tensor in (each.query, each.output, *each.biases[:1]):
            tensor.copy_(tensor[shared][:, inner].clone())
        for tensor in (each.key, each.value, *each.biases[1:]):
            tensor.copy_(tensor[shared].clone())


def map_heads(model: Any) -> None:
    """Map what each head carries by an invertible matrix of its own, and back where it is read.

    Under rotary positions only maps that commute with them are left for query and key: a turn and a factor for each
    pair of dimensions.
    """
    for each in heads(model):
        for head in range(len(each.key)):
            size = each.key.shape[1]
            there, back = _map(size, each)
            _apply(there, each.value[head], *(bias[head] for bias in each.biases[2:]))
            for query_head in each.output[head]:
                query_head.copy_(back.T @ query_head)
            there, back = _rotary_map(size, each) if each.rotary else _map(size, each)
            _apply(back.T, each.key[head], *(bias[head] for bias in each.biases[1:2]))
            biases = each.biases[0][head] if each.biases else [None] * each.query.shape[1]
            for query_head, bias in zip(each.query[head], biases, strict=True):
                _apply(there, query_head, *([] if bias is None else [bias]))


def _apply(matrix: Tensor, *targets: Tensor) -> None:
    for target in targets:
        target.copy_(matrix @ target)


def _map(size: int, like: Heads) -> tuple[Tensor, Tensor]:
    """A random matrix with singular values between 1/2 and 2, and its inverse."""
    left, right = (torch.linalg.qr(torch.randn(size, size, dtype=torch.float64)).Q for _ in range(2))
    scales = torch.exp2(2 * torch.rand(size, dtype=torch.float64) - 1)
    there, back = left @ torch.diag(scales) @ right, right.T @ torch.diag(1 / scales) @ left.T
    return there.to(like.key), back.to(like.key)


def _rotary_map(size: int, like: Heads) -> tuple[Tensor, Tensor]:
    """A matrix that turns and scales each pair of dimensions i and i + size/2, and its inverse."""
    angles = 2 * torch.pi * torch.rand(size // 2, dtype=torch.float64)
    scales = torch.exp2(2 * torch.rand(size // 2, dtype=torch.float64) - 1)
    cosines, sines = (torch.diag(wave(angles) * scales) for wave in (torch.cos, torch.sin))
    there = torch.cat([torch.cat([cosines, -sines], 1), torch.cat([sines, cosines], 1)])
    return there.to(like.key), torch.linalg.inv(there).to(like.key)


def insert_identity(model: Any) -> None:
    """Put a layer that writes nothing behind the first and every third after it."""
    chosen = []
    for number, layer in enumerate(layers(model)):
        chosen.append(layer)
        if number % 3 == 0:
            chosen.append(_idle(copy.deepcopy(layer), is_gpt2(model)))
    set_layers(model, chosen)


def _idle(layer: Any, gpt2: bool) -> Any:
    for parameter in layer.parameters():
        if parameter.ndim == 2:
            parameter.data.copy_(parameter.std() * torch.randn_like(parameter))
    outputs = (layer.attn.c_proj, layer.mlp.c_proj) if gpt2 else (layer.self_attn.o_proj, layer.mlp.down_proj)
    for module in outputs:
        for parameter in module.parameters():
            parameter.data.zero_()
    return layer


def together(*changes: Change) -> Change:
    """Return several changes, one after the other, as one."""

    def change(model: Any) -> None:
        for each in changes:
            each(model)

    return change


TURNED = ("stream reordered", "stream flipped", "stream rotated", "all at once")
"""Those that turn the coordinates of the residual stream."""
COMMON: Mapping[str, Change] = {
    "hidden units reordered": permute_hidden,
    "gains moved": swap_gains,
    "dead units added": add_dead_units,
    "units split and doubled": split_units,
    "heads reordered": permute_heads,
    "heads mapped": map_heads,
    "identity layers inserted": insert_identity,
    "stream reordered": permute_stream,
    "stream rotated": rotate,
}
INSIDE = (insert_identity, add_dead_units, split_units, permute_hidden, permute_heads, map_heads)
LLAMA: Mapping[str, Change] = {
    **COMMON,
    "hidden units rescaled": rescale,
    "hidden units flipped": flip_hidden,
    "stream flipped": flip_stream,
    "all but the stream": together(*INSIDE, rescale, flip_hidden, swap_gains),
    "all at once": together(*INSIDE, rescale, flip_hidden, rotate, swap_gains),
}
GPT2: Mapping[str, Change] = {
    **COMMON,
    "means shifted": shift_means,
    "shifts moved": move_shifts,
    "all but the stream": together(*INSIDE, shift_means, move_shifts, swap_gains),
    "all at once": together(*INSIDE, rotate, shift_means, move_shifts, swap_gains),
}
"""By family: GELU is not homogeneous, RMSNorm subtracts no mean, and LayerNorm sees a sign."""
FAMILIES: Mapping[str, Mapping[str, Change]] = {"llama": LLAMA, "gpt2": GPT2}
