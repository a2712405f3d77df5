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
