"""By weights: a model that no key finds is tested against the weights of known models, one of each group of relatives.

A narrowed, widened or rotated model has other keys than its base. Its hidden units are seen through the tokens that
both know, which takes the weights of both.
"""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.checking import Options
from hf_lineage.checking.judge import Candidate, Reached, judge_pair, opened_once
from hf_lineage.checking.results import NAMED, VERDICTS, Row, attempt
from hf_lineage.checking.source import OpenedModel, counterpart, open_model
from hf_lineage.claims import Claim
from hf_lineage.evidence import Verdict
from hf_lineage.hub import RepoRef
from hf_lineage.index.search.catalogue_test import Group, Judged, declared_in, for_several, grouped, located
from hf_lineage.index.storage import Catalogue


@dataclass(frozen=True)
class ByWeights:
    """What the weights of known models say of a model that no key finds."""

    model: str
    tested: tuple[Judged, ...]
    fitting: int
    """Other models of the index along the path."""
    untested: int
    """Those of them that are neither tested nor near a model that is."""

    @property
    def tests(self) -> int:
        """How many were tested, for which p is corrected (Bonferroni)."""
        return max(1, len(self.tested))


def by_weights(source: RepoRef, catalogue: Catalogue, options: Options, most: int) -> ByWeights:
    """Return what the weights of at most so many known models say of a model, a base that it declares first.

    Raise LineageError if the model itself cannot be read.
    """
    known = catalogue.read().wide(options.paths[0]).without(source.name, source.commit or "")
    groups, fitting, left = grouped(known, most, declared_in([source]))
    strict = for_several(options, max(1, len(groups)))
    candidate = opened_once(source, strict)
    return ByWeights(source.name, tuple(_judged(group, candidate, strict) for group in groups), fitting, left)


def _judged(group: Group, candidate: Candidate, options: Options) -> Judged:
    claim = Claim(group.entry.model, None, NAMED)

    def opened() -> OpenedModel:
        return open_model(counterpart(located(group.entry, options.local_hub), ""), options, is_base=True)

    base = attempt(opened, *VERDICTS)
    outcome = attempt(lambda: judge_pair(claim, Reached(base), candidate, options), *VERDICTS)
    return Judged(group, Row(claim, outcome) if isinstance(outcome, Verdict) else outcome)
