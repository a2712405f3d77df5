"""Tell from weights alone whether a model really comes from the base it declares.

Data flows one way:

    RepoRef -> Checkpoint -> Layout -> Branch terms -> Signature -> Evidence -> Verdict -> Report

`check` judges what a model declares, `compare` two models, `extract` and `load_signature` make and read signatures,
`inspect` measures one model by itself. Models are `org/name`, `org/name@revision`, or folders.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "RECIPES",
    "LineageError",
    "Options",
    "Recipe",
    "Report",
    "Signature",
    "check",
    "compare",
    "extract",
    "inspect",
    "load_signature",
    "save_signature",
]

if TYPE_CHECKING:
    from hf_lineage.checking.api import Report, check, compare, extract, inspect
    from hf_lineage.checking.options import Options
    from hf_lineage.errors import LineageError
    from hf_lineage.signature.recipe import RECIPES, Recipe
    from hf_lineage.signature.store import load_signature, save_signature
    from hf_lineage.signature.values import Signature

_HOMES = ("errors", "signature.recipe", "signature.values", "signature.store", "checking.options", "checking.api")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that importing the package costs nothing."""
    from importlib import import_module

    if name in __all__:
        for home in _HOMES:
            module = import_module(f"hf_lineage.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
