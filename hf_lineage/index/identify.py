"""Identify: which models of an index a model is related to, which is nearest, and on which an adapter was trained.

The keys only say whom to test. Each candidate is then judged by the exact test on coordinates that no key is made of,
corrected for the number of candidates (Bonferroni). The trace of an adapter is alike for near relatives of its base. So
of each group with keys that are alike the weights of one model are read.
"""

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hf_lineage.checking.adapters import Adapter, judge_on, open_place
from hf_lineage.checking.declared import plain_name
from hf_lineage.checking.report import Combination
from hf_lineage.checking.result import NAMED, VERDICTS, error_as_verdict
from hf_lineage.claims.sources import Claim, read_claims
from hf_lineage.errors import LineageError, RepositoryError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge_signatures
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef, hub_name, resolve, spell_name
from hf_lineage.index.differences import SIBLINGS, align_sketches, along, apart, normalise, products
from hf_lineage.index.shard import BITS, SIZE, Entry, Shard, entries_at, for_testing, key_of, similarities
from hf_lineage.index.store import Catalogue, entry_of
from hf_lineage.signature.recipe import Array
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import Adapters
from hf_lineage.source.options import Options

CHANCE = 4.0 * np.pi / 2 / np.sqrt(BITS)  # four standard errors of the cosine of unrelated keys; less is not tested
# The cosine of two keys from which one model stands for the other: on the example models an adapter shows z = 12.2 on
NEAR = 0.5  # a descendant of its base at .62, and 13.1 on the base itself
FOLDER = "the index has it as a folder, and hf-lineage never opens folders that an index names"


@dataclass(frozen=True)
class Relative:
    """A model of the index that was tested."""

    entry: Entry
    similarity: float  # the cosine of the keys, by which it was chosen
    verdict: Verdict
    distance: float  # ‖φ_B - φ_A‖ in the mean over paired layers: 0 for equal weights, √2 for unrelated ones
    along: float = 0.0  # the cosine of the model's and its own difference from the ancestor


@dataclass(frozen=True)
class Identification:
    """The relatives of a model in an index, along one path."""

    model: str
    commit: str | None
    path: str
    searched: int  # entries along this path, with a stream of the same width and a signature of the same recipe
    of: int  # entries of the index along this path, one for each model
    related: tuple[Relative, ...]  # by the exact test: first those through which the model comes, then the ancestor
    ancestor: Relative | None  # the relative in the middle of all of them, from which differences are taken
    others: tuple[Relative, ...]  # tested models that it does not call RELATED
    width: int = 0  # width of the model's stream
    otherwise: int = 0  # entries along this path that were not searched: of another width, or another recipe
    blended: Combination | None = None  # the relatives that make up the model, where all weights are at hand


def identify(
    signature: Signature, path: str, catalogue: Catalogue, criteria: Criteria, most: int = 5
) -> Identification:
    """Return what an index has of a model, but for itself and what is damaged, along one path of its signature."""
    known, own = catalogue.shards(), entry_of(signature, path)
    alike = [shard for shard in known if shard.group == own.group]
    key = key_of(signature.paths[path])
    cosines = np.concatenate([np.zeros(0), *(similarities(key, keys) for shard in alike for keys in shard.pieces())])
    # Twice as many, because the model itself may be among them, and others twice.
    order = [int(row) for row in np.argsort(-cosines, kind="stable")[: 2 * most + 2] if cosines[row] > CHANCE]
    rows = zip(order[::-1], entries_at(alike, order)[::-1], strict=True)
    itself = (own.model, own.commit)
    candidates = {entry: row for row, entry in rows if (entry.model, entry.commit) != itself}
    chosen = sorted(candidates, key=lambda entry: -cosines[candidates[entry]])
    tests = max(1, min(most, len(chosen)))
    criteria = replace(criteria, analyses=tests, paths=(path,))
    kin, others, sketches = list[Relative](), list[Relative](), [normalise(np.asarray(signature.paths[path].sketch))]
    for entry in chosen:
        if len(kin) + len(others) == most or (other := catalogue.find_signature(entry)) is None:
            continue
        verdict = judge_signatures(for_testing(other, path), for_testing(signature, path), criteria)
        relative = Relative(entry, float(cosines[candidates[entry]]), verdict, 0.0)
        (kin if verdict.is_related else others).append(relative)
        if verdict.is_related:
            pairs = verdict.evidence[path].comparison.pairs
            sketches.append(align_sketches(other.paths[path], pairs, len(signature.paths[path].trace)))
    related, ancestor = _rank(sketches, kin)
    of, searched = sum(shard.rows for shard in known if shard.group.path == path), len(cosines)
    result = Identification(signature.model, signature.commit, path, searched, of, related, ancestor, tuple(others))
    return replace(result, width=own.width, otherwise=of - searched)


