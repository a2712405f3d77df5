"""Tiny checkpoints on disk, and a few ways to spoil them: width 32, 2 layers, plain torch and safetensors."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.open_files import open_weights
from hf_lineage.checkpoint.weight_files import find_weights
from hf_lineage.hub.repo import RepoRef

WIDTH, HEADS, HIDDEN, VOCABULARY = 32, 4, 48, 50
WEIGHTS = "model.safetensors"
EXAMPLES = Path("examples/hub")
SMALL = {name: EXAMPLES / name for name in ("acme/llama-base", "fern/llama-finetune-a")}
"""Two of the example models, the one made from the other."""
Tensors = dict[str, torch.Tensor]
LOADABLE = {"vocab_size": VOCABULARY, "intermediate_size": HIDDEN, "num_key_value_heads": HEADS}
LOADABLE |= {"tie_word_embeddings": True}
"""What a tiny Llama's config.json needs besides, for transformers to build it."""


def open_checkpoint(repo: RepoRef, config: dict[str, Any] | None = None) -> Checkpoint:
    return open_weights(find_weights(repo), config or {})


def tiny_llama(folder: Path, seed: int = 0, layers: int = 2, width: int = WIDTH, **config: Any) -> Path:
    """A Llama of random weights; `config` goes into config.json as it is."""
    random = _normal(seed)
    tensors = {"model.embed_tokens.weight": random(VOCABULARY, width), "model.norm.weight": torch.ones(width)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{norm}.weight"] = torch.ones(width)
        for role in "qkvo":
            tensors[f"{prefix}.self_attn.{role}_proj.weight"] = random(width, width)
        for role in ("gate", "up"):
            tensors[f"{prefix}.mlp.{role}_proj.weight"] = random(HIDDEN, width)
        tensors[f"{prefix}.mlp.down_proj.weight"] = random(width, HIDDEN)
    said = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": HEADS}
    return _write(folder, said | {"hidden_size": width, "num_hidden_layers": layers} | config, tensors)


def tiny_gpt2(folder: Path, seed: int = 0, layers: int = 2, width: int = WIDTH, **config: Any) -> Path:
    """A GPT-2 of random weights, its matrices stored as (in, out)."""
    random = _normal(seed)
    tensors = {"wte.weight": random(VOCABULARY, width), "wpe.weight": random(16, width)}
    for layer in range(layers):
        for norm in ("ln_1", "ln_2"):
            tensors[f"h.{layer}.{norm}.weight"] = torch.ones(width)
            tensors[f"h.{layer}.{norm}.bias"] = torch.zeros(width)
        tensors[f"h.{layer}.attn.c_attn.weight"] = random(width, 3 * width)
        tensors[f"h.{layer}.attn.c_proj.weight"] = random(width, width)
        tensors[f"h.{layer}.mlp.c_fc.weight"] = random(width, 4 * width)
        tensors[f"h.{layer}.mlp.c_proj.weight"] = random(4 * width, width)
    said = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_head": HEADS}
    return _write(folder, said | {"n_embd": width, "n_layer": layers} | config, tensors)


def fine_tuned(source: Path, folder: Path, noise: float = 0.1, seed: int = 7) -> Path:
    """A copy whose every matrix has moved a little, with the card left behind."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("README.md"))
    random = _normal(seed)

    def move(tensors: Tensors) -> None:
        for name, tensor in tensors.items():
            tensors[name] = tensor + noise * tensor.std() * random(*tensor.shape) if tensor.ndim > 1 else tensor

    return spoil(folder, move)


def family(folder: Path) -> Path:
    """A folder that serves as a local hub: acme/base, and fern/child which is fine-tuned from it and says so."""
    base = tiny_llama(folder / "acme/base")
    card(fine_tuned(base, folder / "fern/child"), "acme/base", "finetune")
    return folder


def card(folder: Path, base_model: Any = None, relation: str | None = None) -> Path:
    """Write a model card that declares this; JSON is YAML, so any value can be said."""
    said = {"base_model": base_model, "base_model_relation": relation}
    front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items() if value is not None)
    (folder / "README.md").write_text(f"---\n{front}license: mit\n---\n\n# A model\n", encoding="utf-8")
    return folder


def spoil(folder: Path, change: Callable[[Tensors], object]) -> Path:
    """Read the weights, change them in place, and write them back."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)
    return folder


def shard(folder: Path) -> Path:
    """Split the single file into two shards with an index."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    edit_json(folder / "model.safetensors.index.json", metadata={"total_size": 0}, weight_map=weight_map)
    return folder


def edit_json(file: Path, **changes: Any) -> None:
    """Set keys of a JSON file, which need not exist; None removes one."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    left = {key: value for key, value in (content | changes).items() if value is not None or key not in changes}
    file.write_text(json.dumps(left), encoding="utf-8")


def raw_safetensors(file: Path, header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def logits(model: Path | str) -> torch.Tensor:
    """What a model says of a few tokens, (tokens, vocabulary), as transformers loads it."""
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(str(model), local_files_only=True, dtype=torch.float32)
    with torch.no_grad():
        said: torch.Tensor = loaded(input_ids=torch.arange(12)[None]).logits[0]
    return said


class Trap:
    """Pickled, it leaves a file behind where it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return open, (str(self.file), "w")


def _normal(seed: int) -> Callable[..., torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator) / shape[-1] ** 0.5


def _write(folder: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / WEIGHTS)
    return folder
