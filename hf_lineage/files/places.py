"""Places that the environment names: caches and trusted files, none of which may lie in what is checked.

git writes the files of a checkout as the user who runs it, so nothing about a file there tells who wrote it. What a
user types, such as --index, counts wherever it is: whoever types it has chosen it.
"""

from __future__ import annotations

import os
from pathlib import Path

from hf_lineage.errors import OptionError, printable
from hf_lineage.files.folders import checkout_of

CACHE, INDEX, TRUST, CONFIGURATION = "HF_LINEAGE_CACHE", "HF_LINEAGE_INDEX", "HF_LINEAGE_TRUST", "XDG_CONFIG_HOME"
TRUSTED = (CACHE, INDEX, TRUST, CONFIGURATION, "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
"""Variables that name what is trusted; those of the Hub's client may lie in a checkout, but not in that of a model."""


def configuration() -> Path:
    """Return the folder of this user's configuration of the tool: in XDG_CONFIG_HOME, by default ~/.config."""
    return (_named(CONFIGURATION) or expanded("~/.config", CONFIGURATION)) / "hf-lineage"


def outside_checkouts(variable: str) -> Path | None:
    """Return the place that a variable names, None if none; raise OptionError for one in a git checkout."""
    place = _named(variable)
    if place is not None and (checkout := checkout_of(place)):
        raise _refusal(variable, f"the git checkout {printable(checkout, 200)}")
    return place


def refuse_within(folder: Path) -> None:
    """Raise OptionError where a variable names a place in a folder with models, or in the checkout around it."""
    tree = Path(os.path.realpath(checkout_of(folder) or folder))
    for variable in TRUSTED:
        place = _named(variable)
        if place is not None and Path(os.path.realpath(place)).is_relative_to(tree):
            raise _refusal(variable, f"{printable(tree, 200)} (with the model that is checked)")


def expanded(path: str, setting: str) -> Path:
    """Return the path that a setting gives, which may begin with ~; OptionError, which names it, for nobody's home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        shown = printable(path, 200)
        raise OptionError(f"{shown} names the home folder of a user who has none; set {setting} to a path") from None


def _named(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return expanded(value, variable) if value else None


def _refusal(variable: str, where: str) -> OptionError:
    return OptionError(
        f"{variable} names a place in {where}, whose authors could then decide what is trusted; set it to one outside"
    )
