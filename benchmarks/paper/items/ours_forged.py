"""`ours:forged`: folders that store the weights of a base and do not use them. What do they cost, and what is said?

Every forgery is loaded by its own module: with noise in place of the weights of the base it computes the same. Some
were built from outside, by those who saw verdicts alone; the others by those who had the source at hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import MixtralConfig, MixtralForCausalLM

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.cache import digest
from benchmarks.paper.parts.examples import HUB, LLAMA
from benchmarks.paper.parts.language import Schedule, documentation, loaded, loss, train
from benchmarks.paper.parts.rated import verdict
from hf_lineage.evidence.verdict import Verdict
from tests import forgeries
from tests.decoys import made
from tests.models import WEIGHTS

VERSION = 2  # raised when a forgery comes to mean something else
INDEPENDENT = "otter/llama-independent"
BLIND, SOURCE = "verdicts alone", "the source"  # what those who built a forgery knew
WITH_SOURCE = {
    "units of Gemma 3n none of which is among the largest",
    "experts of Gemma 4 that are scaled with next to nothing",
}
"""Of the forgeries in tiny models those that were found with the source at hand."""
SHUT, UNCHANGED = "all gates turned away from the text", 0.01
"""A way to insert layers, and the nats a byte that a loss may differ by and still be called the same."""
COLUMNS = ("Forgery", "Known", "Parameters", "Arithmetic", "Loss", "Inherited", "Verdict")


@dataclass(frozen=True)
class Edit:
    """An edit of a trained model, in place, with the weights of another."""

    name: str
    edit: Callable[[Any, Any], None]
    known: str = SOURCE
    of: str = INDEPENDENT
    weights_of: str = LLAMA
    path: str | None = None  # the only path that is compared; None for the usual ones


COUNTS = {"units": (1, 2, 8, 64, 128, 256, 512), "heads": (2, 4, 8), "experts": (1, 2, 4, 8)}
"""Parts that are added to every layer; the models have 256 hidden units and 4 heads a layer, or 4 experts."""
FORGING, LAUNDERING = "in every layer of an independent model", "in every layer of the base"
COUNTED = {"units": 256, "heads": 4, "experts": 4}
PATHS = {"units": "mlp", "heads": "value_output", "experts": "mlp"}
MIXTURE, OTHER_MIXTURE = "a mixture", "an independent mixture"
MIXTURES = {MIXTURE: 3177584384, OTHER_MIXTURE: 2759665217}  # by name the seed of a mixture that is trained here
BASES = LLAMA, MIXTURE
SHUT_UNITS = partial(forgeries.added_units, gate=0.0)
PRICES = tuple(
    Edit(f"{count} {part} of {of} {where}", partial(add, count=count), SOURCE, *models, PATHS[part])
    for part, add, of, where, models in (
        ("units", forgeries.added_units, "the base", FORGING, (INDEPENDENT, LLAMA)),
        ("units", SHUT_UNITS, "an independent model, shut,", LAUNDERING, (LLAMA, INDEPENDENT)),
        ("heads", forgeries.added_heads, "the base", FORGING, (INDEPENDENT, LLAMA)),
        ("heads", forgeries.added_heads, "an independent model", LAUNDERING, (LLAMA, INDEPENDENT)),
        ("experts", forgeries.added_experts, "the base", FORGING, (OTHER_MIXTURE, MIXTURE)),
        ("experts", forgeries.added_experts, "an independent model", LAUNDERING, (MIXTURE, OTHER_MIXTURE)),
    )
    for count in COUNTS[part]
)
INSERTIONS = tuple(
    Edit(f"{count} inserted layer{'s' * (count > 1)}, {SHUT}", partial(forgeries.inserted, count=count))
    for count in (1, 6)
)
DROWNED = Edit("MLPs of the base behind a stream 300 times as loud", forgeries.drowned(300.0))
FEW = 2


def rows(bench: Bench) -> Sequence[Row]:
    """Return by forgery who could build it, what it costs, and the verdict."""
    few = slice(FEW if bench.scale == "smoke" else None)
    found = [
        Row(f"{name}: loss", None, loss(loaded(HUB / one), documentation()), "nats a byte of held-out text")
        for name, one in (("independent", INDEPENDENT), ("base", LLAMA))
    ]
    for case in (*PRICES[few], *INSERTIONS[few], DROWNED):
        found += _trained(bench, case)
    for name, tiny in list(forgeries.ROWS.items())[few]:
        found += _tiny(bench, name, tiny)
    return found


def _trained(bench: Bench, case: Edit) -> Iterator[Row]:
    """Yield the rows of an edit of a trained model."""
    base = next(_model(bench, name) for name in BASES if name in (case.of, case.weights_of))
    folder = edited(bench, case)
    before, after = loaded(_model(bench, case.of)), loaded(folder)
    more = sum(one.numel() for one in after.parameters()) / sum(one.numel() for one in before.parameters()) - 1
    layers = len(after.model.layers) / len(before.model.layers) - 1
    said = verdict(base, folder, *((case.path,) if case.path else ()))
    yield from _row(case.name, case.known, (more, layers), said, folder)
    yield Row(f"{case.name}: loss", None, loss(after, documentation()))


def edited(bench: Bench, case: Edit) -> Path:
    """Return a trained model after an edit."""
    own, theirs = (_model(bench, name) for name in (case.of, case.weights_of))

    def make(into: Path) -> None:
        model = loaded(own)
        case.edit(model, loaded(theirs))
        model.save_pretrained(into)

    return bench.cache.kept_folder("forged", [VERSION, case.name, digest(own), digest(theirs)], make)


def _model(bench: Bench, name: str) -> Path:
    """Return a trained model of the example hub, or a mixture."""
    seed = MIXTURES.get(name)
    return HUB / name if seed is None else _mixture(bench, seed)


def _mixture(bench: Bench, seed: int) -> Path:
    """Return a small mixture of experts."""
    schedule = Schedule(bench.sized(4, 300), 2e-3, 8)
    config = MixtralConfig(
        vocab_size=256, bos_token_id=None, eos_token_id=None, pad_token_id=None, max_position_embeddings=64,
        hidden_size=48, intermediate_size=120, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip

    def make(folder: Path) -> None:
        torch.manual_seed(seed)
        train(MixtralForCausalLM(config), documentation(), schedule, seed % 2**31).save_pretrained(folder)

    return bench.cache.kept_folder("mixtures", [VERSION, seed, schedule], make)


def _tiny(bench: Bench, name: str, tiny: forgeries.Row) -> Iterator[Row]:
    """Yield the rows of a forgery in a tiny model, whose weights are random."""

    def make(into: Path) -> None:
        pair = made(tiny.of, tiny.wanted, into)
        forgery = tiny.made(*pair.tensors())
        pair.write(forgery.tensors, **forgery.settings)

    folder = bench.cache.kept_folder("forged tiny", [VERSION, name], make)
    own, stored = (_numbers(folder / which / WEIGHTS) for which in ("b", "decoy"))
    known = SOURCE if name in WITH_SOURCE else BLIND
    said = verdict(folder / "a", folder / "decoy")
    yield from _row(name, known, (stored / own - 1, 0.0), said, folder / "decoy")


def _numbers(file: Path) -> int:
    return sum(tensor.numel() for tensor in load_file(file).values())


def _row(name: str, known: str, more: tuple[float, float], said: Verdict, folder: Path) -> Iterator[Row]:
    """Yield what a verdict says of a folder that has so many more parameters and so much more arithmetic."""
    parameters, arithmetic = more
    reason = said.reason.replace(f"{folder}: ", "").replace(f"{folder.parent}/", "")
    shares = (one.inherited.share for one in said.evidence.values() if one.inherited)
    yield Row(f"{name}: verdict", None, said.label, reason)
    yield Row(f"{name}: inherited", None, min(shares, default=0.0))
    yield Row(f"{name}: known", None, known)
    yield Row(f"{name}: more parameters", None, parameters)
    yield Row(f"{name}: more arithmetic", None, arithmetic)


def holds(found: Mapping[str, Row]) -> None:
    """Nothing is verified or UNRELATED for fewer parts than the model has, and what is shut changes no answer."""
    for name in _names(found):
        word = str(found[f"{name}: verdict"].ours)
        count, part, *_ = name.split()
        if part in COUNTS and count.isdigit():
            wrong = word.startswith("VERIFIED") if name.endswith(FORGING) else word == "UNRELATED"
            claim(int(count) >= COUNTED[part] or not wrong, f"{name}: the verdict is {word}")
        elif name not in forgeries.SEEN_BY_RUNNING:
            claim(not word.startswith("VERIFIED"), f"{name}: the verdict is {word}")
        if name.endswith(SHUT):
            losses = [found[f"{which}: loss"].number for which in ("independent", name)]
            claim(abs(losses[1] - losses[0]) < UNCHANGED, f"{name}: the loss goes from {losses[0]} to {losses[1]}")


def _names(found: Mapping[str, Row]) -> list[str]:
    return [name.removesuffix(": verdict") for name in found if name.endswith(": verdict")]


def summary(found: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for name in _names(found):
        more, run = (found[f"{name}: more {what}"].number for what in ("parameters", "arithmetic"))
        nats = f"{found[f'{name}: loss'].number:.2f}" if f"{name}: loss" in found else "-"
        known, word = (str(found[f"{name}: {what}"].ours) for what in ("known", "verdict"))
        share = f"{found[f'{name}: inherited'].number:.0%}"
        yield name, known, f"{more:+.0%}", f"{run:+.0%}", nats, share, word


EXPERIMENTS = (Experiment("ours:forged", "weights that are stored and not used", rows, holds),)
