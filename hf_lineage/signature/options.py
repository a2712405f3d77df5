"""What a signature depends on besides the weights: the recipe and the paths, and where else it may come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from hf_lineage.architecture.registry import ALL, PATHS
from hf_lineage.errors import OptionError
from hf_lineage.signature.fields import Names, OptionalPath
from hf_lineage.signature.recipe import RECIPES, Recipe


@dataclass(frozen=True)
class Spec:
    """Which signature of a model is meant: by which recipe, and along which paths; OptionError for an unknown path."""

    recipe: Recipe = RECIPES["robust"]
    paths: Names = Names("mlp")
    """Names of paths, or ALL."""
    readers: bool = field(default=False, kw_only=True)
    """Whether a signature also holds what the shares of a merge are measured on; only checks of merges need it."""

    def __post_init__(self) -> None:
        if self.paths == ALL:
            return
        unknown = [path for path in self.paths if path not in PATHS]
        if unknown or not self.paths or len(set(self.paths)) != len(self.paths):
            raise OptionError(
                f"paths must be {ALL[0]}, or one or more of {', '.join(PATHS)}, each once, not {', '.join(self.paths)}"
            )


@dataclass(frozen=True)
class Sources:
    """Where a signature may come from besides the weights; OptionError where nothing is left."""

    recompute: bool = False
    """Whether to read weights even where a signature of them is cached or published."""
    signatures: Names = Names()
    """Repositories on the Hub to search for signatures of bases, besides their own."""
    trust: OptionalPath = OptionalPath()
    """A trust file instead of the usual one."""
    published: bool = field(default=False, kw_only=True)
    """Whether no weights of a base may be downloaded: a published signature is used."""

    def __post_init__(self) -> None:
        if self.recompute and self.published:
            raise OptionError("--recompute reads the weights, and --published forbids to download them; give one")
