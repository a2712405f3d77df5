"""Tell from weights alone whether a model really comes from the base it declares.

Data flows one way:

    RepoRef -> Checkpoint -> Layout -> Branch terms -> Signature -> Evidence -> Verdict -> Report

`check` judges what a model declares, `compare` two models, `extract` and `load_signature` make and read signatures,
`inspect` measures one model by itself. Models are `org/name`, `org/name@revision`, or folders.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_lineage.checking.check import check as check
    from hf_lineage.checking.check import compare as compare
    from hf_lineage.checking.check import extract as extract
    from hf_lineage.checking.check import inspect as inspect
    from hf_lineage.checking.report import Report as Report
    from hf_lineage.errors import LineageError as LineageError
    from hf_lineage.signature.recipe import RECIPES as RECIPES
    from hf_lineage.signature.recipe import Recipe as Recipe
    from hf_lineage.signature.store import load_signature as load_signature
    from hf_lineage.signature.store import save_signature as save_signature
    from hf_lineage.signature.values import Signature as Signature
    from hf_lineage.source.options import Options as Options

__version__ = "0.1.0"

HOMES = {  # public name -> the module that defines it, which is imported when the name is first asked for
    **{"LineageError": "errors", "Options": "source.options"},
    **dict.fromkeys(("RECIPES", "Recipe"), "signature.recipe"),
    **{"Report": "checking.report", "Signature": "signature.values"},
    **dict.fromkeys(("check", "compare", "extract", "inspect"), "checking.check"),
    **dict.fromkeys(("load_signature", "save_signature"), "signature.store"),
}

__all__ = list(HOMES)


def __getattr__(name: str) -> Any:
    """Import what is public when it is first asked for: `import hf_lineage` alone takes no time."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
