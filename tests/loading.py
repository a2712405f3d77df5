"""What transformers makes of a folder: the second opinion on which weights a model really has."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from tests.models import HEADS, HIDDEN, VOCABULARY

LOADABLE = {
    "vocab_size": VOCABULARY, "intermediate_size": HIDDEN, "num_key_value_heads": HEADS, "tie_word_embeddings": True,
}  # fmt: skip
"""What a tiny Llama's config.json needs besides, for transformers to build it."""


def logits(model: Path | str) -> torch.Tensor:
    """What the model gives for a fixed prompt, (tokens, vocabulary), as `from_pretrained` loads it."""
    loaded = AutoModelForCausalLM.from_pretrained(str(model), local_files_only=True, dtype=torch.float32)
    with torch.no_grad():
        found: torch.Tensor = loaded(input_ids=torch.arange(12)[None]).logits[0]
    return found
