"""Tiny stand-ins for the paper's public checkpoints, to be published under their names on a small Hub.

GPT-2 and the Llamas are models of the example Hub; the others are saved by transformers with random weights.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.paper.parts import public as listed
from tests.models import EXAMPLES, WEIGHTS, Tensors, fine_tuned, spoil, tiny_llama
from tests.server import Hub

LLAMAS = {
    "meta-llama/Llama-2-7b-hf": "acme/llama-base",
    "meta-llama/Llama-2-7b-chat-hf": "fern/llama-finetune-a",
    "codellama/CodeLlama-7b-hf": "moss/llama-continued",
    "openlm-research/open_llama_7b": "otter/llama-independent",
    "openlm-research/open_llama_7b_v2": "magpie/llama-liar",
    "01-ai/Yi-6B": "heron/llama-distilled",
}
GPT2 = {f"openai-community/{name}": "acme/gpt2-base" for name in ("gpt2-medium", "gpt2-large")}
PICKLED, CUSTOM, OTHER_SIZE = "lmsys/vicuna-7b-v1.5", "baichuan-inc/Baichuan-7B", "internlm/internlm-7b"
GATED = ("LLM360/Amber", "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B-Instruct")
MISSING = (
    "baichuan-inc/Baichuan2-7B-Base",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "openai-community/gpt2-xl",
    "microsoft/resnet-152",
)
UNREAD = {PICKLED, CUSTOM, OTHER_SIZE, *GATED, *MISSING}
"""What no item measures."""
FAMILIES = {model.repository for model in listed.FAMILIES}
GPT2_FAMILY = {model.repository for model in listed.GPT2}
RESNETS = {model.repository for model in listed.RESNETS.values()}
READ = {
    "tab:real-llm-baselines": {model.repository for model in (listed.LLAMA, *listed.SUSPECTS.values())},
    "tab:laundering-llm": {model.repository for pair in listed.LAUNDERED.values() for model in pair},
    "tab:transformer-family": FAMILIES,
    "tab:path-breakdown": FAMILIES,
    "fig:gpt2-pairing": GPT2_FAMILY,
    "fig:gpt2-trace": GPT2_FAMILY,
    "fig:gpt2-methods": GPT2_FAMILY,
    "tab:jacobian-orthogonality": {listed.GPT2[0].repository},
    "tab:factorization": RESNETS,
    "tab:vision-speech": RESNETS | {model.repository for model in listed.VISION_SPEECH.values()},
}
"""The repositories that items read."""
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 80,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 128}
SPEECH = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 80, "num_mel_bins": 8, "max_source_positions": 16,
    "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
RESNET = {
    "embedding_size": 8, "hidden_sizes": [32, 64], "depths": [2, 5], "layer_type": "bottleneck", "num_channels": 3,
}  # fmt: skip
SAVED: dict[str, tuple[str, dict[str, Any]]] = {
    "google-bert/bert-base-uncased": ("BertForMaskedLM", SIZES),
    "mistralai/Mistral-7B-v0.1": ("MistralForCausalLM", GROUPED),
    "Qwen/Qwen2.5-7B": ("Qwen2ForCausalLM", GROUPED),
    "google/vit-base-patch16-224": ("ViTForImageClassification", SIZES | {"image_size": 8, "patch_size": 4}),
    "openai/whisper-tiny": ("WhisperForConditionalGeneration", SPEECH),
    "openai/whisper-base": ("WhisperForConditionalGeneration", SPEECH),
    "openai/whisper-small": ("WhisperForConditionalGeneration", SPEECH),
    "microsoft/resnet-50": ("ResNetForImageClassification", RESNET),
    "microsoft/resnet-101": ("ResNetForImageClassification", RESNET),
}
"""Class and configuration."""
TUNED = {
    "mistralai/Mistral-7B-Instruct-v0.1": "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B",
}
PARTNERS = {"up_proj": "down_proj", "intermediate.dense": "output.dense"}
"""What reads the stream in an MLP, and what writes it."""
LARGER = "openai-community/gpt2"
"""The one whose branches are made larger, as those of a wider model are."""


def publish(hub: Hub, room: Path) -> None:
    """Publish all of them; those that are gated or missing are so."""
    for name, example in (LLAMAS | GPT2).items():
        hub.publish(name, EXAMPLES / example)
    larger = shutil.copytree(EXAMPLES / "acme/gpt2-base", room / LARGER)
    hub.publish(LARGER, spoil(larger, _enlarge))
    for name in SAVED:
        hub.publish(name, saved(name, room / name))
    for name, base in TUNED.items():
        hub.publish(name, fine_tuned(room / base, room / name, noise=0.05))
    hub.publish(PICKLED, pickled(EXAMPLES / "fern/llama-finetune-b", room / PICKLED))
    hub.publish(CUSTOM, tiny_llama(room / CUSTOM, architectures=["BaichuanForCausalLM"], model_type="baichuan"))
    hub.publish(OTHER_SIZE, tiny_llama(room / OTHER_SIZE))
    for name in GATED:
        hub.publish(name, EXAMPLES / "acme/llama-base")
        hub.refused[name] = (403, "GatedRepo")


def saved(name: str, folder: Path) -> Path:
    """A model as transformers saves it, whose MLPs write what they read as training makes them do."""
    architecture, config = SAVED[name]
    torch.manual_seed(len(name))
    made = getattr(transformers, architecture)
    model = made(made.config_class(**config))
    weights = model.state_dict()
    for reader, writer in PARTNERS.items():
        for name in [name for name in weights if name.endswith(f"{reader}.weight")]:
            weights[name.replace(reader, writer)].copy_(-weights[name].mT)
    model.save_pretrained(folder)
    return folder


def _enlarge(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.endswith("mlp.c_proj.weight")]:
        tensors[name] = 3 * tensors[name]


def pickled(source: Path, folder: Path) -> Path:
    """A model of which there is nothing but a pickle."""
    shutil.copytree(source, folder)
    (folder / WEIGHTS).unlink()
    torch.save({}, folder / "pytorch_model.bin")
    return folder
