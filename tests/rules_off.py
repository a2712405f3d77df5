"""Rules off: what a check knows of its own of switches that keep stored weights from working is turned off.

What is left is what the weights themselves and a run show, as of a switch that nobody has written a rule for.
"""

from __future__ import annotations

from typing import Any

from hf_lineage.architecture.loading import World, settings
from hf_lineage.checking.source import opening


def turn_off(monkeypatch: Any) -> None:
    """Turn off, in this process, each rule by which a switch is known."""
    monkeypatch.setattr(opening, "world", lambda *_: World())
    monkeypatch.setattr(opening, "_reservations", lambda headers: iter(()))
    monkeypatch.setattr(settings, "_refuse_dead", lambda *_: None)
