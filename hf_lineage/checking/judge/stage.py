"""Stage: one test of a claim, which others may follow, and the two models that are tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hf_lineage.architecture.registry import ALL, PATHS
from hf_lineage.checking.options import Options
from hf_lineage.checking.source import OpenedModel
from hf_lineage.evidence import Criteria, Verdict


@dataclass(frozen=True)
class ModelPair:
    """Two opened models and the options by which they are compared."""

    base: OpenedModel
    candidate: OpenedModel
    options: Options
    declared: bool = False
    """Whether the candidate itself declares the base: then it has no reason to hide that it comes from it."""

    @classmethod
    def along_common_paths(
        cls, base: OpenedModel, candidate: OpenedModel, options: Options, declared: bool = False
    ) -> ModelPair:
        """Return two models; where the options name all paths, they are compared along those that both have."""
        common = tuple(path for path in PATHS if path in base.rows and path in candidate.rows)
        chosen = replace(options, paths=common) if options.paths == ALL and common else options
        return cls(base, candidate, chosen, declared)


@dataclass(frozen=True)
class Stage:
    """One test of a claim. Every test that is possible has its part of alpha, whether it is made in the end or not."""

    name: str
    """How it compares two models: reports name it if it could not."""
    possible: Callable[[ModelPair], bool]
    """Whether it may be made, by what is known before any weights are read."""
    analyses: Callable[[ModelPair], int]
    """How many p-values it may have; each takes an equal part of alpha (Bonferroni)."""
    called_for: Callable[[ModelPair, Verdict | None], bool]
    """Whether it follows the verdict so far, which is None before the first."""
    run: Callable[[ModelPair, Criteria, Verdict | None], Verdict | None]
    """Return what it shows, None where it leaves the verdict to later tests; raise LineageError for unreadable files.

    NothingToCompare is raised where the two models cannot be compared in this way.
    """
    interim: bool = False
    """Whether its p-values are interim analyses of the products of the paths."""
