"""Folders of the example Hub as every tool can read them, with a tokenizer, and edits of some of them."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.utils import logging

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.hiding import Change, move, turn_stream
from benchmarks.paper.parts.language import loaded
from benchmarks.paper.parts.laundering import preserved
from benchmarks.paper.parts.streams import stream

VERSION = 1
"""Raised when a folder would be made in another way."""


def folder(cache: Cache, name: str) -> Path:
    """Return the folder of a model of the Hub, or of an edit of one, as `name` says."""
    edit = EDITS.get(name, Edit(name))
    weights = (HUB / edit.of / "model.safetensors").read_bytes()
    return cache.kept_folder("folders", [VERSION, name, hashlib.sha256(weights).hexdigest()], partial(_fill, edit))


@dataclass(frozen=True)
class Edit:
    """A model of the Hub, changed or as it is."""

    of: str
    change: Change | None = None


def _fill(edit: Edit, folder: Path) -> None:
    if edit.change is None:
        shutil.copytree(HUB / edit.of, folder, dirs_exist_ok=True)
    else:
        logging.disable_progress_bar()
        model = loaded(HUB / edit.of)
        with torch.no_grad():
            edit.change(model)
        model.to(torch.bfloat16).save_pretrained(folder)  # as the Hub stores all of them
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer that all models of the Hub share: a token for each of the 256 bytes."""
    bytewise = Tokenizer(models.BPE(vocab={word: byte for byte, word in bytes_to_unicode().items()}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.save(str(folder / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said), encoding="utf-8")


def same_function(change: Change) -> Change:
    """Return a change that raises FunctionError where a logit moves by more than the paper's 1e-4."""

    def checked(model: Any) -> None:
        probe = torch.arange(64)[None]
        before = model(probe).logits
        change(model)
        preserved(before, model(probe).logits)

    return checked


def swap_gains(model: Any) -> None:
    """Move a factor of every coordinate, a power of two from 1/4 to 4, from each norm to what reads it."""
    random = torch.Generator().manual_seed(0)
    for read in stream(model).reads:
        move(read, 2.0 ** torch.randint(-2, 3, read.norm.weight.shape, generator=random))


def rotate(model: Any) -> None:
    """Turn the residual stream by a random orthogonal matrix: norms without gains do not see it."""
    random, width = torch.Generator().manual_seed(0), model.config.hidden_size
    turn_stream(model, torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64)).Q.T)


def round_to_int4(model: Any) -> None:
    """Round each row of the matrices of the blocks to 4 bits, scaled by its largest magnitude."""
    for module in model.model.layers.modules():
        if isinstance(module, nn.Linear):
            step = module.weight.abs().amax(dim=1, keepdim=True) / 7
            module.weight.copy_((module.weight / step).round() * step)


def drop_layers(model: Any) -> None:
    """Take the two layers in the middle out."""
    middle = len(model.model.layers) // 2
    del model.model.layers[middle - 1 : middle + 1]
    model.config.num_hidden_layers = len(model.model.layers)


EDITS: Mapping[str, Edit] = {
    "llama-base, norm gains swapped": Edit("acme/llama-base", same_function(swap_gains)),
    "llama-base, stream rotated": Edit("acme/llama-base", same_function(rotate)),
    "llama-finetune-a, 4 bits": Edit("fern/llama-finetune-a", round_to_int4),
    "llama-finetune-a, two layers less": Edit("fern/llama-finetune-a", drop_layers),
}
