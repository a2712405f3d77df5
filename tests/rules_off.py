"""Rules off: what a check knows of its own of switches that keep stored weights from working is turned off.

What is left is what the weights themselves and a run show, as of a switch that nobody has written a rule for.
"""

from __future__ import annotations

from typing import Any

from hf_lineage.architecture.loading import World, settings
from hf_lineage.checking.source import lazy_signature, opening
from hf_lineage.signature.products.branches import _Set


class Quiet:
    """A residual stream of which nothing is known, so that whatever is stored counts in it."""

    def joins(self, *_: Any) -> None:
        """Return nothing that a layer joins."""

    notes = ()


def turn_off(monkeypatch: Any) -> None:
    """Turn off, in this process, each rule by which a switch is known."""
    monkeypatch.setattr(opening, "world", lambda *_: World())
    monkeypatch.setattr(opening, "_reservations", lambda headers: iter(()))
    monkeypatch.setattr(settings, "_refuse_dead", lambda *_: None)
    monkeypatch.setattr(_Set, "_inside", lambda *_: None)
    measured = lazy_signature.stream_of
    monkeypatch.setattr(
        lazy_signature, "stream_of", lambda model, seed: measured(model, seed) if model.streams is not None else Quiet()
    )
