"""`ours:executed`: what is said of a model by what it stores, and by what its parts do when it runs (`--run`).

Every forgery holds the weights of a base and does not use them; its loss stands beside the two verdicts. Honest models
stand below them: what is said of these must not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.items import ours_forged
from benchmarks.paper.items.ours_reshaped import loaded, loss
from benchmarks.paper.parts.disguises import digest
from benchmarks.paper.parts.pools import LLAMA
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.text import documentation
from hf_lineage import Options, compare
from hf_lineage.evidence.verdict import Verdict
from tests import forgeries, positions, running_attacks, unspoken
from tests.decoys import made
from tests.running.models import ARCHITECTURES, saved

VERSION = 3
"""Raised when a forgery comes to mean something else."""
FORGED, HONEST = "forged", "honest"
DESCENDANTS = (
    *("fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-merge-a-b", "fern/llama-lora-merged"),
    *("moss/llama-continued", "heron/llama-pruned-50", "heron/llama-int8-rounded", "magpie/llama-laundered"),
    *("magpie/llama-grafted", "heron/llama-distilled", "otter/llama-independent", "magpie/llama-liar"),
)
MOVED = 0.1
"""By how much of its spread every tensor of an honest tiny descendant moved."""
COLUMNS = ("Model", "Loss", "By what is stored", "With --run", "Lost without what is common")
FEW = 1


def rows(bench: Bench) -> Sequence[Row]:
    """Return by model the verdicts without and with `--run`."""
    few = slice(FEW if bench.scale == "smoke" else None)
    found: list[Row] = []
    for name in list(running_attacks.ATTACKS)[few]:
        found += _judged(FORGED, name, HUB / LLAMA, _attacked(bench, name), loss_of=True)
    for case in ours_forged.INSERTIONS[few]:
        folder = ours_forged.edited(bench, case)
        found += _judged(FORGED, case.name, HUB / LLAMA, folder, loss_of=True)
    for name, tiny in list(forgeries.ROWS.items())[few]:
        folder = _tiny(bench, name, tiny)
        found += _judged(FORGED, name, folder / "a", folder / "decoy")
    for name in list(positions.ACTING)[few]:
        folder = bench.cache.kept_folder("positions", [VERSION, name], partial(positions.made, name))
        found += _judged(FORGED, name, folder / "base", folder / "forged")
        for where, number in positions.moved(folder).items():
            found.append(Row(f"{FORGED}: {name}: logits {where}", None, number, "of the logits, without these layers"))
    folder = bench.cache.kept_folder("unspoken", [VERSION], unspoken.made)
    found += _judged(FORGED, "units that only tokens open which no text holds", folder / "base", folder / "forged")
    for name in DESCENDANTS[few]:
        found += _judged(HONEST, name, HUB / LLAMA, HUB / name, loss_of=True)
    for name in list(ARCHITECTURES)[few]:
        folder = _descendant(bench, name)
        found += _judged(HONEST, f"a tiny {name}, moved a little", folder / "a", folder / "b")
    return found


def _attacked(bench: Bench, name: str) -> Path:
    def make(into: Path) -> None:
        torch.manual_seed(0)
        model = running_attacks.attacked(name, loaded(HUB / ours_forged.INDEPENDENT), loaded(HUB / LLAMA))
        model.save_pretrained(into)

    return bench.cache.kept_folder("executed", [VERSION, name, digest(HUB / LLAMA)], make)


def _tiny(bench: Bench, name: str, tiny: forgeries.Row) -> Path:
    def make(into: Path) -> None:
        pair = made(tiny.of, tiny.wanted, into)
        forgery = tiny.made(*pair.tensors())
        pair.write(forgery.tensors, **forgery.settings)

    return bench.cache.kept_folder("forged tiny", [ours_forged.VERSION, name], make)


def _descendant(bench: Bench, name: str) -> Path:
    """A tiny random model, and the same with every tensor moved a little."""

    def speak(model: torch.nn.Module) -> None:
        """A random BERT, whose norms have random gains, and a random T5 say nearly the same to every input."""
        for norm in (one for one in model.modules() if name.startswith("Bert") and isinstance(one, torch.nn.LayerNorm)):
            norm.reset_parameters()
        for key, parameter in model.named_parameters():
            parameter.data *= 4 if name.startswith("T5") and key == "decoder.final_layer_norm.weight" else 1

    def move(model: torch.nn.Module) -> None:
        speak(model)
        torch.manual_seed(1)
        for parameter in model.parameters():
            if parameter.numel() > 1:
                parameter.data += MOVED * parameter.std() * torch.randn_like(parameter)

    def make(into: Path) -> None:
        saved(into / "a", name, speak)
        saved(into / "b", name, move)

    return bench.cache.kept_folder("executed honest", [VERSION, name], make)


def _judged(kind: str, name: str, base: Path, folder: Path, loss_of: bool = False) -> Iterator[Row]:
    def plain(reason: str) -> str:
        return reason.replace(str(folder), "it").replace(str(base), "the base")

    stored, ran = (verdict(base, folder, run) for run in (False, True))
    yield Row(f"{kind}: {name}: stored", None, words(stored), plain(stored.reason))
    executed = ran.executed
    problem = executed.problem if executed else ""
    yield Row(f"{kind}: {name}: run", None, words(ran), plain(problem or ran.reason))
    if executed and executed.ablation:
        ablation = executed.ablation
        yield Row(f"{kind}: {name}: lost", None, ablation.inherited.mean, ablation.unit)
    if loss_of:
        yield Row(f"{kind}: {name}: loss", None, loss(loaded(folder), documentation()), "nats a byte of held-out text")


def verdict(base: Path, folder: Path, run: bool) -> Verdict:
    """Return the verdict on two folders, with one draw of layers, units and inputs."""
    return compare(str(base), str(folder), Options(seed=0, run=run)).rows[0].verdict


def words(said: Verdict) -> str:
    """Return a verdict with its mark."""
    return f"{said.label}, executed" if said.is_executed else said.label


def holds(found: Mapping[str, Row]) -> None:
    """No forgery of the independent model is verified by running, and honest models stay what they were."""
    for kind, name in _names(found):
        stored, ran = (str(found[f"{kind}: {name}: {how}"].ours) for how in ("stored", "run"))
        if kind == HONEST:
            claim(stored.partition(",")[0] == ran.partition(",")[0], f"{name}: {stored} becomes {ran}")
        elif name.startswith("a copy"):
            claim(ran != "UNRELATED", f"{name}: the verdict is {ran}")
        else:
            claim(not ran.startswith("VERIFIED"), f"{name}: the verdict is {ran}")


def _names(found: Mapping[str, Row]) -> list[tuple[str, str]]:
    ends = (name.removesuffix(": stored") for name in found if name.endswith(": stored"))
    return [(kind, name) for kind, _, name in (each.partition(": ") for each in ends)]


def summary(found: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for kind, name in _names(found):
        row = {how: found.get(f"{kind}: {name}: {how}") for how in ("stored", "run", "lost", "loss")}
        nats = f"{row['loss'].number:.2f}" if row["loss"] else "-"
        lost = f"{row['lost'].number:.2g} {row['lost'].note}" if row["lost"] else "-"
        yield name, nats, *(str(found[f"{kind}: {name}: {how}"].ours) for how in ("stored", "run")), lost


EXPERIMENTS = (Experiment("ours:executed", "verdicts by what models store and by what they do", rows, holds),)
