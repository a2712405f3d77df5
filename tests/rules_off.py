"""Rules off: what a check knows of its own of switches that keep stored weights from working is turned off.

What is left is what the weights themselves and a run show, as of a switch that nobody has written a rule for.
"""

from __future__ import annotations

from typing import Any

from hf_lineage.architecture import config_checks
from hf_lineage.architecture.class_tensors import World
from hf_lineage.source import headers as headers_module


def turn_off(monkeypatch: Any) -> None:
    """Turn off, in this process, each rule by which a switch is known."""
    monkeypatch.setattr(headers_module, "world", lambda *_: World())
    monkeypatch.setattr(headers_module, "settings_reservations", lambda *_: ())
    monkeypatch.setattr(headers_module, "scalar_reservations", lambda *_: ())
    monkeypatch.setattr(config_checks, "_refuse_dead", lambda *_: None)
