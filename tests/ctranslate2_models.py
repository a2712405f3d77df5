"""CTranslate2 models written by its own converters."""

import json
import warnings
from pathlib import Path

import numpy as np
import transformers
from ctranslate2.converters import transformers as converters
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file

from tests.models import WEIGHTS


def written(source: Path, folder: Path, quantization: str | None = None) -> Path:
    """Write a small Llama by CTranslate2's own specification, without transformers."""
    stored, config = load_file(source / WEIGHTS), json.loads((source / "config.json").read_text())
    heads, groups = config["num_attention_heads"], config.get("num_key_value_heads")
    layers = [
        f"model.layers.{number}" for number in range(10) if f"model.layers.{number}.input_layernorm.weight" in stored
    ]
    model = transformer_spec.TransformerDecoderModelSpec.from_config(
        len(layers), heads, activation=common_spec.Activation.SWISH, ffn_glu=True, rms_norm=True, rotary_dim=0,
        rotary_interleave=False, num_heads_kv=groups,
    )  # fmt: skip
    decoder = model.decoder
    decoder.embeddings.weight = decoder.projection.weight = stored["model.embed_tokens.weight"]
    decoder.layer_norm.gamma = stored["model.norm.weight"]
    for layer, name in zip(decoder.layer, layers, strict=True):
        attention, ffn = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = stored[f"{name}.input_layernorm.weight"]
        ffn.layer_norm.gamma = stored[f"{name}.post_attention_layernorm.weight"]
        attention.linear[0].weight = np.concatenate([stored[f"{name}.self_attn.{role}_proj.weight"] for role in "qkv"])
        attention.linear[1].weight = stored[f"{name}.self_attn.o_proj.weight"]
        ffn.linear_0.weight = stored[f"{name}.mlp.gate_proj.weight"]
        ffn.linear_0_noact.weight = stored[f"{name}.mlp.up_proj.weight"]
        ffn.linear_1.weight = stored[f"{name}.mlp.down_proj.weight"]
    model.register_vocabulary([f"word {number}" for number in range(len(decoder.embeddings.weight))])
    model.validate()
    model.optimize(quantization)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(str(folder))
    return folder


def converted(source: Path, folder: Path, quantization: str | None = None) -> Path:
    """Write the model of a folder as CTranslate2 does; its words are made up, for the model has no tokenizer."""
    config = transformers.AutoConfig.from_pretrained(source)
    loader = converters._MODEL_LOADERS[type(config).__name__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, loader.architecture_name).from_pretrained(source).eval().float()
    specification = loader.get_model_spec(model)
    loader.set_vocabulary(specification, [f"word {number}" for number in range(words(config, specification))])
    specification.validate()
    specification.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    specification.save(str(folder))
    return folder


def words(config: transformers.PretrainedConfig, specification: object) -> int:
    """How many words the specification expects."""
    encoder = getattr(specification, "encoder", None)
    decoder = getattr(specification, "decoder", None)
    embeddings = decoder.embeddings if decoder is not None else encoder.embeddings[0]  # type: ignore[union-attr]
    return int(embeddings.weight.shape[0])
