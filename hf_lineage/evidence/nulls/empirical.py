"""The empirical null: scores of the base against models that are known to be independent of it (paper, equation 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from hf_lineage.architecture.registry import registry_root
from hf_lineage.errors import RegistryError, printable


@dataclass(frozen=True)
class EmpiricalNull:
    """Scores of the base against named models that are independent of it (equation 7)."""

    scores: Mapping[str, float]
    source: str
    tests: int = 1
    """The number of paths that are tested by such scores: p-values are multiplied by it (Bonferroni)."""
    observed: float = math.nan
    """The score of the candidate."""
    alpha: float = 0.01

    name = "empirical"
    correction = "Bonferroni"

    @property
    def threshold(self) -> float:
        """τ, the largest score an independent model reached."""
        return max(self.scores.values())

    @property
    def p_value(self) -> float:
        """The conformal p-value (#{score_j >= score} + 1) / (n + 1) times `tests`, 1 at most."""
        reached = sum(other >= self.observed for other in self.scores.values())
        return min(1.0, self.tests * (reached + 1) / (len(self.scores) + 1))

    @property
    def p_over_paths(self) -> float:
        """The p-value, in which the paths are counted already."""
        return self.p_value

    @property
    def admits(self) -> bool:
        """Whether the candidate scores higher than every independent model, so that the verdict may be RELATED."""
        return self.observed > self.threshold

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""
        return f"{len(self.scores)} independent models reach {self.threshold:.2g}; {printable(self.source)}"

    @property
    def objection(self) -> str:
        """Why these scores cannot give p <= alpha; empty if there are enough of them."""
        needed = math.ceil(self.tests / self.alpha - 1e-9) - 1
        if len(self.scores) >= needed:
            return ""
        return (
            f"{len(self.scores)} independent model(s) cannot show p <= {self.alpha:g}; that needs at least {needed}; "
            "name more with --null"
        )


class PublishedNull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of `registry/nulls`: scores that somebody published, with their source."""

    reference: str
    path: str
    recipe: str
    source: str
    scores: dict[str, float]
    remark: str = ""


def published_null(name: str, root: Path | None = None) -> PublishedNull | None:
    """Return the published null of this name, None if there is none; raise RegistryError if its file is malformed."""
    file = (root or registry_root()) / "nulls" / f"{Path(name).name}.yaml"
    if Path(name).name != name or not file.is_file():
        return None
    try:
        return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), PublishedNull)
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"nulls/{file.name}: {error}") from None
