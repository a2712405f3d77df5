"""What a class is asked for beside the generic request, once for each form, and settings that classes share."""

from typing import Any

WIDTH, HEADS = 32, 4
PICTURE, SOUND = 24, 144
"""How many pixels wide a picture is and, halved, how many samples long a sound: 144 patches or frames of two."""

# For layers of two kinds, only one of which has attention.
LINEAR: dict[str, Any] = {
    **{"layer_types": ["linear_attention", "full_attention"], "linear_num_heads": HEADS},
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), 12),
}
# For a state-space mixer, by the two sets of names that there are.
MAMBA: dict[str, Any] = {
    **{"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 6, "mamba_chunk_size": 16, "conv_kernel": 4},
    **{"mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 6, "n_groups": 1, "chunk_size": 16},
}
# For latent attention, which has no groups of queries, and which rotates only a part of every head.
LATENT = {"num_key_value_heads": HEADS, "head_dim": 6, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
# For rotary angles that are set for each kind of layer.
EACH = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}
# For layers that look at few tokens, which count their heads apart, and for a model that works only with a cap too.
SHORT = {"swa_num_attention_heads": HEADS, "swa_num_key_value_heads": 2, "swa_head_dim": 8}
CAPPED = SHORT | {"final_logit_softcapping": 30.0}
# For attention that looks at a choice of tokens: at all of them; the second is latent too.
INDEXED = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 512}
NOTE = {"num_key_value_heads": HEADS, "shared_experts_intermediate_size": 24} | INDEXED
# For a language model that has an input of its own for every layer; for one with larger heads in some layers.
BY_LAYER = {"vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 16}
GEMMA4 = BY_LAYER | {"global_head_dim": 24}
GEMMA4_MOE: dict[str, Any] = {"enable_moe_block": True, "top_k_experts": 2}
# For layers of which the second takes keys and values from the first.
SHARED = {"layer_types": ["full_attention"] * 2, "num_kv_shared_layers": 1}
# For a dense layer before one of experts, the first with attention that looks at a choice of tokens.
MINIMAX_M3 = {
    **{"mlp_layer_types": ["dense", "sparse"], "layer_types": ["minimax_m3_sparse", "full_attention"]},
    **{"dense_intermediate_size": 40, "rotary_dim": 6, "index_head_dim": 16},
}
# For several residual streams, attention that looks at a choice of tokens, and an embedding of sequences of tokens.
QWEN4 = LINEAR | {
    **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 24},
    **{"indexer_budget": 512, "indexer_compress_ratio": 4, "hc_lowrank": 8, "output_gate_type": "silu"},
    **{"ple_layer_ids": [1], "ngram_vocab_size_base": 64, "split_ngram_parts": 2},
}
# For attention within pieces of a sequence, and for attention by hashes.
REFORMER = {
    **{"attn_layers": ["local", "lsh"], "local_attn_chunk_length": 256, "lsh_attn_chunk_length": 256, "num_buckets": 2},
    **{"axial_pos_shape": [16, 16], "axial_pos_embds_dim": [16, 16], "attention_head_size": 8, "feed_forward_size": 40},
}
STAGES: dict[str, Any] = {"hidden_sizes": [WIDTH, WIDTH], "depths": [2, 2]}  # for a network of stages


def by_axis(*angles: int) -> dict[str, Any]:
    """For a language model whose rotary angles are divided between time, height and width."""
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(angles)}
    return {"text_config": {"rope_parameters": rotary}}


