"""Adapters without matrices: IA3 multiplies with vectors, prompts and prefixes are read like tokens.

They carry no trace of a base that could be tested, yet they fit only bases of their shapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hf_lineage.checkpoint.lora.merged import WEIGHTS
from hf_lineage.checkpoint.opening import open_file
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef

SCALED = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.ia3_l(?:\.default)?(?:\.weight)?")
"""The name of a vector of IA3."""
PROMPT = "prompt_embeddings"
"""The tensor of prompts, (tokens, width), and of prefixes, (tokens, layers x 2 x what keys and values have)."""
KINDS = {"IA3": "vectors that scale", "PROMPT_TUNING": "a prompt", "P_TUNING": "a prompt", "PREFIX_TUNING": "a prefix"}
"""By the kind that peft gives an adapter, what it consists of."""


@dataclass(frozen=True)
class Vectors:
    """An adapter of one of these kinds, by its header alone."""

    kind: str
    lengths: Mapping[str, int]
    """Of the vectors of IA3, by module."""
    prompt: tuple[int, ...]
    """The shape of the tensor of prompts; empty where there is none."""

    @property
    def reason(self) -> str:
        """Why it is not tested."""
        return f"the adapter is of the kind {self.kind}, {KINDS[self.kind]}, which carries no trace that can be tested"


def open_vectors(repo: RepoRef) -> Vectors | None:
    """Return the adapter of a repository, None for one of another kind; CheckpointError if it is damaged."""
    kind = (repo.read_json(ADAPTER_CONFIG) or {}).get("peft_type")
    if not isinstance(kind, str) or kind not in KINDS or not repo.offers(WEIGHTS):
        return None
    tensors = open_file(repo, WEIGHTS).tensors
    scaled = ((match["module"], tensor) for name, tensor in tensors.items() if (match := SCALED.fullmatch(name)))
    lengths = {module: max(tensor.shape, default=0) for module, tensor in scaled}
    return Vectors(kind, lengths, tensors[PROMPT].shape if PROMPT in tensors else ())
