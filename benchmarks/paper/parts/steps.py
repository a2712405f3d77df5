"""Steps: what the library's recipe `robust` does beyond the paper's, one by one and all but one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hf_lineage import RECIPES, Recipe

PAPER, ROBUST = (replace(RECIPES[name], probes=None) for name in ("paper", "robust"))
"""Both exact: what a step does is not to be confused with what a sketch does."""
STEPS: Mapping[str, Mapping[str, Any]] = {
    "gains": {"gains": True},
    "means": {"means": True},
    "cap": {"cap": ROBUST.cap},
    "ones": {"ones": True},
    "gates": {"gates": True},
}
"""What each step sets in a recipe."""


def alone(step: str) -> Recipe:
    """Return the paper's recipe with one step."""
    return replace(PAPER, **STEPS[step])


def without(step: str) -> Recipe:
    """Return `robust` less one step."""
    return replace(ROBUST, **{setting: getattr(PAPER, setting) for setting in STEPS[step]})


def recipes(steps: Sequence[str], removed: bool = True) -> dict[str, Recipe]:
    """Return by name the paper's recipe, each of some steps alone, `robust`, and `robust` without each if asked for."""
    added = {f"paper + {step}": alone(step) for step in steps}
    taken = {f"robust - {step}": without(step) for step in steps if removed}
    return {"paper": PAPER, **added, **taken, "robust": ROBUST}
