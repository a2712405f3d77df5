"""Settings that the classes of a kind share."""

from __future__ import annotations

from typing import Any

WIDTH, HEADS = 32, 4
PICTURE, SOUND = 24, 144
"""How many pixels wide a picture is and, halved, how many samples long a sound: 144 patches or frames of two."""

LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), 12),
    "linear_num_heads": HEADS,
}
"""For layers of two kinds, only one of which has attention."""

MAMBA: dict[str, Any] = {
    **{"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_d_state": 6, "mamba_n_groups": 1},
    **{"mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 6, "n_groups": 1, "conv_kernel": 4},
    **dict.fromkeys(("mamba_chunk_size", "chunk_size"), 16),
}
"""For a state-space mixer, by the two sets of names that there are."""

LATENT = {"num_key_value_heads": HEADS, "head_dim": 6, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
"""For latent attention, which has no groups of queries, and which rotates only a part of every head."""

EACH = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}
"""For rotary angles that are set for each kind of layer."""

SHORT = {"swa_num_attention_heads": HEADS, "swa_num_key_value_heads": 2, "swa_head_dim": 8}
"""For layers that look at few tokens, which count their heads apart."""

CAPPED = SHORT | {"final_logit_softcapping": 30.0}
SEEING = {"text_config": CAPPED, "vision_config": {"text_hidden_size": WIDTH, "projection_hidden_dim": 40}}
"""The same in a model that does not work without a cap on its results, alone and inside a model of images."""

BYTES: dict[str, Any] = {
    **{"patch_in_forward": False, "use_cache": False, "encoder_hash_byte_group_vocab": 8},
    **{f"{part}_config": {"head_dim": 8} for part in ("global", "patcher")},
    **{f"{part}_config": {"head_dim": 8, "hidden_size_global": WIDTH} for part in ("encoder", "decoder")},
}
"""For a model of bytes: every byte is a patch of its own."""

INDEXED = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 512}
"""For attention that looks at a choice of tokens: at all of them."""

NOTE = {"num_key_value_heads": HEADS, "shared_experts_intermediate_size": 24} | INDEXED
HEARING = {
    "text_config": NOTE,
    "vision_config": {"mlp_layer_types": ["dense", "dense"], "adapter_in_dim": WIDTH, "adapter_out_dim": WIDTH},
    "audio_config": {"adapter_input_size": WIDTH, "adapter_out_dim": WIDTH},
}
"""For attention both latent and indexed, alone and inside a model of images and sounds."""

BY_LAYER = {"vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 16}
"""For a language model that has an input of its own for every layer."""

GEMMA4 = BY_LAYER | {"global_head_dim": 24}
"""The same, with heads of another size in the layers of full attention."""

SHARED = {"layer_types": ["full_attention"] * 2, "num_kv_shared_layers": 1}
"""For layers of which the second takes keys and values from the first."""

MINIMAX_M3 = {
    **{"mlp_layer_types": ["dense", "sparse"], "layer_types": ["minimax_m3_sparse", "full_attention"]},
    **{"dense_intermediate_size": 40, "rotary_dim": 6, "index_head_dim": 16},
}
"""For a dense layer before one of experts, the first with attention that looks at a choice of tokens."""

QWEN4 = LINEAR | {
    **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 24},
    **{"indexer_budget": 512, "indexer_compress_ratio": 4, "hc_lowrank": 8, "output_gate_type": "silu"},
    **{"ple_layer_ids": [1], "ngram_vocab_size_base": 64, "split_ngram_parts": 2},
}
"""For several residual streams, attention that looks at a choice of tokens, and an embedding of sequences of tokens."""

REFORMER = {
    **{"attn_layers": ["local", "lsh"], "local_attn_chunk_length": 256, "lsh_attn_chunk_length": 256, "num_buckets": 2},
    **{"axial_pos_shape": [16, 16], "axial_pos_embds_dim": [16, 16], "attention_head_size": 8, "feed_forward_size": 40},
}
"""For attention within pieces of a sequence, and for attention by hashes."""

STAGES: dict[str, Any] = {"hidden_sizes": [WIDTH, WIDTH], "depths": [2, 2]}
"""For a network of stages."""

WINDOWS: dict[str, Any] = {
    **{"depths": [2], "image_size": 48, "patch_size": 4, "window_size": 12},
    **{key: [HEADS] for key in ("num_heads", "num_attention_heads")},
}
"""For a network with attention within windows: one, and one stage, since each is twice as wide as the one before."""

DAVIT = {
    **{"patch_size": [3] * 4, "embed_dim": [8, 8, 8, WIDTH], "depths": [1] * 4},
    **{"num_heads": [2] * 4, "num_groups": [2] * 4},
}
"""For four stages, of which the last gives as many channels as a language model reads."""

GROUPS = {
    "depths": [2, 2],
    "image_size": 48,
    "patch_size": 4,
    "num_group_tokens": [128, 8],
    "num_output_groups": [128, 8],
}
"""For two stages, before tokens are grouped and after."""

PHI4: dict[str, Any] = {
    "vision_config": {"crop_size": 24, "feature_layer": -1},
    "audio_config": {
        **dict.fromkeys(("ext_pw_out_channel", "depthwise_separable_out_channel", "nemo_conv_channels"), WIDTH),
        **{"num_blocks": 1, "feature_layer": -1, "input_size": 16},
    },
}
"""For a model that sees and hears."""


def by_axis(*angles: int) -> dict[str, Any]:
    """For a language model whose rotary angles are divided between time, height and width."""
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(angles)}
    return {"text_config": {"rope_parameters": rotary}}
