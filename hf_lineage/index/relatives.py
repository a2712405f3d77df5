"""Relatives: which models are of one family, by exact tests, what each declares, and so which came first."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hf_lineage.checking.declared import plain_name
from hf_lineage.checking.merge import read_beside
from hf_lineage.checking.relation import measure_derivation
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import LineageError, printable
from hf_lineage.evidence.comparison import scores
from hf_lineage.evidence.criteria import MINIMUM_EFFECT, Criteria
from hf_lineage.evidence.evaluate import judge_signatures
from hf_lineage.evidence.merge import Blend, BlendPlace, Share, blend_of
from hf_lineage.evidence.relation import Derivation
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.differences import Links
from hf_lineage.signature.values import Signature
from hf_lineage.source.model import OpenedModel
from hf_lineage.source.options import Options
from hf_lineage.source.rows import weights_of

FAMILY = (Code.INHERITED,)  # the kinds of verdict by which two models are of one family; a part alone joins no families

SELF = 1e-6  # the squared distance below which two models have the same weights


@dataclass(frozen=True)
class Member:
    """One model: its signature along one path, and what it declares."""

    name: str
    signature: Signature
    claims: tuple[Claim, ...] = ()
    folder: str = ""  # its real path on this machine; empty for what is not a folder of the user's own
    model: OpenedModel | None = None  # the model itself; None where nothing but its signature is known


class Declaration(NamedTuple):
    """One claim, with the place of its base among the models; None if it is none of them."""

    child: int
    base: int | None
    claim: Claim


Arc = tuple[int, int]  # a node from which another comes, and that other


def declarations(tests: "PairTests") -> Iterator[Declaration]:
    """Yield every claim, but for those on themselves; the folder at the path of a base may only bear a claim out."""
    places = {plain_name(member.name): at for at, member in enumerate(tests.members)}
    folders = {member.folder: at for at, member in enumerate(tests.members) if member.folder}
    for child, member in enumerate(tests.members):
        for claim in member.claims:
            base = places.get(plain_name(claim.base))
            at = folders.get(os.path.normpath(Path.cwd() / claim.base)) if base is None else None
            verdict = tests.verdict(at, child) if at is not None and at != child else None
            if base != child:
                yield Declaration(child, at if verdict and verdict.code in (*FAMILY, Code.PART) else base, claim)


@dataclass
class PairTests:
    """The exact tests of pairs of models, each made once and only when it is asked for; and what makes up a model."""

    members: Sequence[Member]
    path: str
    criteria: Criteria
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)

    def verdict(self, base: int, candidate: int) -> Verdict | None:
        """Return the verdict on two models; None where they cannot be compared."""
        if not self.comparable(base, candidate):
            return None
        if (base, candidate) not in self.verdicts:
            one, other = (self.members[at].signature for at in (base, candidate))
            self.verdicts[base, candidate] = judge_signatures(one, other, self.criteria)
        return self.verdicts[base, candidate]

    def derivation(self, base: int, candidate: int) -> Derivation | None:
        """Return how one model was made from another that it is related to; None where that cannot be measured."""
        one, other = self.members[base].model, self.members[candidate].model
        verdict = self.verdict(base, candidate) if one and other else None
        return measure_derivation(one, other, verdict, 0) if one and other and verdict else None

    def blend(self, model: int, parents: Sequence[int]) -> Blend | None:
        """Return a model as a combination of several others; None where the weights of one cannot be read."""
        options = Options(seed=0)
        with contextlib.suppress(LineageError):
            several = (weights_of(self.members[at].model, options) for at in (model, *parents))
            opened = [weights for weights in several if weights]
            if len(opened) > len(parents):
                return blend_of(read_beside(opened[0], opened[1:], (), options), len(parents), opened[0].layers)
        return None

    def shares(self, model: int, parents: Sequence[int], exactly: bool = False) -> list[str]:
        """Return in words what several models gave to one, empty if not known, or if `exactly` it is no blend."""
        blend = self.blend(model, parents)
        if blend is None or (exactly and BlendPlace.BLEND not in blend.places):
            return [""] * len(parents)
        return [f"{share.value:.0%}" if isinstance(share, Share) else "" for share in blend.shares.parents]

    def comparable(self, one: int, other: int) -> bool:
        """Return whether two models have a stream of one width and signatures of one recipe."""
        a, b = self.members[one].signature, self.members[other].signature
        return (a.width, a.recipe.label(self.path)) == (b.width, b.recipe.label(self.path))

    def scores(self) -> list[tuple[float, int, int]]:
        """Return the scores of all pairs that may be related, the highest first."""
        alike, paths = [], [member.signature.paths[self.path] for member in self.members]
        for base, path in enumerate(paths):
            others = [at for at in range(base) if self.comparable(base, at)]
            pairs = zip(scores(path, (paths[at] for at in others)), others, strict=True)
            alike += [(score, base, at) for score, at in pairs if score >= MINIMUM_EFFECT]
        return sorted(alike, reverse=True)


def families_of(tests: PairTests, declared: Sequence[Declaration]) -> list[int]:
    """Return the number of each model's family: claims are tested first, then what is alike."""
    home = list(range(len(tests.members)))
    pairs = [(one.base, one.child) for one in declared if one.base is not None]
    for base, candidate in [*pairs, *((other, at) for _, at, other in tests.scores())]:
        verdict = tests.verdict(base, candidate) if home[base] != home[candidate] else None
        if verdict is not None and verdict.code in FAMILY:
            home = [home[base] if number == home[candidate] else number for number in home]
    return home


def between(tests: PairTests, places: Sequence[int], links: Links) -> Iterator[tuple[Arc, str]]:
    """Yield what each of two neighbours gave to the model between them, where it was put together from both."""
    lines = ((one, [*there]) for one, there in links.items() if len(there) == 2 and max(one, *there) < len(places))
    for one, ends in lines:
        shares = tests.shares(places[one], [places[other] for other in ends], exactly=True)
        name = printable(tests.members[places[one]].name, 200)
        words = [f"{share} of {name}, which is a blend" for share in shares if share]
        for other, words_of in zip(ends, words, strict=len(words) > 0):
            yield from (((one, other), words_of), ((other, one), words_of))


def root_of(links: Links, arcs: Sequence[Arc], models: int) -> int:
    """Return the node from which most arcs lead away, then an unknown ancestor, then the one with most branches."""
    away = {node: sum(base in _path(links, node, child) for base, child in arcs) for node in links}
    return max(links, key=lambda node: (away[node], node >= models, len(links[node]), -node))


def orient(links: Links, root: int, parent: int | None = None) -> Iterator[Arc]:
    """Yield every edge from the root on but that to its parent, children of one node by their distance."""
    for child in sorted(links[root], key=lambda other: (links[root][other], other)):
        if child != parent:
            yield root, child
            yield from orient(links, child, root)


def is_along(links: Links, arcs: Sequence[Arc], edge: Arc) -> bool:
    """Return whether an arc leads along an edge in its direction, and none against it."""
    steps = [set(pairwise(_path(links, *arc))) for arc in arcs]
    return any(edge in some for some in steps) and not any(edge[::-1] in some for some in steps)


def _path(links: Links, start: int, end: int) -> list[int]:
    paths, reached = {start: [start]}, [start]
    for node in reached:
        new = [other for other in links[node] if other not in paths]
        paths |= {other: [*paths[node], other] for other in new}
        reached += new
    return paths[end]
