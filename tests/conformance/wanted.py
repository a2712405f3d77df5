"""What every class is asked for: a tiny configuration by the names that configurations give their sizes."""

from __future__ import annotations

from typing import Any

WIDTH, HEADS = 32, 4
PICTURE, SOUND = 24, 144
"""How many pixels wide a picture is and, halved, how many samples long a sound: 144 patches or frames of two."""
_SPELLINGS: dict[int, str] = {
    WIDTH: "hidden_size d_model n_embd dim embedding_size input_embedding_size output_embedding_size "
    "word_embed_proj_dim num_conv_pos_embeddings embed_dim out_hidden_size projection_dim",
    6: "qk_rope_head_dim",
    10: "qk_nope_head_dim",
    12: "v_head_dim",
    14: "kv_lora_rank",
    18: "q_lora_rank",
    1: "num_feat_extract_layers temporal_patch_size squeeze_factor",
    2: "num_hidden_layers depth n_layer n_layers num_layers decoder_layers encoder_layers num_experts_per_tok moe_topk "
    "moe_k num_key_value_heads moe_num_shared_experts n_shared_experts patch_size "
    "num_conv_pos_embedding_groups num_frames tubelet_size frequency_stride time_stride",
    HEADS: "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
    "encoder_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts",
    24: "head_dim moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size image_size "
    "num_mel_bins max_length",
    40: "intermediate_size ffn_dim n_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim hidden_dim",
    64: "vocab_size",
    SOUND: "max_source_positions",
    512: "max_position_embeddings n_positions max_seq_len max_target_positions n_ctx",
}
TINY: dict[str, Any] = {key: value for value, keys in _SPELLINGS.items() for key in keys.split()} | {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_bias": True,
    "mlp_bias": True,
    "deepstack_visual_indexes": [0],
    "conv_dim": (WIDTH,),
    "conv_kernel": (2,),
    "conv_stride": (2,),
    "sliding_window": 512,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"), 1e-12),
}
"""What every configuration is asked for, as far as it has the attribute."""

LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 12),
}
"""For layers of two kinds, only one of which has attention."""

