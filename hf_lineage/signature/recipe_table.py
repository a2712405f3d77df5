"""The table of recipes, without NumPy: the command line names them before anything is computed."""

from __future__ import annotations

from typing import Any

PARAMETERS: dict[str, dict[str, Any]] = {
    "robust": {
        **{"name": "robust", "gains": True, "means": True, "cap": True, "ones": True},
        **{"gates": True, "version": 4},
    },
    "paper": {"name": "paper", "gains": False, "means": False, "cap": False, "ones": False},
}
"""Name, the default first -> the fields of the Recipe that differ from its defaults."""
