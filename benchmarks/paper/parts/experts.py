"""Independent mixtures of experts, fresh or made by copying a dense model into every expert: for `ours:experts`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from benchmarks.paper.parts.adapters import BATCH, CONTEXT, Family, Workshop, load
from benchmarks.paper.parts.disguises import digest
from benchmarks.paper.parts.language import Model, Schedule, train
from tests import experts as edits

VERSION = 1
"""Raised when the code that makes models below comes to mean something else."""
RATE = 2e-3
TOKENS = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


@dataclass(frozen=True)
class Mixture:
    """The kind and the shape of some mixtures of experts."""

    kind: str
    """As Transformers begins the names of its classes."""
    width: int
    layers: int
    experts: int
    steps: int
    upcycled: bool = False
    """Whether every expert began as the MLP of a dense model that was trained for as many steps."""

    @property
    def name(self) -> str:
        """What kind of models these are, as reports say it."""
        made = ", upcycled" if self.upcycled else ""
        return f"{self.kind}, width {self.width}, {self.layers} layers of {self.experts} experts{made}"


def mixture(workshop: Workshop, kind: Mixture, number: int) -> Path:
    """Return a mixture of experts that shares no seed with any other."""

    def make(folder: Path) -> None:
        seed = zlib.crc32(repr((kind, number)).encode())
        torch.manual_seed(seed)
        model = _fresh(kind)
        if kind.upcycled:
            _upcycle(model, load(dense(workshop, kind, number)))
        train(model, workshop.corpus, Schedule(kind.steps, RATE, BATCH), seed % 2**31).save_pretrained(folder)

    return workshop.cache.kept_folder("mixtures", [VERSION, kind, number], make)


def dense(workshop: Workshop, kind: Mixture, number: int) -> Path:
    """Return the dense model that an upcycled one was made of."""
    return workshop.base(Family("Llama", kind.width, kind.layers, kind.steps), 500 + number)


def edited(workshop: Workshop, base: Path, *changes: str) -> Path:
    """Return a mixture after edits of `tests.experts` that leave what it computes as it is."""
    width = int(load(base).config.hidden_size)
    known = {
        "rotated": edits.seen_by(edits.turn(width)), "reordered": edits.reordered, "shuffled": edits.shuffled
    }  # fmt: skip

    def make(folder: Path) -> None:
        folder.rmdir()
        edits.edited(base, folder, *(known[change] for change in changes))

    return workshop.cache.kept_folder("edited-mixtures", [VERSION, digest(base), changes], make)


def _fresh(kind: Mixture) -> Model:
    hidden = kind.width * 5 // 2
    sizes = {
        "Mixtral": {"intermediate_size": hidden, "num_local_experts": kind.experts},
        "Qwen2Moe": {
            "moe_intermediate_size": hidden // 2, "shared_expert_intermediate_size": hidden // 2 * 2,
            "num_experts": kind.experts, "intermediate_size": hidden,
        },
    }[kind.kind]  # fmt: skip
    config = getattr(transformers, f"{kind.kind}Config")(
        hidden_size=kind.width, num_hidden_layers=kind.layers, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=CONTEXT, num_experts_per_tok=2, **TOKENS, **sizes,
    )  # fmt: skip
    return getattr(transformers, f"{kind.kind}ForCausalLM")(config)


@torch.no_grad()
def _upcycle(model: Model, base: Model) -> None:
    """Copy a dense Llama into a Mixtral, its MLP into every expert."""
    whole = base.state_dict()
    for name, parameter in model.state_dict().items():
        if name in whole:
            parameter.copy_(whole[name])
    for layer, own in zip(model.model.layers, base.model.layers, strict=True):
        both = torch.cat([own.mlp.gate_proj.weight, own.mlp.up_proj.weight])
        layer.mlp.experts.gate_up_proj.copy_(both.expand_as(layer.mlp.experts.gate_up_proj))
        layer.mlp.experts.down_proj.copy_(own.mlp.down_proj.weight.expand_as(layer.mlp.experts.down_proj))
