"""The table of recipes, without NumPy: the command line names them before anything is computed."""

from typing import Any

PARAMETERS: dict[str, dict[str, Any]] = {  # by name, the default first: fields of the Recipe without its defaults
    "robust": {**dict.fromkeys(("gains", "means", "cap", "ones", "gates"), True), "name": "robust", "version": 4},
    "paper": {**dict.fromkeys(("gains", "means", "cap", "ones"), False), "name": "paper"},
}
