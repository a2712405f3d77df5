"""Options: what a check depends on besides the models, all of it in one record; a function takes the part it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hf_lineage.errors import OptionError
from hf_lineage.evidence.procedure import Procedure
from hf_lineage.signature.options import Sources, Spec


@dataclass(frozen=True)
class Options(Sources, Procedure, Spec):
    """What a check depends on besides the models; out of range raises OptionError.

    >>> Options(alpha=0.0001)
    Traceback (most recent call last):
    hf_lineage.errors.OptionError: alpha 0.0001 cannot be reached with 999 permutations over 1 path(s); ...
    """

    max_memory: str | None = None
    local_hub: Path | None = None
    subfolder: str = ""
    """The folder of the repository in which the model is; bases are searched for the same folder."""

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        Procedure.__post_init__(self)
        Sources.__post_init__(self)
        if self.budget == "quick" and (self.nulls or self.recipe.probes is None):
            raise OptionError("--null and --exact need all layers; leave --budget quick out")
        if self.published and self.recipe.probes is None:
            raise OptionError("no signature of --exact is published; leave --published or --exact out")
        if len(self.paths) / (self.permutations + 1) > self.alpha:
            least = -int(-len(self.paths) // self.alpha) - 1
            raise OptionError(
                f"alpha {self.alpha:g} cannot be reached with {self.permutations} permutations over "
                f"{len(self.paths)} path(s); use at least {least}"
            )
