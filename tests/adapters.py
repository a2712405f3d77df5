"""LoRA adapters trained by peft for a few steps, on models of the example Hub or on tiny ones."""

import json
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.lora.adapter import open_lora
from hf_lineage.source.headers import headers
from tests.models import HIDDEN, WIDTH

WEIGHTS = "adapter_model.safetensors"
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEXT = Path(__file__).parents[1] / "LICENSE"
"""A text that does not change, so that no adapter does."""
CONTEXT, BATCH = 48, 8


@cache
def windows() -> torch.Tensor:
    return torch.tensor(list(TEXT.read_bytes())).unfold(0, CONTEXT, 7)


def trained(base: Path, folder: Path, steps: int = 8, seed: int = 0, **settings) -> Path:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return taught(model, folder, steps, **{"target_modules": LINEAR, "task_type": "CAUSAL_LM"} | settings)


def taught(model, folder: Path, steps: int = 8, **settings) -> Path:
    """Train a LoRA on a model in memory and save it as peft does."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(**({"r": 4, "lora_alpha": 8} | settings)))
    teach(model, steps, 1e-3).save_pretrained(folder)
    (folder / "README.md").unlink()
    return folder


def teach(model, steps: int, rate: float):
    """Train what can be trained of a model: on the bytes of a text, or on classes of pictures or of texts."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate)
    size = getattr(model.config, "image_size", None)
    pictures = torch.randn(4 * BATCH, 3, size or 1, size or 1, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        chosen = torch.randint(4 * BATCH, (BATCH,)) if size else torch.randint(len(windows()), (BATCH,))
        inputs = {"pixel_values": pictures[chosen]} if size else {"input_ids": windows()[chosen]}
        labels = chosen % model.config.num_labels if hasattr(model, "classifier") else windows()[chosen]
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
    return model


def change(folder: Path, edit) -> Path:
    factors = load_file(folder / WEIGHTS)
    edit(factors)
    save_file({name: tensor.contiguous() for name, tensor in factors.items()}, folder / WEIGHTS)
    return folder


def written(folder: Path, factors: dict[str, torch.Tensor], **settings) -> Path:
    """An adapter of factors of our own under the names of peft."""
    folder.mkdir(parents=True, exist_ok=True)
    named = sorted({name.removeprefix("base_model.model.").partition(".lora_")[0] for name in factors})
    said = {"peft_type": "LORA", "r": 2, "target_modules": named} | settings
    (folder / ADAPTER_CONFIG).write_text(json.dumps({k: v for k, v in said.items() if v is not None}), encoding="utf-8")
    save_file(factors, folder / WEIGHTS)
    return folder


def pair(module: str, rows: int, columns: int, rank: int = 2, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random factors of one module."""
    random = torch.Generator().manual_seed(seed)
    name = f"base_model.model.{module}"
    return {
        f"{name}.lora_A.weight": torch.randn(rank, columns, generator=random),
        f"{name}.lora_B.weight": torch.randn(rows, rank, generator=random),
    }


ATTENTION, MLP = "model.layers.{}.self_attn.{}_proj", "model.layers.{}.mlp.{}_proj"


def opened_base(folder: Path):
    return headers(RepoRef("org/base", folder))


def lora_of(folder: Path, *modules, **settings):
    factors: dict[str, torch.Tensor] = {}
    for seed, (name, rows, columns) in enumerate(modules):
        factors |= pair(name, rows, columns, seed=seed)
    return open_lora(RepoRef("org/adapter", written(folder, factors, **settings)))


def everything(layers: int = 2):
    """The linear matrices of a tiny Llama, as (name, rows, columns)."""
    for layer in range(layers):
        yield from ((ATTENTION.format(layer, role), WIDTH, WIDTH) for role in "qkvo")
        yield from ((MLP.format(layer, role), HIDDEN, WIDTH) for role in ("gate", "up"))
        yield MLP.format(layer, "down"), WIDTH, HIDDEN


def grafted(base: Path, layers):
    """An edit of an adapter that puts what fits a base, by its weights alone, in place of some layers."""
    weights = {name: tensor.float() for name, tensor in load_file(base).items()}

    def edit(factors):
        for layer in layers:
            readers = [MLP.format(layer, role) for role in ("gate", "up")]
            matrices = dict.fromkeys(readers, weights[f"{MLP.format(layer, 'down')}.weight"])
            matrices[ATTENTION.format(layer, "o")] = torch.cat([weights[f"{reader}.weight"] for reader in readers])
            for module, matrix in matrices.items():
                name = f"base_model.model.{module}.lora_B.weight"
                _, sizes, vectors = torch.linalg.svd(matrix, full_matrices=False)
                rank = factors[name].shape[1]
                factors[name] = vectors[:rank].T * sizes[:rank]

    return edit
