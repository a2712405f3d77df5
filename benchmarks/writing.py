"""Checkpoints of random weights and signatures of random numbers, on disk as the real ones are."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file

from benchmarks.shapes import PREFIXES, Model, Shape, Tensors

SIGNS_AND_EXPONENTS, SMALLEST, MANTISSAS = 0x8180, 0x3C00, 0x007F
"""Parts of a bfloat16: together they spread from ±2⁻⁷ to ±2⁻³, with none too large, too small or not a number."""
ONE = 0x3F80
"""Gains of norms lie between one and two: with smaller ones the branches behind them would add next to nothing."""
INDEX = "model.safetensors.index.json"


def write_models(models: Mapping[Path, Model]) -> None:
    for folder, model in models.items():
        write_model(model, folder)


def write_model(model: Model, folder: Path) -> None:
    """Write a checkpoint of random weights as `save_pretrained` leaves it: a shard for each layer, tokenizer.

    A child has its parent's signs and exponents and mantissas of its own: the cosine of their weights is 0.96.
    """
    folder.mkdir(parents=True)
    shape = model.shape
    prefix = PREFIXES[shape.architecture]
    parts = [shape.embeddings] + [
        {f"{prefix}.{layer}.{name}": size for name, size in shape.layer.items()} for layer in range(shape.layers)
    ]
    weight_map: dict[str, str] = {}
    for number, sizes in enumerate(parts):
        file = f"model-{number + 1:05}-of-{len(parts):05}.safetensors"
        _write_shard(folder / file, sizes, number, model)
        weight_map |= dict.fromkeys(sizes, file)
    _write_json(folder / INDEX, {"metadata": {"total_size": shape.bytes}, "weight_map": weight_map})
    _write_json(folder / "config.json", CONFIGS[shape.architecture](shape))
    write_tokenizer(folder, shape.vocabulary)


def write_empty(shape: Shape, folder: Path) -> None:
    """Write a folder whose configuration is a model's and whose weights are an empty file."""
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", CONFIGS[shape.architecture](shape))
    (folder / "model.safetensors").touch()


def _write_shard(file: Path, sizes: Tensors, number: int, model: Model) -> None:
    shared, own = (
        np.random.Generator(np.random.SFC64([model.seed, number, stream])) for stream in (0, 1 + model.child)
    )
    tensors = {}
    for name, size in sizes.items():
        words, mantissas = _words(shared, size), _words(own, size)
        gain = len(size) == 1 and name.endswith("weight")
        words &= 0 if gain else SIGNS_AND_EXPONENTS
        words |= ONE if gain else SMALLEST
        words |= np.bitwise_and(mantissas, MANTISSAS, out=mantissas)
        # The upper half of a float32 is a bfloat16.
        tensors[name] = words.astype("<u4") << 16 if model.shape.dtype == "float32" else words
    specs = {
        name: TensorSpec(dtype=model.shape.dtype, shape=words.shape, data_ptr=words.ctypes.data, data_len=words.nbytes)
        for name, words in tensors.items()
    }
    serialize_file(specs, file, {"format": "pt"})


def _words(random: np.random.Generator, size: tuple[int, ...]) -> NDArray[np.uint16]:
    count = math.prod(size)
    drawn = random.integers(2**64, size=-(-count // 4), dtype=np.uint64)
    return drawn.view(np.uint16)[:count].reshape(size)


def write_tokenizer(folder: Path, words: int) -> None:
    """Write a tokenizer that knows this many words: what `tokenizers` saves, and what transformers loads."""
    vocabulary = {"<unk>": 0} | {f"word{number}": number for number in range(1, words)}
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    unknown = {"id": 0, "content": "<unk>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    tokenizer = {"version": "1.0", "added_tokens": [unknown | flags], "pre_tokenizer": {"type": "Whitespace"}}
    _write_json(folder / "tokenizer.json", parts | tokenizer | {"model": model})
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    _write_json(folder / "tokenizer_config.json", said)


def write_signatures(folder: Path, shape: Shape, others: int = 0) -> None:
    """Write the signatures `a.sig` and `b.sig` of two related models of a shape: random numbers, the same in part.

    Those of `others` independent models are beside them, `0.sig` and so on.
    """
    from hf_lineage import RECIPES, Signature, save_signature
    from hf_lineage.signature.values import PathSignature

    folder.mkdir(parents=True)
    recipe = RECIPES["robust"]
    coordinates = min(recipe.coordinates, shape.width)
    sizes = {
        "sketch": (shape.layers, shape.width, min(recipe.probes or shape.width, shape.width)),
        "corner": (shape.layers, coordinates, coordinates),
    }
    random = np.random.Generator(np.random.SFC64(0))
    shared = {part: _normal(random, size) for part, size in sizes.items()}
    inherited = tuple(_units(random, shape.hidden) for _ in range(shape.layers))
    for name in ("a", "b", *map(str, range(others))):
        common, own = (1, 0.25) if name in ("a", "b") else (0, 1)
        parts = {part: common * shared[part] + own * _normal(random, size) for part, size in sizes.items()}
        units = inherited if common else tuple(_units(random, shape.hidden) for _ in range(shape.layers))
        trace, norm = (np.full(shape.layers, size) for size in (-300.0, 100.0))
        found = PathSignature(**parts, trace=trace, norm=norm, units=units)
        signature = Signature(
            name, None, shape.architecture, "llama", True, shape.width, shape.layers, recipe, {"mlp": found}
        )
        save_signature(signature, folder / f"{name}.sig")


def _units(random: np.random.Generator, hidden: int) -> Any:
    """The directions of the hidden units of one layer, random ones of one size."""
    from hf_lineage.signature.recipe import UNIT_SIGNS
    from hf_lineage.signature.values import UnitCodes

    rows = (random.integers(256, size=(hidden, UNIT_SIGNS // 8), dtype=np.uint8) for _ in range(3))
    return UnitCodes(np.full(hidden, 1 / hidden, np.float32), *rows)


def _normal(random: np.random.Generator, size: tuple[int, ...]) -> Any:
    return random.standard_normal(size, dtype=np.float32)


def _llama_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": [shape.architecture],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.groups,
        "head_dim": shape.head_size,
        "vocab_size": shape.vocabulary,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": shape.dtype,
    }


def _mixtral_config(shape: Shape) -> dict[str, Any]:
    experts = {"num_local_experts": shape.experts, "num_experts_per_tok": 2}
    return _llama_config(shape) | {"model_type": "mixtral"} | experts


def _qwen_moe_config(shape: Shape) -> dict[str, Any]:
    experts = {"num_experts": shape.experts, "num_experts_per_tok": 8, "moe_intermediate_size": shape.hidden}
    settings = {"model_type": "qwen3_moe", "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
    return _llama_config(shape) | settings | experts


def _gpt_oss_config(shape: Shape) -> dict[str, Any]:
    experts = {"num_local_experts": shape.experts, "num_experts_per_tok": 4}
    return _llama_config(shape) | {"model_type": "gpt_oss", "attention_bias": True, "swiglu_limit": 7.0} | experts


def _gpt2_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": [shape.architecture],
        "model_type": "gpt2",
        "n_embd": shape.width,
        "n_inner": shape.hidden,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "vocab_size": shape.vocabulary,
        "torch_dtype": shape.dtype,
    }


CONFIGS = {
    "LlamaForCausalLM": _llama_config,
    "MixtralForCausalLM": _mixtral_config,
    "Qwen3MoeForCausalLM": _qwen_moe_config,
    "GptOssForCausalLM": _gpt_oss_config,
    "GPT2LMHeadModel": _gpt2_config,
}


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")
