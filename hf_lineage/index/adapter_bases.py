"""Catalogue test: adapters are tested against the weights of known models, of as few of them as possible.

The trace of a base in an adapter is alike for near relatives of the base. So the models of an index are gathered into
groups whose keys are alike, and one of each group is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hf_lineage.checking.adapters import Adapter, judge_on, open_place
from hf_lineage.checking.result import NAMED, VERDICTS, Row, attempt
from hf_lineage.claims.sources import Claim, read_claims
from hf_lineage.errors import LineageError, RepositoryError
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef, hub_name, resolve, spelled
from hf_lineage.index.relatives import plain
from hf_lineage.index.shard import SIZE, Entry, Shard, similarities
from hf_lineage.index.store import Catalogue
from hf_lineage.source.contents import Adapters
from hf_lineage.source.options import Options

FOLDER = "the index has it as a folder, and hf-lineage never opens folders that an index names"
NEAR = 0.5
"""The cosine of two keys from which one model stands for the other: on the example models an adapter shows z = 12.2 on
a descendant of its base at .62, and 13.1 on the base itself."""


@dataclass(frozen=True)
class Group:
    """Known models whose keys are alike, of which one is tested for all."""

    entry: Entry
    near: tuple[Entry, ...]
    """The others, which are not tested."""


@dataclass(frozen=True)
class Judged:
    """A group, and the verdict on a model or an adapter and the member of the group that was read."""

    group: Group
    row: Row
    """The row of that member: its p-value is corrected for nothing, its verdict for all that were tested."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the two."""
        return self.row.verdict

    @property
    def tested(self) -> bool:
        """Whether the weights of the two were compared."""
        return not (self.verdict.code.is_unjudged or self.verdict.code is Code.DAMAGED)

    @property
    def left(self) -> int:
        """Number of models of the group of which nothing is known after the test."""
        return 0 if self.tested else 1 + len(self.group.near)

    @property
    def related(self) -> bool:
        """Whether the two share ancestry."""
        return self.verdict.is_related


@dataclass(frozen=True)
class AdapterBases:
    """Known models of an index that may be the base of an adapter."""

    model: str
    commit: str | None
    part: str
    described: str
    """The adapter in a sentence, or why it cannot be tested."""
    width: tuple[int, ...] = ()
    """Widths of a stream that its matrices fit."""
    tested: tuple[Judged, ...] = ()
    tests: int = 1
    """Number of models that were tested in all, for which p is corrected (Bonferroni)."""
    fitting: int = 0
    """Models of the index with a stream of such a width."""
    untested: int = 0
    """Models with a stream of such a width that are neither tested nor near a model that is."""
    of: int = 0
    """All models of the index."""


def identify_adapters(
    source: RepoRef, adapters: Adapters, catalogue: Catalogue, options: Options, most: int
) -> list[AdapterBases]:
    """Return the known models whose trace the adapters of a repository carry; each is tested on at most so many.

    A base that an adapter declares is tested first. Raise LineageError for an adapter that is damaged.
    """
    known = catalogue.shards()
    results, of = [], sum(shard.rows for shard in known)
    for place in adapters.places:
        declared = declared_in([place.repo, source])
        for part, one in open_place(place):
            if not isinstance(one, Adapter):
                reason = one.reason if isinstance(one, Verdict) else "it has no matrix product that can be tested"
                results.append(AdapterBases(source.name, source.commit, part, reason, of=of))
                continue
            widths = widths_of(one)
            wide = [shard for shard in known if shard.group.path == options.paths[0] and shard.group.width in widths]
            groups, fitting, left = grouped(wide, most, declared)
            tested = tuple(_tested(one, group, len(groups), options) for group in groups)
            counts = {"tests": len(groups), "fitting": fitting, "untested": left, "of": of}
            stream = tuple(sorted(widths))
            results.append(AdapterBases(source.name, source.commit, part, one.described, stream, tested, **counts))
    return results


def widths_of(adapter: Adapter) -> set[int]:
    """Return the widths that the stream of its base may have: the one side that all its matrices have in common.

    It is every side where they have none, as for an adapter of a single kind of square matrices.
    """
    sides = [{factors.rows, factors.columns} for factors in adapter.lora.modules.values()]
    return set.intersection(*sides) or set.union(*sides) if sides else set()


def grouped(known: Sequence[Shard], most: int, first: Collection[str] = ()) -> tuple[list[Group], int, int]:
    """Return groups of the models in some shards, how many such models there are, and how many are in no group.

    Models of the names in `first`, without their commits, stand for a group before all others, and folders after them.
    """
    everything = [entry for shard in known for entry in shard.entries()]
    rows = {(one.model, one.commit): row for row, one in enumerate(everything)}  # one may be there twice

    def place(row: int) -> tuple[bool, bool, Entry]:
        one = everything[row]
        return plain(one.model) not in first, not one.commit, one

    order = sorted(rows.values(), key=place)
    groups: list[Group] = []
    empty = np.zeros((0, SIZE), np.uint8)
    left, keys = np.array(order, np.int64), np.concatenate([empty, *(shard.keys() for shard in known)])
    while len(left) and len(groups) < most:
        chosen = everything[left[0]]
        alike = similarities(keys[left[0]], keys[left]) >= NEAR
        alike &= np.array([everything[row].width == chosen.width for row in left])
        alike[0] = True
        groups.append(Group(chosen, tuple(everything[row] for row in left[alike][1:])))
        left = left[~alike]
    return groups, len(order), len(left)


def _tested(adapter: Adapter, group: Group, tests: int, options: Options) -> Judged:
    """Return the verdict on one group, by criteria for so many tests."""
    claim = Claim(group.entry.model, None, NAMED)
    stricter = replace(options, alpha=options.alpha / tests)
    outcome = attempt(lambda: judge_on(adapter, claim, located(group.entry, options.local_hub), stricter), *VERDICTS)
    return Judged(group, outcome if isinstance(outcome, Row) else Row(claim, outcome))


def located(entry: Entry, local_hub: Path | None) -> RepoRef:
    """Return the repository of a model of an index; RepositoryError if there is none.

    The name is one on the Hub, as every name that the user did not type: an index may come from somebody else. Without
    a commit it was a folder, which only the local hub may have.
    """
    name = entry.model.partition("@")[0]
    if not entry.commit and not (local_hub and hub_name(name) and spelled(local_hub, name)):
        raise RepositoryError(FOLDER)
    return resolve(f"{name}@{entry.commit}" if entry.commit else name, local_hub, folders=False)


def declared_in(repos: Iterable[RepoRef]) -> set[str]:
    """Return the bases that are declared in some folders; none where that cannot be read."""
    names = set()
    for repo in repos:
        with contextlib.suppress(LineageError):
            names |= {plain(claim.base) for claim in read_claims(repo).claims}
    return names