MAMBA: dict[str, Any] = {
    **{"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_d_state": 6, "mamba_n_groups": 1},
    **{"mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 6, "n_groups": 1, "conv_kernel": 4},
}
"""For a state-space mixer, by the two sets of names that there are."""

LATENT = {"num_key_value_heads": HEADS, "head_dim": 6, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
"""For latent attention, which has no groups of queries, and which rotates only a part of every head."""

INDEXED = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 512}
"""For attention that looks at a choice of tokens: at all of them."""


STAGES: dict[str, Any] = {"hidden_sizes": [WIDTH, WIDTH], "depths": [2, 2]}
"""For a network of stages."""


WINDOWS: dict[str, Any] = {
    **{"depths": [2], "image_size": 48, "patch_size": 4, "window_size": 12},
    **{key: [HEADS] for key in ("num_heads", "num_attention_heads")},
}
"""For a network with attention within windows: one, and one stage, since each is twice as wide as the one before."""


def by_axis(*angles: int) -> dict[str, Any]:
    """For a language model whose rotary angles are divided between time, height and width."""
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(angles)}
    return {"text_config": {"rope_parameters": rotary}}


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "Albert": [{"num_hidden_groups": 2, "inner_group_num": 2, "num_hidden_layers": 4}],
    "AriaText": [{"moe_topk": 4}],
    "AXK1": [LATENT],
    "Bamba": [MAMBA | {"attn_layer_indices": [1]}],
    "BeitForSemantic": [{"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]}],
    "CodeGen": [{"rotary_dim": 4}],
    "Cohere2Moe": [{"first_k_dense_replace": 1, "num_shared_experts": 2}],
    "CohereForCausalLM": [{}, {"use_qk_norm": True}],
    "ConvNext": [STAGES | {"num_stages": 2}],
    "CTRL": [{"dff": 40}],
    "Data2VecAudio": [{"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 1}],
    "Dbrx": [
        {
            "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 4, "moe_top_k": 4, "hidden_size": WIDTH},
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 1e4, "rope_theta": 1e4},
        }
    ],
    "Deberta": [
        {},
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True},
    ],
    "DeepseekV2": [LATENT],
    "DeepseekV3": [LATENT],
    "DeepseekV32": [LATENT | INDEXED],
    "DINOv3ConvNext": [STAGES],
    "Dinov2": [{}, {"use_swiglu_ffn": True}],
    "DonutSwin": [WINDOWS],
    "Dots1": [{"first_k_dense_replace": 1, "n_shared_experts": 2}],
    "Exaone4": [{"sliding_window_pattern": 2}],
    "Falcon": [
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        {"multi_query": True, "parallel_attn": True},
        {"multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
    ],
    "FalconH1": [MAMBA | {"mamba_d_ssm": 64}],
    "Flint": [{"mlp_only_layers": [0]}],
    "Glm46V": [by_axis(2, 1, 1)],
    "Glm4Moe": [{"use_qk_norm": True}],
    "Glm4MoeLite": [LATENT],
    "Glm4v": [by_axis(2, 1, 1)],
    "Glm4vMoe": [by_axis(1, 1, 0)],
    "Glm4vText": [by_axis(2, 1, 1)["text_config"]],
    "GlmMoeDsa": [LATENT | INDEXED],
    "GlmOcr": [by_axis(2, 1, 1)],
    "GlmOcrText": [by_axis(2, 1, 1)["text_config"]],
    "GPTBigCode": [{"multi_query": True}, {"multi_query": False}],
    "GPTJ": [{"rotary_dim": 4}],
    "GPTNeo": [{"attention_types": [[["global", "local"], 1]]}],
    "GPTNeoX": [{"use_parallel_residual": True}, {"use_parallel_residual": False}],
    "GraniteMoeHybrid": [MAMBA | {"layer_types": ["linear_attention", "full_attention"]}],
    "GroupViTModel": [
        {
            "vision_config": {
                "depths": [2, 2],
                "image_size": 48,
                "num_group_tokens": [128, 8],
                "num_output_groups": [128, 8],
            }
        }
    ],
    "Helium": [{"head_dim": 8}],
    "Jamba": [{"attn_layer_period": 2, "attn_layer_offset": 1}],
    "JetMoe": [{"num_experts_per_tok": 4}],
    "LayoutLMv3": [{"coordinate_size": 4, "shape_size": 8}],
    "Lfm2": [{"layer_types": ["conv", "full_attention"]}],
    "Lfm2Moe": [{"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}],
    "Llama4": [{"interleave_moe_layer_step": 2}],
    "Llava": [{}, *({"text_config": {"model_type": kind}} for kind in ("mistral", "qwen2", "qwen3"))],
    "LlavaNext": [{}],
    "LlavaOnevision": [{}],
    "Longformer": [{"attention_window": 4}],
    "Luke": [{"entity_vocab_size": 8, "entity_emb_size": WIDTH}],
    "MiMoV2Flash": [{"attention_value_scale": None}],
    "MiniCPM3": [LATENT],
    "MiniMax": [LINEAR],
    "MiniMaxM2": [{}],
    "Mistral4": [LATENT],
    "ModernBert": [{"local_attention": 1024}],
    "Musicgen": [{"num_codebooks": 1}],
    "NemotronH": [{"layers_block_type": [kind, "attention"]} | MAMBA for kind in ("mlp", "moe", "mamba")],
    "PaddleOCRText": [by_axis(4, 4, 4)["text_config"]],
    "PaddleOCRVL": [by_axis(4, 4, 4)],
    "PhiForCausalLM": [{}, {"qk_layernorm": True}],
    "Qwen2_5_VL": [by_axis(2, 1, 1)],
    "Qwen2_5_VLText": [by_axis(2, 1, 1)["text_config"]],
    "Pvt": [
        STAGES
        | {"num_encoder_blocks": 2, "num_attention_heads": [4, 4], "mlp_ratios": [2, 2]}
        | {"sequence_reduction_ratios": [1, 1], "patch_sizes": [4, 2], "strides": [4, 2], "image_size": 48}
    ],
    "Qwen2Moe": [{}, {"mlp_only_layers": [0]}],
    "Qwen2VL": [by_axis(2, 1, 1)],
    "Qwen2VLText": [by_axis(2, 1, 1)["text_config"]],
    "Qwen3_5": [LINEAR],
    "Qwen3_5ForCond": [{"text_config": LINEAR}],
    "Qwen3_5Model": [{"text_config": LINEAR}],
    "Qwen3_5MoeForCond": [{"text_config": LINEAR}],
    "Qwen3_5MoeModel": [{"text_config": LINEAR}],
    "Qwen3Moe": [{}, {"mlp_only_layers": [1]}],
    "Qwen3Next": [LINEAR],
    "RecurrentGemma": [{"block_types": ["recurrent", "attention"]}],
    "RoCBert": [{"pronunciation_vocab_size": 64, "shape_vocab_size": 64}],
    "StableLm": [
        {"use_parallel_residual": False},
        {"use_parallel_residual": True},
        {"use_parallel_residual": False, "qk_layernorm": True, "use_qkv_bias": True},
    ],
    "RegNet": [STAGES],
    "ResNet": [STAGES],
    "Swin": [WINDOWS],
    "ViTMAE": [
        {"mask_ratio": 0.0, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_intermediate_size": 16}
    ],
    "Vivit": [{"tubelet_size": [2, 2, 2]}],
    "XLMFor": [{"n_langs": 1}],
    "XLMModel": [{"n_langs": 1}],
    "XLMWith": [{"n_langs": 1}],
    "Yolos": [{"image_size": [24, 24]}],
    "Youtu": [LATENT],
}
"""For a class that the generic request does not fit, or that has several forms: one request for each."""


def variants(name: str) -> list[dict[str, Any]]:
    """The requests for a class; those under a shorter name stand for the whole family, the longest counts."""
    fitting = max((key for key in VARIANTS if name.startswith(key)), key=len, default="")
    return VARIANTS.get(fitting, [{}])
