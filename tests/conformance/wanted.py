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
    2: "num_hidden_layers depth n_layer n_layers num_layers encoder_layers num_encoder_layers num_experts_per_tok "
    "moe_topk moe_k num_key_value_heads moe_num_shared_experts n_shared_experts patch_size "
    "num_conv_pos_embedding_groups num_frames tubelet_size frequency_stride time_stride",
    3: "decoder_layers num_decoder_layers",
    HEADS: "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
    "encoder_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts",
    24: "head_dim d_kv moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size image_size "
    "num_mel_bins max_length",
    40: "intermediate_size d_ff ffn_dim n_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim hidden_dim",
    64: "vocab_size num_position_embeddings",
    SOUND: "max_source_positions",
    512: "max_position_embeddings n_positions max_seq_len max_target_positions n_ctx",
}
TINY: dict[str, Any] = {key: value for value, keys in _SPELLINGS.items() for key in keys.split()} | {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
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
    **{"indexer_budget": 512, "indexer_compress_ratio": 4, "hc_lowrank": 8},
    **{"ple_layer_ids": [1], "ngram_vocab_size_base": 64, "split_ngram_parts": 2},
}
"""For several residual streams, attention that looks at a choice of tokens, and an embedding of sequences of tokens."""

REFORMER = {
    **{"attn_layers": ["local", "lsh"], "local_attn_chunk_length": 256, "lsh_attn_chunk_length": 256, "num_buckets": 2},
    **{"axial_pos_shape": [16, 16], "axial_pos_embds_dim": [16, 16], "attention_head_size": 8, "feed_forward_size": 40},
}
"""For attention within pieces of a sequence, and for attention by hashes."""


