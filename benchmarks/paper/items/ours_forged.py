"""`ours:forged`: folders that store the weights of a base and do not use them. What do they cost, and what is said?

Every forgery is loaded by its own module: with noise in place of the weights of the base it computes the same. Some
were built from outside, by those who saw verdicts alone; the others by those who had the source at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.items.ours_reshaped import loaded, loss
from benchmarks.paper.parts.disguises import digest
from benchmarks.paper.parts.pools import LLAMA
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.rated import verdict
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.text import documentation
from tests import forgeries
from tests.decoys import made
from tests.models import WEIGHTS

VERSION = 1
"""Raised when a forgery comes to mean something else."""
INDEPENDENT = "otter/llama-independent"
BLIND, SOURCE = "verdicts alone", "the source"
"""What those who built a forgery knew."""
WITH_SOURCE = {
    "units of Gemma 3n none of which is among the largest",
    "experts of Gemma 4 that are scaled with next to nothing",
}
"""Of the forgeries in tiny models those that were found with the source at hand."""
SHUT, UNCHANGED = "all gates turned away from the text", 0.01
"""A way to insert layers, and the nats a byte that a loss may differ by and still be called the same."""
COLUMNS = ("Forgery", "Known", "Parameters", "Arithmetic", "Loss", "Verdict")


@dataclass(frozen=True)
class Insertion:
    """Layers of the base put into a trained model, or MLPs of the base in place of its own."""

    name: str
    edit: Callable[[Any, Any], None]
    known: str = SOURCE
    of: str = INDEPENDENT
    of_layers: str = LLAMA


def _layers(count: int, how: str, **settings: Any) -> Insertion:
    name = f"{count} inserted layer{'s' if count > 1 else ''}, {how}"
    return Insertion(
        name, partial(forgeries.inserted, count=count, **settings), BLIND if count == 1 and not settings else SOURCE
    )


INSERTIONS = (
    *(_layers(count, SHUT) for count in (1, 3, 6)),
    *(_layers(count, "its own gates moved just far enough", crude=False) for count in (1, 2, 3, 6)),
    Insertion("MLPs of the base behind a stream 10,000 times as loud", forgeries.drowned(1e4), BLIND),
    Insertion("MLPs of the base behind a stream 300 times as loud", forgeries.drowned(300.0)),
)
HIDING = tuple(
    Insertion(
        f"a copy of the base with {count} loud layer{'s that do' if count > 1 else ' that does'} nothing",
        partial(forgeries.inserted, count=count, crude=False),
        of=LLAMA,
        of_layers=INDEPENDENT,
    )
    for count in (1, 3, 6)
)
FEW = 2


def rows(bench: Bench) -> Sequence[Row]:
    """Return by forgery who could build it, what it costs, and the verdict."""
    few = slice(FEW if bench.scale == "smoke" else None)
    plain = loaded(HUB / INDEPENDENT)
    found = [Row("independent: loss", None, loss(plain, documentation()), "nats a byte of held-out text")]
    for case in (*INSERTIONS[few], *HIDING[few]):
        found += _trained(bench, case)
    for name, tiny in list(forgeries.ROWS.items())[few]:
        found += _tiny(bench, name, tiny)
    return found


def _trained(bench: Bench, case: Insertion) -> Iterator[Row]:
    """Yield the rows of an edit of a trained model."""
    depends = [VERSION, case.name, digest(HUB / case.of), digest(HUB / case.of_layers)]

    def make(into: Path) -> None:
        model = loaded(HUB / case.of)
        case.edit(model, loaded(HUB / case.of_layers))
        model.save_pretrained(into)

    folder = bench.cache.kept_folder("forged", depends, make)
    before, after = loaded(HUB / case.of), loaded(folder)
    more = sum(one.numel() for one in after.parameters()) / sum(one.numel() for one in before.parameters()) - 1
    layers = len(after.model.layers) / len(before.model.layers) - 1
    yield from _row(case.name, case.known, more, layers, HUB / LLAMA, folder)
    yield Row(f"{case.name}: loss", None, loss(after, documentation()))


def _tiny(bench: Bench, name: str, tiny: forgeries.Row) -> Iterator[Row]:
    """Yield the rows of a forgery in a tiny model, whose weights are random."""

    def make(into: Path) -> None:
        pair = made(tiny.of, tiny.wanted, into)
        forgery = tiny.made(*pair.tensors())
        pair.write(forgery.tensors, **forgery.settings)

    folder = bench.cache.kept_folder("forged tiny", [VERSION, name], make)
    own, stored = (_numbers(folder / which / WEIGHTS) for which in ("b", "decoy"))
    known = SOURCE if name in WITH_SOURCE else BLIND
    yield from _row(name, known, stored / own - 1, 0.0, folder / "a", folder / "decoy")


def _numbers(file: Path) -> int:
    return sum(tensor.numel() for tensor in load_file(file).values())


def _row(name: str, known: str, parameters: float, arithmetic: float, base: Path, folder: Path) -> Iterator[Row]:
    said = verdict(base, folder)
    yield Row(
        f"{name}: verdict",
        None,
        said.words + (", verified" if said.verified else ""),
        said.reason.replace(f"{folder}: ", "").replace(f"{folder.parent}/", ""),
    )
    yield Row(f"{name}: known", None, known)
    yield Row(f"{name}: more parameters", None, parameters)
    yield Row(f"{name}: more arithmetic", None, arithmetic)


def holds(found: Mapping[str, Row]) -> None:
    """No forgery with at most half of its layers from the base is verified, and no such copy is UNRELATED.

    Nothing is said to be related that costs no arithmetic, and an inserted layer that is shut changes no answer.
    """
    for name in _names(found):
        word, share = str(found[f"{name}: verdict"].ours), found[f"{name}: more arithmetic"].number
        claim(share > 0 or not word.startswith("RELATED"), f"{name}: the verdict is {word}, at no cost in arithmetic")
        if name.endswith(SHUT):
            losses = [found[f"{which}: loss"].number for which in ("independent", name)]
            claim(abs(losses[1] - losses[0]) < UNCHANGED, f"{name}: the loss goes from {losses[0]} to {losses[1]}")
        if name.startswith("a copy"):
            claim(word != "UNRELATED", f"{name}: the verdict is {word}")
        elif share <= 1 and "300 times" not in name:
            claim("verified" not in word, f"{name}: the verdict is {word}")


def _names(found: Mapping[str, Row]) -> list[str]:
    return [name.removesuffix(": verdict") for name in found if name.endswith(": verdict")]


def summary(found: Mapping[str, Row]) -> Iterator[tuple[str, ...]]:
    """Yield lines under COLUMNS."""
    for name in _names(found):
        more, run = (found[f"{name}: more {what}"].number for what in ("parameters", "arithmetic"))
        nats = f"{found[f'{name}: loss'].number:.2f}" if f"{name}: loss" in found else "-"
        known, word = (str(found[f"{name}: {what}"].ours) for what in ("known", "verdict"))
        yield name, known, f"{more:+.0%}", f"{run:+.0%}", nats, word


EXPERIMENTS = (Experiment("ours:forged", "weights that are stored and not used", rows, holds),)
