"""Edits of a model's tensors, most of which leave what it computes as it is, written without running it."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.models import EXAMPLES, WEIGHTS, Tensors

HUB = EXAMPLES.resolve()
WIDTH = 96  # of the models of `examples/hub`
WRITERS = ("o_proj", "down_proj", "w2", "output_linear")
EMBEDDING = "model.embed_tokens.weight"
NO_READERS = ("kv_b_proj", "norm", "bias")
Change = Callable[[Tensors], Tensors]


def edited(folder: Path, target: Path, *changes: Change, **said: Any) -> Path:
    target.mkdir(parents=True)
    tensors = load_file(folder / WEIGHTS)
    for change in changes:
        tensors = change(tensors)
    contiguous = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    save_file(contiguous, target / WEIGHTS, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | said))
    return target


def floats(tensors: Tensors) -> Tensors:
    return {name: tensor.float() for name, tensor in tensors.items()}


def written(name: str, folder: Path, *changes: Change, **said: Any) -> Path:
    """A Llama of the Hub after some changes of its tensors, in float32."""
    return edited(HUB / name, folder, floats, *changes, **said)


def folded(tensors: Tensors) -> Tensors:
    """Every gain that stands between the stream and what reads it moved into the latter."""
    result = dict(tensors)
    for name, tensor in tensors.items():
        if _reads(name, tensor) and (norm := _norm(name)):
            result[name] = tensor * tensors[norm]
    return result | {name: torch.ones_like(result[name]) for name in map(_norm, tensors) if name}


def _norm(name: str) -> str | None:
    if name == "lm_head.weight":
        return "model.norm.weight"
    if not (layer := re.match(r"model\.layers\.\d+\.", name)) or "norm" in name:
        return None
    return f"{layer[0]}{'input' if '.self_attn.' in name else 'post_attention'}_layernorm.weight"


def _reads(name: str, tensor: torch.Tensor) -> bool:
    return tensor.ndim > 1 and not any(part in name for part in (*WRITERS, *NO_READERS))


def seen_by(matrix: torch.Tensor) -> Change:
    """What multiplies everything that reads or writes the stream with a matrix (width, d)."""

    def change(tensors: Tensors) -> Tensors:
        changed = folded(tensors)
        for name, tensor in changed.items():
            if any(part in name for part in WRITERS):
                changed[name] = matrix.T @ tensor
            elif _reads(name, tensor):
                changed[name] = tensor @ matrix
            elif len(tensor) == len(matrix) and (name == "model.norm.weight" or "_layernorm" in name):
                changed[name] = torch.ones(matrix.shape[1])
        return changed

    return change


def turn(width: int = WIDTH, seed: int = 0) -> torch.Tensor:
    turned: torch.Tensor = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(seed)))[0]
    return turned


rotated = seen_by(turn())


def narrowed(width: int) -> Change:
    """What leaves the first coordinates of a rotated stream alone."""
    return seen_by(turn()[:, :width])


def widened(wide: int, width: int = WIDTH) -> Change:
    """What makes a stream as wide by coordinates that nothing writes or reads."""
    return seen_by(torch.cat([turn(width), torch.zeros(width, wide - width)], dim=1))


def shuffled(tensors: Tensors) -> Tensors:
    """The hidden units of every MLP, or of every expert, in another order."""
    random, changed, orders = torch.Generator().manual_seed(1), dict(tensors), dict[str, torch.Tensor]()
    for name, tensor in tensors.items():
        if found := re.fullmatch(r"(.*\.(?:mlp|experts\.\d+))\.(\w+_proj|w\d)\.weight", name):
            mlp, writes = found[1], found[2] in WRITERS
            if mlp not in orders:
                orders[mlp] = torch.randperm(tensor.shape[1 if writes else 0], generator=random)
            changed[name] = tensor[:, orders[mlp]] if writes else tensor[orders[mlp]]
    return changed


def _of(name: str, *parts: str) -> Tensors:
    """The tensors of a model of the Hub with one of these parts in their names."""
    tensors = floats(load_file(HUB / name / WEIGHTS))
    return {key: tensor for key, tensor in tensors.items() if any(part in key for part in parts)}


def layers_of(other: str) -> Change:
    """What takes the embedding of the model as it is and every layer of another one."""
    layers = _of(other, "")
    return lambda tensors: layers | {EMBEDDING: tensors[EMBEDDING]}


def attention_of(other: str) -> Change:
    """What takes attention, and the norm before it, of another model."""
    theirs = _of(other, "self_attn", "input_layernorm")
    return lambda tensors: tensors | theirs


def deeper(other: str) -> Change:
    """What puts the layers of another model behind those of this one; written with `num_hidden_layers=12`."""
    layers = _of(other, ".layers.")
    behind = {re.sub(r"(?<=layers\.)\d+", lambda at: str(int(at[0]) + 6), key): layers[key] for key in layers}
    return lambda tensors: tensors | behind


def embedding(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda tensors: tensors | {EMBEDDING: change(tensors[EMBEDDING])}


def with_tokenizer(folder: Path, tokens: dict[str, int]) -> Path:
    content = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": tokens, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(HUB / name, folder))
