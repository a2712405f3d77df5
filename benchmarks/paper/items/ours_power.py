"""`ours:power`: a Llama trained on, and pruned, further and further: how much is inherited, and what is the verdict?

A rule that stops forgeries also has to leave honest descendants alone. A unit of a gated MLP is all of its three rows,
so that what training moves or pruning takes away in any of them counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.cache import digest
from benchmarks.paper.parts.examples import HUB, LLAMA
from benchmarks.paper.parts.language import Model, Schedule, documentation, loaded, loss, train
from benchmarks.paper.parts.rated import SHARED, verdict
from hf_lineage.evidence.verdict import Verdict

VERSION = 1  # raised when training or pruning comes to mean something else
STEPS = (0, 50, 100, 200, 400, 800, 1600)  # steps of continued training, each of another run from the base
SPARSITIES = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Shares of the weights of every matrix that become zero, the smallest first."""
TRAINED, PRUNED = "trained on for {} tokens", "pruned to {:.0%} zeros"
RELATED_UP_TO = 0.5  # a model with no more of its weights zero is to be related


def rows(bench: Bench) -> Sequence[Row]:
    """Return by tokens of continued training, and by sparsity, the verdict, the share inherited and the loss."""
    found: list[Row] = []
    for steps in STEPS if bench.scale != "smoke" else STEPS[:2]:
        schedule = Schedule(steps, 1e-3, bench.sized(2, 16), decay=0.1)
        tokens = steps * schedule.batch * loaded(HUB / LLAMA).config.max_position_embeddings
        found += figures(TRAINED.format(tokens), trained(bench, schedule))
    for share in SPARSITIES if bench.scale != "smoke" else SPARSITIES[:2]:
        found += figures(PRUNED.format(share), pruned(bench, share))
    return found


def trained(bench: Bench, schedule: Schedule) -> Path:
    """Return the base after so many further steps on other text than its own, at the rate of its own training."""

    def make(into: Path) -> None:
        train(loaded(HUB / LLAMA), documentation(), schedule, seed=7).save_pretrained(into)

    return bench.cache.kept_folder("trained on", [VERSION, digest(HUB / LLAMA), schedule], make)


def pruned(bench: Bench, share: float) -> Path:
    """Return the base with the smallest weights of each matrix of its layers set to zero."""

    @torch.no_grad()
    def make(into: Path) -> None:
        model: Model = loaded(HUB / LLAMA)
        for name, matrix in model.named_parameters():
            if ".layers." in name and matrix.ndim == 2:
                count = int(share * matrix.numel())
                least = matrix.abs().flatten().kthvalue(count).values if count else -1.0
                matrix[matrix.abs() <= least] = 0.0
        model.save_pretrained(into)

    return bench.cache.kept_folder("pruned further", [VERSION, digest(HUB / LLAMA), share], make)


def figures(where: str, folder: Path) -> Iterator[Row]:
    """Yield the rows of one model."""
    said = verdict(HUB / LLAMA, folder)
    yield Row(f"{where}: verdict", None, said.label, said.reason)
    yield Row(f"{where}: share inherited", None, inherited(said))
    yield Row(f"{where}: loss", None, loss(loaded(folder), documentation()))


def inherited(said: Verdict) -> float:
    """Return the share inherited: of all units, or along the path that has least."""
    if said.unit_comparison is not None:
        return said.unit_comparison.inherited.share
    return min(path.inherited.share if path.inherited else 0.0 for path in said.evidence.values())


def holds(found: Mapping[str, Row]) -> None:
    """What was trained for a tenth of the longest run, and what keeps half of its weights, is related."""
    for name in [name.partition(":")[0] for name in found if name.endswith(": verdict")]:
        further = name.startswith("trained on") or float(name.split()[2].rstrip("%")) <= 100 * RELATED_UP_TO
        word = str(found[f"{name}: verdict"].ours)
        claim(not further or word.startswith(SHARED), f"{name}: the verdict is {word}")


COLUMNS = ("What was done", "Loss", "Units inherited", "Verdict")


def summary(found: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for name in [name.partition(":")[0] for name in found if name.endswith(": verdict")]:
        share, nats = found[f"{name}: share inherited"].number, found[f"{name}: loss"].number
        yield name, f"{nats:.2f}", f"{share:.0%}", str(found[f"{name}: verdict"].ours)


EXPERIMENTS = (Experiment("ours:power", "how far a descendant may go", rows, holds),)
