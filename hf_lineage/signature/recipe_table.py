"""The parameters of the recipes by name, without NumPy: the command line names them before anything is computed."""

from __future__ import annotations

from typing import Any

PARAMETERS: dict[str, dict[str, Any]] = {
    "robust": {
        **{"name": "robust", "gains": True, "means": True, "cap": 2.0, "ones": True},
        **{"activity": True, "cap_median": "norm", "gates": True, "version": 3},
    },
    "paper": {"name": "paper", "gains": False, "means": False, "cap": None, "ones": False},
}
"""Name, as in `--recipe NAME`, the default first -> the fields of the Recipe that differ from its defaults."""
