"""The pairing experiment: do a layer's two matrices find each other by the trace of their product alone?"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
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
from benchmarks.paper.parts.judges import tensors
from hf_lineage import inspect
from hf_lineage.comparison import assign

PATHS = ("mlp", "mlp_gate", "joint (mean of scores)", "joint (sum of products)", "value_output", "query_key")
VERSION = 1
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """One path of one model."""

    scores: Matrix
    """S (L, L), s(W_out,i W_in,j)."""
    signs: tuple[float, ...] = ()
    """Of the trace of each layer's own product."""

    @property
    def accuracy(self) -> float:
        """Share of layers that the assignment on S pairs with themselves."""
        rows, columns = assign(self.scores)
        return float(np.mean(rows == columns))

    @property
    def auc(self) -> float:
        """Probability that a layer's own product scores above a mispaired one."""
        own = np.eye(len(self.scores), dtype=bool)
        found, others = self.scores[own][:, None], self.scores[~own]
        return float(np.mean(found > others) + np.mean(found == others) / 2)


@dataclass(frozen=True)
class Seen:
    """What one model shows: its paths, and the share of layers that Frobenius norms pair rightly."""

    paths: dict[str, Paired]
    frobenius: float


def seen(model: Path | str) -> Seen:
    """Return the pairing experiment of a model, by the library along its paths, and along both readings of `joint`.

    The paper names `joint` without a definition. One reading is the mean of the two score matrices, the other the score
    of the sum of the two products, W_down (W_up + W_gate).
    """
    found = {
        path: Paired(pairing.scores, tuple(pairing.signs.tolist()))
        for path, pairing in inspect(str(model)).pairings.items()
        if not isinstance(pairing, str)
    }
    blocks = tensors(model)
    if "mlp_gate" in found:
        found[PATHS[2]] = Paired((found["mlp"].scores + found["mlp_gate"].scores) / 2)
        gates = [inn for inn, _ in tensors(model, "mlp_gate")]
        both = [inn + gate for (inn, _), gate in zip(blocks, gates, strict=True)]
        found[PATHS[3]] = Paired(trace_scores([out for _, out in blocks], both))
    matched = baselines.frobenius_pairing(baselines.arrays(blocks))
    return Seen(found, float(np.mean(matched == np.arange(len(matched)))))


def trace_scores(writers: Sequence[Tensor], readers: Sequence[Tensor], probes: int = 256) -> Matrix:
    """Return s(W_out,i W_in,j) for all pairs of layers; norms are estimated from random signs in wider models."""
    width = len(writers[0])
    random = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (width, probes), generator=random) * 2.0 - 1
    through = torch.eye(width) if width <= probes else signs / probes**0.5
    seen = [reader @ through for reader in readers]
    traces = [[float((out.mT * inn).sum()) for inn in readers] for out in writers]
    norms = [[float(torch.linalg.vector_norm(out @ product)) for product in seen] for out in writers]
    scores: Matrix = np.abs(np.array(traces)) / np.array(norms)
    return scores


def untrained(cache: Cache, model: Path, seed: int) -> Seen:
    """Return what a model of the same configuration shows with fresh weights."""
    described = json.loads((model / "config.json").read_text(encoding="utf-8"))

    def made() -> tuple[dict[str, Tensor], float]:
        torch.manual_seed(seed)
        architecture = getattr(transformers, described["architectures"][0])
        config = AutoConfig.from_pretrained(model, local_files_only=True)
        with tempfile.TemporaryDirectory() as folder:
            architecture(config).save_pretrained(folder)
            found = seen(folder)
        return {path: torch.from_numpy(paired.scores) for path, paired in found.paths.items()}, found.frobenius

    scores, frobenius = cache.kept("untrained", [VERSION, described, seed], made)
    return Seen({path: Paired(found.numpy()) for path, found in scores.items()}, frobenius)
