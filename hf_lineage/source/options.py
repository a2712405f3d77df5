"""Options: what a check depends on besides the models, all of it in one record; a function takes the part it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hf_lineage.architecture.registry import Choice, listing, similar
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence.criteria import Budget, Criteria
from hf_lineage.files.paths import CACHE, outside_checkouts
from hf_lineage.hub.repo import RepoRef
from hf_lineage.options import settle
from hf_lineage.signature.recipe import Names, OptionalPath, Spec

if TYPE_CHECKING:
    from hf_lineage.evidence.p_values import EmpiricalNull


@dataclass(frozen=True, kw_only=True)
class Options(Spec):
    """Settings of a check, besides the models; a value out of range, or of another kind, raises OptionError, and so
    does a cache in a git checkout. Text stands for a path, the name of a recipe for it, and one name for several.

    >>> Options(alpha=2)
    Traceback (most recent call last):
    hf_lineage.errors.OptionError: alpha must lie between 1e-06 and 0.5, not 2
    >>> Options(local_hub="examples/hub", recipe="paper", paths="mlp").paths
    ('mlp',)
    """

    # Declared again: of the fields of a frozen base mypy knows only what may be written, and not what is held.
    paths: Names = Names(*Spec.paths)  # Names of paths, or all of them: `all`
    recompute: bool = False  # Whether to read weights even where a signature of them is cached

    alpha: float = Criteria.alpha
    permutations: int = Criteria.permutations  # Drawn at first, unless alpha takes more; further ones may follow
    seed: int | None = None  # Seed of all that is drawn: permutations, layers, units; None: a new one each time
    nulls: Names = Names()  # Models known to be independent of the base, or names of published nulls
    budget: Budget | None = None  # `quick` stops reading when the verdict is clear; None: `quick` where possible
    min_share: float = Criteria.min_share  # A claim is verified only if more of what the units write is inherited
    accept: Names = Names()  # Codes that are accepted though they verify no claim, of `evidence.ACCEPTABLE`

    max_memory: str | None = None
    local_hub: OptionalPath = OptionalPath()
    subfolder: str = ""  # The folder of the repository in which the model is; bases are searched for the same folder
    file: str | None = None  # The file of a converted model (GGUF, ONNX) if there are several; not of bases
    allow_pickle: bool = False  # Whether pickles are read, of the model and of its bases; nothing in them is run
    as_class: str | None = None  # The listed class to use for a model whose own class is not listed
    run: bool = False  # Whether both models are loaded and run too; needs the extra `run`
    strict: bool = False  # Whether every number is compared with the base's
    registry: OptionalPath = OptionalPath()  # The user's factorizations for classes that are not listed

    @property
    def choice(self) -> Choice:
        """The reading that the user chooses for a model whose class the registry does not list."""
        return Choice(self.as_class, self.registry)

    def allow(self, repo: RepoRef) -> RepoRef:
        """Return a repository with what the user allows to read of it."""
        return replace(repo, allow_pickle=True) if self.allow_pickle else repo

    def criteria(
        self, *, analyses: int, further: int = 0, independent: Mapping[str, EmpiricalNull] | None = None
    ) -> Criteria:
        """Return what a verdict depends on, for so many tests of one claim; `independent` are the nulls by path."""
        own = {name: getattr(self, name) for name in ("alpha", "min_share", "accept", "paths", "permutations")}
        tests: dict[str, Any] = {"analyses": analyses, "further": further, "independent": independent or {}}
        return Criteria(**own, **tests, seed=self.seed or 0)

    def __post_init__(self) -> None:
        settle(self)
        outside_checkouts(CACHE)
        Spec.__post_init__(self)
        if self.budget == "quick" and (self.nulls or self.recipe.probes is None):
            raise OptionError("--null and a recipe without probes need all layers; leave --budget quick out")
        if self.run:
            from hf_lineage.running.process import refuse_without_extra

            refuse_without_extra()
        if self.registry is not None and not self.registry.is_dir():
            raise OptionError(f"{self.registry} is not a folder; name the one with the factorizations")
        if self.as_class and not self.registry and not any(listing(self.as_class)):
            meant, lists = similar(self.as_class), "`hf-lineage registry` lists them; a folder is written ./DIR"
            instead = f"did you mean {meant}?" if meant else lists
            raise OptionError(f"--as {printable(self.as_class, 200)} is not a class of the registry; {instead}")
