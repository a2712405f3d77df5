"""The pairing experiment: do a layer's two matrices find each other by the trace of their product alone?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig

from benchmarks.paper.parts import baselines
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.judges import layers
from benchmarks.paper.parts.scores import paired
from hf_lineage import inspect
from hf_lineage.checking.inspect import Pairing
from hf_lineage.errors import NothingToCompare

PATHS = ("mlp", "mlp_gate", "joint (mean of scores)", "joint (sum of products)", "value_output", "query_key")
VERSION = 1
Matrix = NDArray[np.float64]
Plain = tuple[dict[str, Tensor], float]


@dataclass(frozen=True)
class Seen:
    """What one model shows: its paths, and the share of layers that Frobenius norms pair rightly."""

    paths: dict[str, Pairing]
    frobenius: float

    @classmethod
    def of(cls, plain: Plain) -> Seen:
        """Return what a cache has kept."""
        scores, frobenius = plain
        return cls({path: paired(found.numpy()) for path, found in scores.items()}, frobenius)

    @property
    def plain(self) -> Plain:
        """What a cache keeps."""
        return {path: torch.from_numpy(found.scores) for path, found in self.paths.items()}, self.frobenius


def seen(model: Path | str) -> Seen:
    """Return the pairing experiment of a model, by the library along its paths, and along both readings of `joint`.

    The paper names `joint` without a definition. One reading is the mean of the two score matrices, the other the score
    of the sum of the two products, W_down (W_up + W_gate). Raise NothingToCompare where the MLPs cannot be paired.
    """
    pairings = inspect(str(model)).pairings
    if isinstance(pairings["mlp"], str):
        raise NothingToCompare(f"{model}: {pairings['mlp']}")
    found = {path: paired(pairing.scores) for path, pairing in pairings.items() if not isinstance(pairing, str)}
    if "mlp_gate" in found:
        found[PATHS[2]] = paired((found["mlp"].scores + found["mlp_gate"].scores) / 2)
        several = zip(layers(model), layers(model, "mlp_gate"), strict=True)
        both = [inn + gate for (inn, _), (gate, _) in several]
        found[PATHS[3]] = paired(trace_scores((out for _, out in layers(model)), both))
    matched = baselines.frobenius_pairing(layers(model))
    return Seen(found, float(np.mean(matched == np.arange(len(matched)))))


def trace_scores(writers: Iterable[Tensor], readers: Sequence[Tensor], probes: int = 256) -> Matrix:
    """Return s(W_out,i W_in,j) for all pairs of layers; norms are estimated from random signs in wider models.

    One writer is held at a time.
    """
    width = readers[0].shape[1]
    random = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (width, probes), generator=random) * 2.0 - 1
    through = torch.eye(width) if width <= probes else signs / probes**0.5
    seen = [(reader, reader @ through) for reader in readers]
    scores = [
        [abs(float((out.mT * inn).sum())) / float(torch.linalg.vector_norm(out @ product)) for inn, product in seen]
        for out in writers
    ]
    return np.array(scores)


def untrained(cache: Cache, model: Path, seed: int) -> Seen:
    """Return what a model of the same configuration shows with fresh weights."""
    described = json.loads((model / "config.json").read_text(encoding="utf-8"))

    def made() -> Plain:
        torch.manual_seed(seed)
        architecture = getattr(transformers, described["architectures"][0])
        config = AutoConfig.from_pretrained(model, local_files_only=True)
        with tempfile.TemporaryDirectory() as folder:
            architecture(config).save_pretrained(folder)
            return seen(folder).plain

    return Seen.of(cache.kept("untrained", [VERSION, described, seed], made))
