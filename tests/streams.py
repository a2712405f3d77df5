"""Models of `examples/hub` in a residual stream of other coordinates, written without running them."""

import json
import re
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models import WEIGHTS

HUB = Path(__file__).parents[1] / "examples" / "hub"
WIDTH = 96
READERS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
WRITERS = ("o_proj", "down_proj")


def written(name, folder, *changes, **config):
    """A Llama of the Hub after some changes of its tensors, in float32."""
    folder.mkdir(parents=True)
    tensors = {key: tensor.float() for key, tensor in load_file(HUB / name / WEIGHTS).items()}
    for change in changes:
        tensors = change(tensors)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / WEIGHTS)
    said = json.loads((HUB / name / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | config))
    return folder


def gains_folded(tensors):
    """Every gain moved into what reads after it."""
    folded = dict(tensors)
    for name, tensor in tensors.items():
        layer = name.rpartition("self_attn.")[0] or name.rpartition("mlp.")[0]
        if any(reader in name for reader in READERS):
            norm = "input_layernorm" if "self_attn" in name else "post_attention_layernorm"
            folded[name] = tensor * tensors[f"{layer}{norm}.weight"]
        elif name == "lm_head.weight":
            folded[name] = tensor * tensors["model.norm.weight"]
        elif tensor.ndim == 1:
            folded[name] = torch.ones_like(tensor)
    return folded


def seen_by(matrix):
    """What multiplies everything that reads or writes the stream with a matrix (width, d)."""

    def change(tensors):
        changed = {}
        for name, tensor in gains_folded(tensors).items():
            if any(writer in name for writer in WRITERS):
                changed[name] = matrix.T @ tensor
            elif tensor.ndim == 1:
                changed[name] = torch.ones(matrix.shape[1])
            else:
                changed[name] = tensor @ matrix
        return changed

    return change


def turn(seed=0):
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed)))[0]


rotated = seen_by(turn())


def narrowed(width):
    """What leaves the first coordinates of a rotated stream alone."""
    return seen_by(turn()[:, :width])


def widened(width):
    """What makes a stream wider by coordinates that nothing writes or reads."""
    return seen_by(torch.cat([turn(), torch.zeros(WIDTH, width - WIDTH)], dim=1))


def shuffled(tensors):
    """The hidden units of every MLP in another order."""
    random, changed = torch.Generator().manual_seed(1), dict(tensors)
    for name in [name for name in tensors if name.endswith("up_proj.weight")]:
        order = torch.randperm(len(tensors[name]), generator=random)
        for role in ("up_proj", "gate_proj"):
            changed[name.replace("up_proj", role)] = tensors[name.replace("up_proj", role)][order]
        down = name.replace("up_proj", "down_proj")
        changed[down] = tensors[down][:, order]
    return changed


def layers_of(other):
    """What takes the embedding of the model as it is and every layer of another one."""
    layers = {key: tensor.float() for key, tensor in load_file(HUB / other / WEIGHTS).items()}
    return lambda tensors: layers | {"model.embed_tokens.weight": tensors["model.embed_tokens.weight"]}


def attention_of(other):
    """What takes attention, and the norm before it, of another model."""
    names = ("self_attn", "input_layernorm")
    theirs = {key: tensor.float() for key, tensor in load_file(HUB / other / WEIGHTS).items()}
    return lambda tensors: (
        tensors | {key: tensor for key, tensor in theirs.items() if any(name in key for name in names)}
    )


def deeper(other):
    """What puts the layers of another model behind those of this one; written with `num_hidden_layers=12`."""
    layers = {key: tensor.float() for key, tensor in load_file(HUB / other / WEIGHTS).items() if ".layers." in key}
    behind = {re.sub(r"layers\.(\d+)", lambda found: f"layers.{int(found[1]) + 6}", key): layers[key] for key in layers}
    return lambda tensors: tensors | behind


def embedding(change):
    """What changes the rows of the tokens alone."""
    name = "model.embed_tokens.weight"
    return lambda tensors: tensors | {name: change(tensors[name])}


def with_tokenizer(folder, tokens):
    """A folder with a tokenizer that says which token has which number."""
    content = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": tokens, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def copied(name, folder):
    """A model of the Hub as it is."""
    return Path(shutil.copytree(HUB / name, folder))