C2P = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
DAVIT = {"depths": [1] * 4, "num_heads": [2] * 4, "num_groups": [2] * 4}
GROUPS = {"num_group_tokens": [128, 8], "num_output_groups": [128, 8]}
CHANNELS = dict.fromkeys(("ext_pw_out_channel", "depthwise_separable_out_channel", "nemo_conv_channels"), WIDTH)
PROJECTED = {"projector_input_dim": 32, "projector_output_dim": 32, "vision_output_dim": 32, "intermediate_size": 128}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "Albert": [{"num_hidden_groups": 2, "inner_group_num": 2, "num_hidden_layers": 4}],
    "AriaText": [{"moe_topk": 4}],
    "AXK1 DeepseekV2 DeepseekV3 Glm4MoeLite MiniCPM3 Mistral4 Youtu": [LATENT],
    "AXK2": [{"num_key_value_heads": HEADS, "mlp_layer_types": ["dense", "sparse"]} | INDEXED],
    "BailingHybrid": [LINEAR | LATENT | {"head_dim": 24}],
    "Bamba": [MAMBA | {"attn_layer_indices": [1]}],
    "BeitForSemantic": [{"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]}],
    "Blt": [  # every byte is a patch of its own
        {"patch_in_forward": False, "use_cache": False, "encoder_hash_byte_group_vocab": 8}
        | {f"{part}_config": {"head_dim": 8} for part in ("global", "patcher")}
        | {f"{part}_config": {"head_dim": 8, "hidden_size_global": WIDTH} for part in ("encoder", "decoder")}
    ],
    "CodeGen GPTJ": [{"rotary_dim": 4}],
    "Llama4ForConditional": [{"vision_config": PROJECTED, "text_config": {"interleave_moe_layer_step": 2}}],
    "Llama4Vision": [PROJECTED],
    "PixtralVision Helium": [{"head_dim": 8}],
    "Qwen2_5OmniAudioEncoder": [{"n_window": 200}],
    "Cohere2Moe": [{"first_k_dense_replace": 1, "num_shared_experts": 2}],
    "Cohere2Vision": [{"alignment_intermediate_size": 80}],
    "CohereCompass": [EACH],
    "CohereCompassForCond": [{"text_config": EACH}],
    "CohereForCausalLM": [{}, {"use_qk_norm": True}],
    "ConvNext": [STAGES | {"num_stages": 2}],
    "CpmAnt": [{"prompt_length": 0, "dim_head": 12, "dim_ff": 40}],
    "CTRL": [{"dff": 40}],
    "Data2VecAudio": [{"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 1}],
    "Dbrx": [{"ffn_config": {"moe_top_k": 4}, "attn_config": {"kv_n_heads": 2, "clip_qkv": 1e4, "rope_theta": 1e4}}],
    "Deberta": [{}, C2P, C2P | {"share_att_key": True}],
    "DeepseekV32 GlmMoeDsa": [LATENT | INDEXED],
    "DeepseekV4": [INDEXED | {"o_groups": 2, "o_lora_rank": 12, "mlp_layer_types": ["hash_moe", "moe"]}],
    "DiffLlama": [{"head_dim": 16}],
    "Dinov2": [{}, {"use_swiglu_ffn": True}],
    "DINOv3ConvNext ResNet": [STAGES],
    "Doge": [{}, {"is_moe": True}],
    "DonutSwin Swin": [  # one window and one stage, since each is twice as wide as the one before
        {"depths": [2], "image_size": 48, "patch_size": 4, "window_size": 12}
        | {"num_heads": [HEADS], "num_attention_heads": [HEADS]}
    ],
    "Dots1": [{"first_k_dense_replace": 1, "n_shared_experts": 2}],
    "Dots3Note": [NOTE],
    "Dots3NoteForCond": [
        {"text_config": NOTE, "audio_config": {"adapter_input_size": WIDTH, "adapter_out_dim": WIDTH}}
        | {"vision_config": {"mlp_layer_types": ["dense"] * 2, "adapter_in_dim": WIDTH, "adapter_out_dim": WIDTH}}
    ],
    "Exaone4": [{"sliding_window_pattern": 2}],
    "Falcon": [
        *(
            {"new_decoder_architecture": True, "num_kv_heads": 2} | more
            for more in ({}, {"num_ln_in_parallel_attn": 1})
        ),
        {"multi_query": True, "parallel_attn": True},
        {"multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
    ],
    "FalconH1": [MAMBA | {"mamba_d_ssm": 64}],
    "Flint": [{"mlp_only_layers": [0]}],
    "Florence2": [  # of four stages the last gives as many channels as a language model reads
        {"vision_config": {"patch_size": [3] * 4, "embed_dim": [8, 8, 8, WIDTH], **DAVIT}}
    ],
    "FSMT": [{"src_vocab_size": 64, "tgt_vocab_size": 64}],
    "Gemma3n": [BY_LAYER | {"final_logit_softcapping": 30.0} | kind for kind in ({"num_kv_shared_layers": 0}, SHARED)],
    "Gemma4": [GEMMA4 | kind for kind in ({}, GEMMA4_MOE, SHARED | {"use_double_wide_mlp": True})],
    "Gemma4ForCond Gemma4Model": [{"text_config": GEMMA4}],
    "Gemma4Unified": [{"global_head_dim": 24}],
    "Gemma4UnifiedForCond Gemma4UnifiedModel": [{"text_config": {"global_head_dim": 24}}],
    "GitForCausalLM GitModel": [{"vision_config": {"num_hidden_layers": 1}}],
    "Glm46V Glm4v GlmOcr Qwen2_5_VL Qwen2VL": [by_axis(2, 1, 1)],
    "Glm4Moe": [{"use_qk_norm": True}],
    "Glm4vMoe": [by_axis(1, 1, 0)],
    "Glm4vText GlmOcrText Qwen2_5_VLText Qwen2VLText": [by_axis(2, 1, 1)["text_config"]],
    "GPTBigCode": [{"multi_query": True}, {"multi_query": False}],
    "GPTNeo": [{"attention_types": [[["global", "local"], 1]]}],
    "GPTNeoX": [{"use_parallel_residual": True}, {"use_parallel_residual": False}],
    "GraniteMoeHybrid": [MAMBA | {"layer_types": ["linear_attention", "full_attention"]}],
    "GroupViTModel": [{"vision_config": {"depths": [2, 2], "image_size": 48, "patch_size": 4, **GROUPS}}],
    "HrmText": [{"H_cycles": 1, "L_cycles": 1}],
    "HYV4": [INDEXED],
    "Inkling": [{"mlp_layer_types": ["dense", "sparse"], "n_shared_experts": 1} | SHORT],
    "Inkling2": [CAPPED],
    "Inkling2ForCond": [
        {"text_config": CAPPED, "vision_config": {"text_hidden_size": WIDTH, "projection_hidden_dim": 40}}
    ],
    "Jamba": [{"attn_layer_period": 2, "attn_layer_offset": 1}],
    "JetMoe": [{"num_experts_per_tok": 4}],
    "KimiLinear": [LINEAR | {"num_key_value_heads": HEADS}],
    "LayoutLMv3": [{"coordinate_size": 4, "shape_size": 8}],
    "LED": [{"attention_window": 8}],
    "Lfm2": [{"layer_types": ["conv", "full_attention"]}],
    "Lfm2Moe": [{"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}],
    "Lfm3": [{"layer_types": ["conv", "full_attention"], "use_sandwich_norm": normed} for normed in (True, False)],
    "Lfm3Vl": [{"text_config": {"layer_types": ["conv", "full_attention"]}, "projector_hidden_size": 40}],
    "Llama4": [{"interleave_moe_layer_step": 2}],
    "Llava": [{}, *({"text_config": {"model_type": kind}} for kind in ("mistral", "qwen2", "qwen3"))],
    "LlavaNext LlavaOnevision MiniMaxM2 T5GemmaEncoder": [{}],
    "LongcatFlash": [{"head_dim": 6, "num_key_value_heads": HEADS, "expert_ffn_hidden_size": 24, "zero_expert_num": 0}],
    "Longformer": [{"attention_window": 4}],
    "LongT5": [{"encoder_attention_type": kind} for kind in ("local", "transient-global")],
    "Luke": [{"entity_vocab_size": 8, "entity_emb_size": WIDTH}],
    "MiMoV2Flash": [{"attention_value_scale": None}],
    "MiniMax Qwen3_5 Qwen3Next": [LINEAR],
    "MiniMaxM3SparseForCond MiniMaxM3VLModel": [{"text_config": MINIMAX_M3, "projector_hidden_size": WIDTH}],
    "MiniMaxM3VL": [MINIMAX_M3],
    "Mllama": [{"text_config": {"cross_attention_layers": [1]}}],
    "MllamaForCausalLM MllamaTextModel": [{"cross_attention_layers": [1]}],
    "ModernBert": [{"local_attention": 1024}],
    "Moonshine": [
        {"encoder_num_hidden_layers": 2, "num_hidden_layers": 3}
        | {"encoder_num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    ],
    "Musicgen": [{"num_codebooks": 1}],
    "NemotronH": [{"layers_block_type": [kind, "attention"]} | MAMBA for kind in ("mlp", "moe", "mamba")],
    "NllbMoe": [{"encoder_sparse_step": 2, "decoder_sparse_step": 2}],
    "PaddleOCRText": [by_axis(4, 4, 4)["text_config"]],
    "PaddleOCRVL": [by_axis(4, 4, 4)],
    "Phi4Multimodal": [
        {"vision_config": {"crop_size": 24, "feature_layer": -1}}
        | {"audio_config": {"num_blocks": 1, "feature_layer": -1, "input_size": 16} | CHANNELS}
    ],
    "PhiForCausalLM": [{}, {"qk_layernorm": True}],
    "Pix2Struct": [{"text_config": {"d_kv": 8}}],
    "ProphetNet": [{"num_decoder_layers": 2, "num_decoder_attention_heads": HEADS, "num_encoder_layers": 1}],
    "Pvt": [
        STAGES
        | {"num_encoder_blocks": 2, "num_attention_heads": [4, 4], "mlp_ratios": [2, 2]}
        | {"sequence_reduction_ratios": [1, 1], "patch_sizes": [4, 2], "strides": [4, 2], "image_size": 48}
    ],
    "Qwen2_5OmniThinker": [by_axis(2, 1, 1) | {"vision_start_token_id": 60, "audio_config": {"output_dim": WIDTH}}],
    "Qwen2Moe": [{}, {"mlp_only_layers": [0]}],
    "Qwen3_5ForCond Qwen3_5Model Qwen3_5MoeForCond Qwen3_5MoeModel": [{"text_config": LINEAR}],
    "Qwen3Moe": [{}, {"mlp_only_layers": [1]}],
    "Qwen3OmniMoeThinkerForCond": [
        by_axis(2, 1, 1)
        | {"vision_start_token_id": 60, "audio_config": {"output_dim": WIDTH, "downsample_hidden_size": 4}}
    ],
    "Qwen4Exp": [QWEN4],
    "Qwen4ExpForCond Qwen4ExpModel": [{"text_config": QWEN4}],
    "RecurrentGemma": [{"block_types": ["recurrent", "attention"]}],
    "Reformer": [REFORMER],
    "ReformerModelWithLMHead": [REFORMER | {"is_decoder": True}],
    "RoCBert": [{"pronunciation_vocab_size": 64, "shape_vocab_size": 64}],
    "Speech2Text": [{"num_conv_layers": 1, "conv_kernel_sizes": [3], "conv_channels": 8}],
    "SpeechT5": [{"speech_decoder_prenet_dropout": 0.0}],
    "StableLm": [
        *({"use_parallel_residual": parallel} for parallel in (False, True)),
        {"use_parallel_residual": False, "qk_layernorm": True, "use_qkv_bias": True},
    ],
    "SwitchTransformers": [{"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}],
    "T5Gemma": [{"decoder": {"num_hidden_layers": 3}}],
    "ViTMAE": [
        {"mask_ratio": 0.0, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_intermediate_size": 16}
    ],
    "Vivit": [{"tubelet_size": [2, 2, 2]}],
    "XLNet": [{"d_inner": 40}],
    "xLSTM": [{"qk_dim_factor": 2.0, "v_dim_factor": 2.0, "ffn_round_up_to_multiple_of": 8}],
    "Xmod": [{"default_language": "en_XX"}],
    "Yolos": [{"image_size": [24, 24]}],
    "Zaya": [{"num_experts_per_tok": 1, "router_hidden_size": 16, "layer_types": ["hybrid", "hybrid_sliding"]}],
}  # names of classes, or of whole families, that the generic request does not fit -> a request for each form
_BY_NAME = {name: requests for names, requests in VARIANTS.items() for name in names.split()}


def variants(name: str) -> list[dict[str, Any]]:
    """The requests for a class; those under a shorter name stand for the whole family, the longest counts."""
    fitting = max((key for key in _BY_NAME if name.startswith(key)), key=len, default="")
    return _BY_NAME.get(fitting, [{}])
