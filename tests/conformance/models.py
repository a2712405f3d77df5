"""Tiny models of a class, every parameter random, and what every class is asked for: a tiny configuration."""

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers as transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.schema import Factorization
from tests.conformance.forms import HEADS, SOUND, WIDTH

INNER = {
    **{"Idefics2VisionTransformer": "idefics2", "Qwen2VisionTransformerPretrainedModel": "qwen2_vl"},
    **dict.fromkeys(("Qwen2_5OmniAudioEncoder", "Qwen2_5OmniVisionEncoder"), "qwen2_5_omni"),
    "Qwen3OmniMoeVisionEncoder": "qwen3_omni_moe",
}  # parts of models that transformers does not offer by themselves, each with the folder of its module
transformers._class_to_module |= {name: f"models.{folder}.modeling_{folder}" for name, folder in INNER.items()}
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
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
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False, "sliding_window": 512},
    **{"attention_bias": True, "mlp_bias": True, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    **{"deepstack_visual_indexes": [0], "conv_dim": (WIDTH,), "conv_kernel": (2,), "conv_stride": (2,)},
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"), 1e-12),
}  # what every configuration is asked for, as far as it has the attribute


@functools.cache
def known_classes() -> frozenset[str]:
    """Return the names of all classes; to ask transformers for one of them imports its code."""
    return frozenset(dir(transformers)) | INNER.keys()


def tiny_config(name: str, wanted: dict[str, Any]) -> Any:
    config_class = getattr(transformers, name).config_class
    config = config_class(**_asked(config_class, copy.deepcopy(wanted)))
    config.architectures = [name]
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def _asked(config_class: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """The generic request, as far as a configuration has the attributes, and that for each configuration in it."""
    defaults = config_class()
    defaults.allow_global_per_layer_attribute_access = True  # even of settings in which its layers differ
    fixed = {key for key in TINY if isinstance(getattr(config_class, key, None), property)}
    known = {key for key in TINY if hasattr(config_class, key) or hasattr(defaults, key)} - fixed
    asked = {key: value for key, value in TINY.items() if key in known} | wanted
    if "mrope_section" in (rotary := getattr(defaults, "rope_parameters", None) or {}):
        size = (asked.get("head_dim") or WIDTH // HEADS) * rotary.get("partial_rotary_factor", 1)
        angles, third = int(size) // 2, int(size) // 6  # divided between time, height and width
        asked["rope_parameters"] = {**rotary, "mrope_section": [angles - 2 * third, third, third]}
    for key in config_class.sub_configs:
        if inner := getattr(defaults, key, None):
            inner_wanted = {"model_type": inner.model_type} | wanted.get(key, {})
            own = inner_wanted["model_type"] == inner.model_type
            asked[key] = _asked(type(inner) if own else CONFIG_MAPPING[inner_wanted["model_type"]], inner_wanted)
    return asked


def required(factorization: Factorization, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """A request, and what a factorization asks of `config.json` beyond what the class has by itself."""
    asked = copy.deepcopy(wanted)
    defaults = getattr(transformers, name).config_class().to_dict()
    for key, value in factorization.requires.items():
        if not isinstance(value, tuple) or setting(defaults, key) not in value:
            within, last = place(asked, key)
            within.setdefault(last, value[0] if isinstance(value, tuple) else value)
    return asked


def place(asked: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return where a dotted key stands in a request, and its last name."""
    *outer, last = key.split(".")
    return functools.reduce(lambda within, part: within.setdefault(part, {}), outer, asked), last


def put(asked: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(dict(asked))
    within, last = place(changed, ".".join(keys))
    within[last] = value
    return changed


def tiny_model(name: str, wanted: dict[str, Any]) -> Any:
    build = getattr(transformers, name)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in build(tiny_config(name, wanted)).parameters())
    if size > 8_000_000:
        raise ValueError(f"{name} has {size} parameters in the sizes that every tiny model gets, so it is not tiny")
    torch.manual_seed(0)
    model = build(tiny_config(name, wanted)).eval()
    for key, parameter in model.named_parameters():
        if re.search(r"(rel_embeddings|relative_pos_embeddings|embed_positions|distance_embedding)\.", key):
            parameter.data[:] = parameter.data[0].clone()  # every token stands at one place, relative or absolute
            continue
        parameter.data.normal_(std=0.0 if "linear_pos." in key else 0.3)  # made of fixed positions for queries
        if key.endswith("sinks"):
            parameter.data.fill_(-1e4)  # attention to the only token is 1, not shared with a sink
        if ".time_mix_" in key:
            parameter.data.fill_(1)  # there is no token before the only one
    for key, buffer in model.named_buffers():
        if key.endswith(("running_mean", "correction_bias", "expert_bias")):
            buffer.normal_(std=0.3)
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
        if key.endswith("tid2eid"):
            buffer.copy_(torch.rand(len(buffer), model.config.n_routed_experts).topk(buffer.shape[1]).indices)
    return model


FUNCTION = "torch_multi_head_self_attention"
"""What one function of torch does in some modules; calls of their own modules are the same, and hooks can see them."""


def attend(module: Any, states: torch.Tensor, mask: Any, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What WavLM makes of a stream (batch, tokens, width)."""
    query, key, value = (
        linear(states).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for linear in (module.q_proj, module.k_proj, module.v_proj)
    )
    scores = module.scaling * query @ key.mT + bias.unflatten(0, (-1, module.num_heads))
    if mask is not None:
        scores = scores.masked_fill(mask.ne(1)[:, None, None], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return module.out_proj((weights @ value).transpose(1, 2).flatten(2)), weights


def by_modules(model: torch.nn.Module) -> None:
    for module in model.modules():
        if hasattr(module, FUNCTION):
            setattr(module, FUNCTION, functools.partial(attend, module))