def by_axis(*angles: int) -> dict[str, Any]:
    """For a language model whose rotary angles are divided between time, height and width."""
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(angles)}
    return {"text_config": {"rope_parameters": rotary}}


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "AriaText": [{"moe_topk": 4}],
    "AXK1": [LATENT],
    "AXK2": [{"num_key_value_heads": HEADS, "mlp_layer_types": ["dense", "sparse"]} | INDEXED],
    "BailingHybrid": [LINEAR | LATENT | {"head_dim": 24}],
    "Bamba": [MAMBA | {"attn_layer_indices": [1]}],
    "Blt": [BYTES],
    "CodeGen": [{"rotary_dim": 4}],
    "Cohere2Moe": [{"first_k_dense_replace": 1, "num_shared_experts": 2}],
    "Cohere2Vision": [{"alignment_intermediate_size": 80}],
    "CohereCompass": [EACH],
    "CohereCompassForCond": [{"text_config": EACH}],
    "CohereForCausalLM": [{}, {"use_qk_norm": True}],
    "CpmAnt": [{"prompt_length": 0, "dim_head": 12, "dim_ff": 40}],
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
    "DiffLlama": [{"head_dim": 16}],
    "DeepseekV4": [INDEXED | {"o_groups": 2, "o_lora_rank": 12}],
    "Dinov2": [{}, {"use_swiglu_ffn": True}],
    "Doge": [{}, {"is_moe": True}],
    "Dots1": [{"first_k_dense_replace": 1, "n_shared_experts": 2}],
    "Dots3Note": [NOTE],
    "Dots3NoteForCond": [HEARING],
    "Exaone4": [{"sliding_window_pattern": 2}],
    "Falcon": [
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        {"multi_query": True, "parallel_attn": True},
        {"multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
    ],
    "FalconH1": [MAMBA | {"mamba_d_ssm": 64}],
    "Flint": [{"mlp_only_layers": [0]}],
    "Florence2": [
        {
            "vision_config": {
                **{"patch_size": [3] * 4, "embed_dim": [8, 8, 8, WIDTH], "num_heads": [2] * 4, "num_groups": [2] * 4},
                "depths": [1] * 4,
            }
        }
    ],
    "FSMT": [{"src_vocab_size": 64, "tgt_vocab_size": 64}],
    "Git": [{"vision_config": {"num_hidden_layers": 1}}],
    "Gemma3n": [
        BY_LAYER | {"final_logit_softcapping": 30.0, "num_kv_shared_layers": 0},
        BY_LAYER | SHARED | {"final_logit_softcapping": 30.0},
    ],
    "Gemma4": [
        GEMMA4,
        GEMMA4 | {"enable_moe_block": True, "top_k_experts": 2},
        GEMMA4 | SHARED | {"use_double_wide_mlp": True},
    ],
    "Gemma4ForCond": [{"text_config": GEMMA4}],
    "Gemma4Model": [{"text_config": GEMMA4}],
    "Gemma4Unified": [{"global_head_dim": 24}],
    "Gemma4UnifiedForCond": [{"text_config": {"global_head_dim": 24}}],
    "Gemma4UnifiedModel": [{"text_config": {"global_head_dim": 24}}],
    "Glm46VForC": [by_axis(2, 1, 1)],
    "Glm4Moe": [{"use_qk_norm": True}],
    "Glm4MoeLite": [LATENT],
    "Glm4vForC": [by_axis(2, 1, 1)],
    "Glm4vMoe": [by_axis(1, 1, 0)],
    "GlmMoeDsa": [LATENT | INDEXED],
    "GlmOcrForC": [by_axis(2, 1, 1)],
    "GPTBigCode": [{"multi_query": True}, {"multi_query": False}],
    "GPTJ": [{"rotary_dim": 4}],
    "GPTNeo": [{"attention_types": [[["global", "local"], 1]]}],
    "GPTNeoX": [{"use_parallel_residual": True}, {"use_parallel_residual": False}],
    "GraniteMoeHybrid": [MAMBA | {"layer_types": ["linear_attention", "full_attention"]}],
    "Helium": [{"head_dim": 8}],
    "HrmText": [{"H_cycles": 1, "L_cycles": 1}],
    "HYV4": [INDEXED],
    "Inkling": [{"mlp_layer_types": ["dense", "sparse"], "n_shared_experts": 1} | SHORT],
    "Inkling2": [CAPPED],
    "Inkling2ForCond": [SEEING],
    "Jamba": [{"attn_layer_period": 2, "attn_layer_offset": 1}],
    "JetMoe": [{"num_experts_per_tok": 4}],
    "KimiLinear": [LINEAR | {"linear_head_dim": 12, "linear_num_heads": HEADS, "num_key_value_heads": HEADS}],
    "LED": [{"attention_window": 8}],
    "Lfm2": [{"layer_types": ["conv", "full_attention"]}],
    "Lfm2Moe": [{"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}],
    "Lfm3": [{"layer_types": ["conv", "full_attention"], "use_sandwich_norm": normed} for normed in (True, False)],
    "Lfm3Vl": [{"text_config": {"layer_types": ["conv", "full_attention"]}, "projector_hidden_size": 40}],
    "Llama4": [{"interleave_moe_layer_step": 2}],
    "Llava": [{}, *({"text_config": {"model_type": kind}} for kind in ("mistral", "qwen2", "qwen3"))],
    "LlavaNext": [{}],
    "LlavaOnevision": [{}],
    "LongcatFlash": [{"head_dim": 6, "num_key_value_heads": HEADS, "expert_ffn_hidden_size": 24, "zero_expert_num": 0}],
    "LongT5": [{"encoder_attention_type": kind} for kind in ("local", "transient-global")],
    "MiMoV2Flash": [{"attention_value_scale": None}],
    "MiniCPM3": [LATENT],
    "MiniMax": [LINEAR],
    "MiniMaxM2": [{}],
    "MiniMaxM3SparseForCond": [{"text_config": MINIMAX_M3, "projector_hidden_size": WIDTH}],
    "MiniMaxM3VL": [MINIMAX_M3],
    "MiniMaxM3VLModel": [{"text_config": MINIMAX_M3, "projector_hidden_size": WIDTH}],
    "Mistral4": [LATENT],
    "Mllama": [{"text_config": {"cross_attention_layers": [1]}}],
    "MllamaForCausalLM": [{"cross_attention_layers": [1]}],
    "MllamaTextModel": [{"cross_attention_layers": [1]}],
    "ModernBert": [{"local_attention": 1024}],
    "Moonshine": [
        {
            **{"encoder_num_hidden_layers": 2, "num_hidden_layers": 3},
            **dict.fromkeys(("encoder_num_attention_heads", "num_key_value_heads"), HEADS),
        }
    ],
    "Musicgen": [{"num_codebooks": 1}],
    "NemotronH": [{"layers_block_type": [kind, "attention"]} | MAMBA for kind in ("mlp", "moe", "mamba")],
    "NllbMoe": [{"encoder_sparse_step": 2, "decoder_sparse_step": 2}],
    "PaddleOCRVL": [by_axis(4, 4, 4)],
    "Phi4Multimodal": [
        {
            "vision_config": {"crop_size": 24, "feature_layer": -1},
            "audio_config": {
                "num_blocks": 1,
                "ext_pw_out_channel": 32,
                "depthwise_separable_out_channel": 32,
                "nemo_conv_channels": 32,
                "feature_layer": -1,
                "input_size": 16,
            },
        }
    ],
    "PhiForCausalLM": [{}, {"qk_layernorm": True}],
    "ProphetNet": [
        {
            **{"num_decoder_layers": 2, "num_decoder_attention_heads": HEADS},
            **{"num_encoder_layers": 1, "num_encoder_attention_heads": HEADS},
            "use_cache": False,
        }
    ],
    "Pix2Struct": [{"text_config": {"d_kv": 8}}],
    "Qwen2_5_VL": [by_axis(2, 1, 1)],
    "Qwen2_5OmniThinker": [by_axis(2, 1, 1) | {"vision_start_token_id": 60, "audio_config": {"output_dim": WIDTH}}],
    "Qwen2Moe": [{}, {"mlp_only_layers": [0]}],
    "Qwen2VL": [by_axis(2, 1, 1)],
    "Qwen3_5": [LINEAR],
    "Qwen3_5ForCond": [{"text_config": LINEAR}],
    "Qwen3_5MoeForCond": [{"text_config": LINEAR}],
    "Qwen3Moe": [{}, {"mlp_only_layers": [1]}],
    "Qwen3Next": [LINEAR],
    "Qwen3OmniMoeThinkerForCond": [
        by_axis(2, 1, 1)
        | {"vision_start_token_id": 60, "audio_config": {"output_dim": WIDTH, "downsample_hidden_size": 4}}
    ],
    "Qwen4Exp": [QWEN4],
    "Qwen4ExpForCond": [{"text_config": QWEN4}],
    "Qwen4ExpModel": [{"text_config": QWEN4}],
    "RecurrentGemma": [{"block_types": ["recurrent", "attention"]}],
    "Reformer": [REFORMER],
    "ReformerModelWithLMHead": [REFORMER | {"is_decoder": True}],
    "RoCBert": [{"pronunciation_vocab_size": 64, "shape_vocab_size": 64}],
    "Speech2Text": [{"num_conv_layers": 1, "conv_kernel_sizes": [3], "conv_channels": 8}],
    "SpeechT5": [{"speech_decoder_prenet_dropout": 0.0}],
    "StableLm": [
        {"use_parallel_residual": False},
        {"use_parallel_residual": True},
        {"use_parallel_residual": False, "qk_layernorm": True, "use_qkv_bias": True},
    ],
    "SwitchTransformers": [{"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}],
    "T5Gemma": [{"decoder": {"num_hidden_layers": 3}}],
    "T5GemmaEncoder": [{}],
    "ViTMAE": [{"mask_ratio": 0.0}],
    "Vivit": [{"tubelet_size": [2, 2, 2]}],
    "XLMModel": [{"n_langs": 1}],
    "XLMWith": [{"n_langs": 1}],
    "XLNet": [{"d_inner": 40}],
    "xLSTM": [{"qk_dim_factor": 2.0, "v_dim_factor": 2.0, "ffn_round_up_to_multiple_of": 8}],
    "Xmod": [{"default_language": "en_XX"}],
    "Youtu": [LATENT],
    "Zaya": [{"num_experts_per_tok": 1, "router_hidden_size": 16, "layer_types": ["hybrid", "hybrid_sliding"]}],
}
"""For a class that the generic request does not fit, or that has several forms: one request for each."""


def variants(name: str) -> list[dict[str, Any]]:
    """The requests for a class; those under a shorter name stand for the whole family, the longest counts."""
    fitting = max((key for key in VARIANTS if name.startswith(key)), key=len, default="")
    return VARIANTS.get(fitting, [{}])
