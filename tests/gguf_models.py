"""GGUF files written by gguf's own writer and quantizers, as llama.cpp's converter would: names, shapes and values."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.torch import load_file

from tests.gguf_blocks import Array, quantized

KINDS = gguf.GGMLQuantizationType
EXAMPLES_OF_TYPES = ((KINDS.F32, np.float32), (KINDS.F16, np.float16), (KINDS.F64, np.float64), (KINDS.BF16, np.uint8))
EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(.+)")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
USED = ("num_experts_per_tok", "moe_topk", "moe_k")


def permuted(matrix: Array, heads: int) -> Array:
    """What llama.cpp's converter does to queries and keys (`LlamaModel.permute`)."""
    rows = matrix.shape[0]
    return matrix.reshape(heads, 2, rows // heads // 2, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def by_role(matrix: Array, heads: int, groups: int) -> Array:
    """What it does to Falcon's, Bloom's and GPT-NeoX's packed matrices: all queries, then all keys, then all values."""
    size = matrix.shape[0] // (groups * (heads // groups + 2))
    turns = matrix.reshape(groups, heads // groups + 2, size, *matrix.shape[1:])
    pieces = (turns[:, :-2], turns[:, -2:-1], turns[:, -1:])
    return np.concatenate([piece.reshape(-1, *matrix.shape[1:]) for piece in pieces])


def turned(name: str, matrix: Array, heads: int, groups: int) -> Array:
    found = re.search(r"\.([qk])_proj\.", name)
    return permuted(matrix, heads if found[1] == "q" else groups) if found else matrix


CHANGES: Mapping[str, Callable[[str, Array, int, int], Array]] = {
    **dict.fromkeys(("llama", "granite", "arcee", "smollm3", "olmo", "mistral3"), turned),
    **dict.fromkeys(
        ("gemma", "gemma2", "gemma3", "nemotron"),
        lambda name, matrix, *_: matrix + 1 if name.endswith(("norm.weight", "layernorm.weight")) else matrix,
    ),
    "gpt2": lambda name, matrix, *_: matrix.T if re.search(r"(c_attn|c_proj|c_fc)\.weight", name) else matrix,
    **dict.fromkeys(
        ("bloom", "gptneox", "falcon"),
        lambda name, matrix, heads, groups: by_role(matrix, heads, groups) if "query_key_value" in name else matrix,
    ),
}
"""What the converter of an architecture does to a tensor, by its name in transformers."""


def write(
    folder: Path,
    file: Path,
    architecture: str = "llama",
    kind: KINDS = KINDS.F32,
    of: Callable[[str], KINDS] | None = None,
    said: Mapping[str, Any] | None = None,
    heads: int | None = None,
    groups: int | None = None,
    **writer: Any,
) -> Path:
    """Write the model of a folder as GGUF; `of` may choose another type for a tensor, `said` adds metadata."""
    file.parent.mkdir(parents=True, exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    heads = heads or config.get("num_attention_heads") or config.get("n_head") or config.get("n_heads")
    groups = groups or config.get("num_key_value_heads") or heads
    stored: dict[str, Array] = {}
    for path in sorted(folder.glob("*.safetensors")):
        stored |= {name: tensor.float().numpy() for name, tensor in load_file(path).items()}
    tensors = converted(stored, architecture, heads, groups)
    out = gguf.GGUFWriter(str(file), architecture, **writer)
    layers = 1 + max(int(match[1]) for match in map(re.compile(r"blk\.(\d+)\.").match, tensors) if match)
    out.add_block_count(layers)
    out.add_head_count(heads)
    if "llama.attention.head_count_kv" not in (said or {}):
        out.add_head_count_kv(groups)
    out.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    rotary = config.get("rope_parameters") or {}
    theta = rotary.get("full_attention", rotary).get("rope_theta", config.get("rope_theta"))
    if theta and f"{architecture}.rope.freq_base" not in (said or {}):
        out.add_rope_freq_base(theta)
    out.add_token_list([f"word {number}" for number in range(300)])
    experts, used = (next((config[key] for key in keys if config.get(key)), None) for keys in (EXPERTS, USED))
    if experts is not None and used is not None:
        out.add_expert_count(experts)
        out.add_expert_used_count(used)
    for end in ("alpha_p", "alpha_n", "beta"):  # what the activation of each layer has learned
        names = [name for name in stored if name.endswith(f".act_fn.{end}")]
        if names:
            by_layer = sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0]))
            out.add_array(f"xielu.{end}", [float(stored[name].ravel()[0]) for name in by_layer])
    adds: dict[type, Callable[[str, Any], None]] = {str: out.add_string, int: out.add_uint32, float: out.add_float32}
    for key, value in (said or {}).items():
        adds[type(value)](key, value)
    for name, tensor in tensors.items():
        chosen = of(name) if of else kind
        small = tensor.ndim == 1 or tensor.shape[-1] % gguf.GGML_QUANT_SIZES[chosen][0]
        chosen = KINDS.F32 if small else chosen
        out.add_tensor(name, quantized(np.ascontiguousarray(tensor, np.float32), chosen), raw_dtype=chosen)
    finish(out)
    return file


def finish(out: gguf.GGUFWriter) -> None:
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def converted(stored: Mapping[str, Array], architecture: str, heads: int, groups: int) -> dict[str, Array]:
    """Tensors by their names in GGUF, and as the converter stores them."""
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, 64)
    change = CHANGES.get(architecture, lambda name, matrix, heads, groups: matrix)
    made: dict[str, Array] = {}
    stacks: dict[str, dict[int, Array]] = {}
    for name, tensor in stored.items():
        matrix = change(name, tensor, heads, groups)
        expert = EXPERT.fullmatch(name)
        if expert:
            stacks.setdefault(f"{expert[1]}.{expert[3]}", {})[int(expert[2])] = matrix
            continue
        name = name.replace("e_score_correction_bias", "e_score_correction.bias").removeprefix("bert.")
        name = name.removeprefix("transformer.") if architecture == "bloom" else name
        translated = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if translated is not None:
            made[translated] = matrix
    for name, experts in stacks.items():
        translated = names.get_name(name, try_suffixes=(".weight",))
        assert translated is not None, name
        made[translated] = np.stack([experts[number] for number in sorted(experts)])
    return made