def _rank(sketches: Sequence[Array], relatives: Sequence[Relative]) -> tuple[tuple[Relative, ...], Relative | None]:
    """Return the relatives in order, and the ancestor: the one with the least sum of distances, or the nearest part.

    The first sketch is the model's own.
    """
    if not relatives:
        return (), None
    gram = products(sketches)
    distance = apart(gram)
    middle = min(range(len(relatives)), key=lambda at: (float(distance[at + 1, 1:].sum()), float(distance[0, at + 1])))
    parts = [at for at, one in enumerate(relatives) if one.verdict.code is Code.PART]
    middle = min(parts, key=lambda at: float(distance[0, at + 1])) if middle in parts else middle
    cosines = along(gram, middle + 1)[0]
    measured = [
        replace(relative, distance=float(distance[0, row]), along=float(cosines[row]))
        for row, relative in enumerate(relatives, 1)
    ]
    ancestor = measured[middle]
    others = sorted((one for one in measured if one is not ancestor), key=lambda one: (-one.along, one.distance))
    through = sum(one.along >= SIBLINGS for one in others)
    return (*others[:through], ancestor, *others[through:]), ancestor


class Group(NamedTuple):
    """Known models whose keys are alike, of which one is tested for all, and the others, which are not."""

    entry: Entry
    near: tuple[Entry, ...]


class TestedGroup(NamedTuple):
    """A group, and the verdict on its member that was read, which is corrected for all that were tested."""

    group: Group
    verdict: Verdict

    @property
    def is_tested(self) -> bool:
        """Whether the weights of the two were compared."""
        return not (self.verdict.code.is_unjudged or self.verdict.code is Code.DAMAGED)

    @property
    def untested_count(self) -> int:
        """Number of models of the group of which nothing is known after the test."""
        return 0 if self.is_tested else 1 + len(self.group.near)


@dataclass(frozen=True)
class AdapterBases:
    """Known models of an index that may be the base of an adapter."""

    model: str
    commit: str | None
    part: str
    description: str  # the adapter in a sentence, or why it cannot be tested
    width: tuple[int, ...] = ()  # widths of a stream that its matrices fit
    tested: tuple[TestedGroup, ...] = ()
    tests: int = 1  # number of models that were tested in all, for which p is corrected (Bonferroni)
    fitting: int = 0  # models of the index with a stream of such a width
    untested: int = 0  # models with a stream of such a width that are neither tested nor near a model that is
    of: int = 0  # all models of the index


def identify_adapters(
    source: RepoRef, adapters: Adapters, catalogue: Catalogue, options: Options, most: int
) -> list[AdapterBases]:
    """Return the known models whose trace adapters carry, a declared base first; each is tested on at most so many."""
    known = catalogue.shards()
    results, of = [], sum(shard.rows for shard in known)
    for place in adapters.places:
        declared = set[str]()
        for repo in (place.repo, source):
            with contextlib.suppress(LineageError):
                declared |= {plain_name(claim.base) for claim in read_claims(repo).claims}
        for part, one in open_place(place):
            if not isinstance(one, Adapter):
                reason = one.reason if isinstance(one, Verdict) else "it has no matrix product that can be tested"
                results.append(AdapterBases(source.name, source.commit, part, reason, of=of))
                continue
            sides = [{factors.rows, factors.columns} for factors in one.lora.modules.values()]
            # The side that all its matrices have in common; every side where there is none, as of square ones alone.
            widths = (set.intersection(*sides) or set.union(*sides)) if sides else set()
            wide = [shard for shard in known if shard.group.path == options.paths[0] and shard.group.width in widths]
            groups, fitting, left = group_models(wide, most, declared)
            stricter = replace(options, alpha=options.alpha / max(1, len(groups)))
            tested = tuple(TestedGroup(group, _judge(one, group.entry, stricter)) for group in groups)
            counts = {"tests": len(groups), "fitting": fitting, "untested": left, "of": of}
            stream = tuple(sorted(widths))
            results.append(AdapterBases(source.name, source.commit, part, one.description, stream, tested, **counts))
    return results


def _judge(adapter: Adapter, entry: Entry, options: Options) -> Verdict:
    try:
        source = locate_entry(entry, options.local_hub)
        return judge_on(adapter, Claim(entry.model, None, NAMED), source, options).verdict
    except VERDICTS as error:
        return error_as_verdict(error)


def group_models(known: Sequence[Shard], most: int, first: Collection[str] = ()) -> tuple[list[Group], int, int]:
    """Return groups of the models in shards, those named in `first` before others, folders last; and two counts."""
    everything = [entry for shard in known for entry in shard.entries()]
    places = {}
    for row, one in enumerate(everything):  # one may be there twice
        places[one.model, one.commit] = plain_name(one.model) not in first, not one.commit, one, row
    order = [row for *_, row in sorted(places.values())]
    groups: list[Group] = []
    keys = np.concatenate([np.zeros((0, SIZE), np.uint8), *(shard.keys() for shard in known)])
    left = np.array(order, np.int64)
    while len(left) and len(groups) < most:
        chosen = everything[left[0]]
        alike = similarities(keys[left[0]], keys[left]) >= NEAR
        alike &= np.array([everything[row].width == chosen.width for row in left])
        alike[0] = True
        groups.append(Group(chosen, tuple(everything[row] for row in left[alike][1:])))
        left = left[~alike]
    return groups, len(order), len(left)


def locate_entry(entry: Entry, local_hub: Path | None) -> RepoRef:
    """Return the repository of a model of an index, which anybody may have made; RepositoryError if it has none."""
    name = entry.model.partition("@")[0]
    if not entry.commit and not (local_hub and hub_name(name) and spell_name(local_hub, name)):
        raise RepositoryError(FOLDER)
    return resolve(f"{name}@{entry.commit}" if entry.commit else name, local_hub, folders=False)
