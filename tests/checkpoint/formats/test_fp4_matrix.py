"""Four-bit floats: the experts of gpt-oss as transformers converts them, NVFP4 as compressed-tensors unpacks it."""

import json
import re

import numpy as np
import pytest
import torch
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from safetensors.torch import save_file

from hf_lineage import Options, compare
from hf_lineage.errors import CheckpointError
from tests.models import WEIGHTS, spoil
from tests.quantizing import BASE, decoded, judged, matrices, opened, repacked

LEVELS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def rounded(numbers):
    """The nearest numbers of four bits."""
    nearest = (numbers.abs()[..., None] - LEVELS).abs().argmin(dim=-1)
    return LEVELS[nearest] * numbers.sign()


def nvfp4(matrix):
    """As modelopt stores it."""
    whole = matrix.abs().amax() / (448 * 6)
    cells = matrix.reshape(len(matrix), -1, 16)
    scales = (cells.abs().amax(dim=2) / 6 / whole).to(torch.float8_e4m3fn)
    numbers = rounded(cells / (scales.float() * whole).clamp(min=1e-9)[..., None]).reshape(matrix.shape)
    return {
        ".weight": pack_fp4_to_uint8(numbers),
        ".weight_scale": scales,
        ".weight_scale_2": whole.reshape(()),
        ".input_scale": torch.tensor(1.0),
    }


MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}


def test_nvfp4_of_modelopt_is_decoded_by_both_of_its_scales(tmp_path):
    stored = decoded(repacked(BASE, tmp_path / "model", nvfp4, **MODELOPT))
    for module, matrix in matrices(BASE).items():
        parts = nvfp4(matrix)
        numbers = unpack_fp4_from_uint8(parts[".weight"], *matrix.shape, torch.float32)
        scales = parts[".weight_scale"].float() * parts[".weight_scale_2"]
        np.testing.assert_array_equal(stored[module], (numbers * scales.repeat_interleave(16, 1)).numpy())


def test_a_copy_in_nvfp4_is_related_and_an_independent_model_is_not(tmp_path):
    score, other = judged(tmp_path, nvfp4, **MODELOPT)
    assert score > 0.9
    assert other == "UNRELATED"


WIDTH, HIDDEN, EXPERTS, LAYERS = 64, 96, 4, 2
CONFIG = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
}


def gpt_oss(folder, seed):
    """A small model of this class, as it is trained: its experts not quantized, (experts, in, out)."""
    random = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(*shape, generator=random).bfloat16() / shape[-1] ** 0.5

    tensors = {"model.embed_tokens.weight": drawn(50, WIDTH), "model.norm.weight": torch.ones(WIDTH)}
    for layer in range(LAYERS):
        start = f"model.layers.{layer}"
        tensors |= {
            f"{start}.{norm}.weight": torch.ones(WIDTH) for norm in ("input_layernorm", "post_attention_layernorm")
        }
        for role, rows in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2)):
            tensors[f"{start}.self_attn.{role}_proj.weight"] = drawn(rows, WIDTH)
        tensors |= {
            f"{start}.self_attn.o_proj.weight": drawn(WIDTH, WIDTH),
            f"{start}.mlp.router.weight": drawn(EXPERTS, WIDTH),
        }
        tensors |= {
            f"{start}.self_attn.{role}_proj.bias": torch.zeros(rows)
            for role, rows in (("q", 64), ("k", 32), ("v", 32), ("o", 64))
        }
        tensors[f"{start}.mlp.router.bias"] = torch.zeros(EXPERTS)
        tensors[f"{start}.self_attn.sinks"] = torch.zeros(CONFIG["num_attention_heads"])
        tensors[f"{start}.mlp.experts.gate_up_proj"] = drawn(EXPERTS, WIDTH, 2 * HIDDEN)
        tensors[f"{start}.mlp.experts.gate_up_proj_bias"] = torch.zeros(EXPERTS, 2 * HIDDEN)
        tensors[f"{start}.mlp.experts.down_proj"] = drawn(EXPERTS, HIDDEN, WIDTH)
        tensors[f"{start}.mlp.experts.down_proj_bias"] = torch.zeros(EXPERTS, WIDTH)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / WEIGHTS)
    return folder


def blocks(stack):
    """Blocks of 32 inputs and their powers of two, as the release stores a stack (experts, in, out)."""
    rows = stack.float().mT.contiguous()
    cells = rows.reshape(*rows.shape[:2], -1, 32)
    powers = torch.floor(torch.log2(cells.abs().amax(dim=3).clamp(min=1e-9))) - 2
    numbers = rounded((cells / torch.exp2(powers)[..., None]).clamp(-6, 6))
    packed = pack_fp4_to_uint8(numbers.reshape(-1, 32)).reshape(*cells.shape[:3], 16)
    return packed, (powers + 127).to(torch.uint8)


def packed(folder):
    """The same model with its experts in MXFP4."""

    def change(tensors):
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks(tensors.pop(name))

    (folder / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": {"quant_method": "mxfp4"}}))
    return spoil(folder, change)


def test_the_experts_of_gpt_oss_are_those_of_transformers(tmp_path):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    plain, checkpoint = opened(gpt_oss(tmp_path / "plain", 0)), opened(packed(gpt_oss(tmp_path / "model", 0)))
    for name, info in plain.tensors.items():
        assert checkpoint.tensors[name].shape == info.shape
        if "experts" in name and "bias" not in name:
            stack = torch.from_numpy(plain.read(name).astype(np.float32))
            expected = convert_moe_packed_tensors(*blocks(stack)).float().numpy()
            np.testing.assert_array_equal(checkpoint.read(name).astype(np.float32), expected)
            assert checkpoint.read(name).dtype.name == "bfloat16"


def test_a_release_in_mxfp4_is_related_to_the_trained_weights_and_an_independent_one_is_not(tmp_path):
    base, child = gpt_oss(tmp_path / "base", 0), packed(gpt_oss(tmp_path / "child", 0))
    other = packed(gpt_oss(tmp_path / "other", 1))
    options = Options(order_seed=0, recompute=True)
    outcome = compare(str(base), str(child), options).rows[0].verdict
    assert outcome.name == "RELATED"
    assert outcome.evidence["mlp"].comparison.score > 0.9
    assert compare(str(base), str(other), options).rows[0].verdict.name == "UNRELATED"


DOWN = "model.layers.0.mlp.experts.down_proj"


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        ("_scales", None, f"{DOWN}_scales is missing, and {DOWN}_blocks cannot be decoded"),
        ("_scales", torch.zeros(4, 64, 2, dtype=torch.uint8), f"{DOWN}_scales has shape (4, 64, 2), but the rest"),
        ("_scales", torch.full((4, 64, 3), 255, dtype=torch.uint8), f"{DOWN}_scales holds scales that are not finite"),
        (
            "_blocks",
            torch.zeros(4, 64, 48, dtype=torch.uint8),
            "has shape (4, 64, 48), which does not fit experts in",
        ),
        ("_blocks", torch.zeros(4, 64, 3, 8, dtype=torch.uint8), "which does not fit experts in blocks of 32"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(end, part, message, tmp_path):
    def damage(tensors):
        tensors.pop(f"{DOWN}{end}")
        tensors.update({} if part is None else {f"{DOWN}{end}": part})

    folder = spoil(packed(gpt_oss(tmp_path / "model", 0)), damage)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        opened(folder).read(DOWN)
