"""Tree: models -> families by exact tests, and in each family the tree by the differences of its models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from hf_lineage.checking.declared import plain_name
from hf_lineage.evidence.comparison import compare_paths, scores
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import name_layers
from hf_lineage.evidence.relation import Means
from hf_lineage.evidence.verdict import Code
from hf_lineage.index import differences, relatives
from hf_lineage.index.relatives import FAMILY, SELF, Arc, Declaration, Member, PairTests
from hf_lineage.signature.recipe import Array, Vector

UNKNOWN = "unknown common ancestor"
ALPHA = 0.001  # the least p-value that one pair can have: p is not corrected for the number of pairs


class Mark(Enum):
    """The evidence that an edge rests on, by the words that reports print."""

    VERIFIED = "verified"
    IN_PART = "related in part"
    WEAKER = "related, not verified"  # related by a threshold, by the embedding alone, or by an unknown amount
    MEASURED = "measured only"
    DECLARED = "declared only"
    NOT_JUDGED = "not judged"  # the test was tried and gave no verdict
    NO_TRACE = "no trace"  # nothing declares it: whoever ran the check named it
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Edge:
    """Two models of which one comes, or is declared to come, from the other."""

    parent: str
    child: str
    mark: Mark
    length: float | None = None  # the corrected squared distance; None where the edge is not of the tree
    directed: bool = True  # whether something tells which of the two came first
    relation: str = ""  # the relation that the child declares
    way: str = ""  # the way in which the child was made from the parent, as the weights show it, in words


@dataclass(frozen=True)
class Tree:
    """Families of models; an edge of the tree is in a family, one that is declared alone may lead anywhere."""

    path: str
    models: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]  # of each the models and unknown ancestors, from its root on
    edges: tuple[Edge, ...]
    pairs: int  # number of pairs of models, of which each can be tested once
    alpha: float


def grow(members: Sequence[Member], path: str, criteria: Criteria | None = None) -> Tree:
    """Return the tree of some models, along one path that all their signatures have."""
    criteria = criteria or Criteria(alpha=ALPHA, paths=(path,))
    tests = PairTests(members, path, criteria)
    declared = list(relatives.declarations(tests))
    home = relatives.families_of(tests, declared)
    edges: list[Edge] = []
    families: list[tuple[str, ...]] = []
    unknown = 0
    for family in sorted(dict.fromkeys(home), key=home.index):
        own = [at for at, number in enumerate(home) if number == family]
        nodes, within = _family(tests, own, declared, unknown)
        unknown += len(nodes) - len(own)
        families.append(nodes)
        edges += within
    edges += _in_part(tests, home, declared)
    lines = {(edge.parent, edge.child) for edge in edges}
    for one in declared:  # what no weights bear out, and what nothing was measured of
        base = one.claim.base if one.base is None else members[one.base].name
        verdict = None if one.base is None else tests.verdict(one.base, one.child)
        code = verdict.code if verdict else None
        if (base, members[one.child].name) not in lines and code not in FAMILY:
            mark = Mark.CONTRADICTED if code is Code.UNRELATED else Mark.DECLARED
            edges.append(Edge(base, members[one.child].name, mark, relation=one.claim.relation or ""))
    names, pairs = tuple(member.name for member in members), len(members) * (len(members) - 1) // 2
    return Tree(path, names, tuple(families), tuple(edges), pairs, criteria.alpha)


def _family(
    tests: PairTests, own: Sequence[int], declared: Sequence[Declaration], before: int
) -> tuple[tuple[str, ...], list[Edge]]:
    """Return the nodes of one family, its root first, and edges; `before` counts unknown nodes of other families."""
    gram = differences.products(_sketches(tests, own))
    claims = [(own.index(one.base), own.index(one.child)) for one in declared if one.base in own and one.child in own]
    aside = _merges(gram, claims)
    rest = [at for at in range(len(own)) if all(at != merge.model for merge in aside)]
    arcs = [(rest.index(base), rest.index(child)) for base, child in claims if base in rest and child in rest]
    places = [own[at] for at in rest]
    apart = differences.distances(gram)
    links = _join(tests.members, declared, apart[:, rest][rest], places, [own[base] for base, _ in claims])
    neighbours = [(one, other) for one in links for other in links[one] if one < len(places) > other]
    relations = {arc: how for arc in neighbours if (how := tests.derivation(places[arc[0]], places[arc[1]]))}
    # What cannot be undone shows that a model is the child.
    arcs += [arc for arc, how in relations.items() if {Means.QUANTIZED, Means.PRUNED} & {*how.means}]
    within = dict(relatives.between(tests, places, links))
    unknown = enumerate((node for node in links if node >= len(rest)), before + 1)
    names = {at: tests.members[place].name for at, place in enumerate(places)}
    names |= {node: f"{UNKNOWN} {number}" if number > 1 else UNKNOWN for number, node in unknown}
    root = relatives.root_of(links, arcs, len(rest))
    nodes, edges = [names[root]], []
    for arc in relatives.orient(links, root):
        edge = _declared_edge(tests, declared, names[arc[0]], names[arc[1]])
        nodes.append(names[arc[1]])
        length, made = links[arc[0]][arc[1]], within.get(arc, "")
        if arc in relations and not made:
            evidence = tests.verdicts[places[arc[0]], places[arc[1]]].evidence[tests.path]
            some = sorted(evidence.origins) if len(evidence.origins) < evidence.layers_read else ()
            made = f"in {name_layers(some)}, {relations[arc].words}" if some else relations[arc].words
        length, along = length * (length >= SELF), relatives.is_along(links, arcs, arc)
        edges.append(replace(edge, length=length, directed=along, way=made))
    for merge in aside:
        model = tests.members[own[merge.model]].name
        gave = tests.shares(own[merge.model], [own[at] for at in (*merge.parents, merge.ancestor)])
        for parent, share in zip(merge.parents, gave, strict=False):
            edge = _declared_edge(tests, declared, tests.members[own[parent]].name, model)
            way, length = f"a contribution{share and f' of {share}'} to a merge", float(apart[parent, merge.model])
            edges.append(replace(edge, length=length, way=way))
    return (*nodes, *(tests.members[own[merge.model]].name for merge in aside)), edges


def _join(
    members: Sequence[Member], declared: Sequence[Declaration], apart: Vector, places: Sequence[int], bases: list[int]
) -> differences.Links:
    """Return the tree of models in some places by their distances; `bases` has the base of every claim."""
    # Models that share with others a declared base which is none of the models.
    absent = [plain_name(one.claim.base) for one in declared if one.base is None and one.child in places]
    barred = [any(absent.count(plain_name(one.base)) > 1 for one in members[at].claims) for at in places]
    preferred = [bases.count(at) for at in places]
    return differences.simplify_tree(differences.join_neighbours(apart), len(places), preferred, barred)


def _declared_edge(tests: PairTests, declared: Sequence[Declaration], parent: str, child: str) -> Edge:
    names = [member.name for member in tests.members]
    for one in declared:
        if one.base is not None and (names[one.base], names[one.child]) == (parent, child):
            verdict = tests.verdict(one.base, one.child)
            mark = Mark.VERIFIED if verdict and verdict.code in FAMILY else Mark.MEASURED
            return Edge(parent, child, mark, relation=one.claim.relation or "")
    return Edge(parent, child, Mark.MEASURED, directed=False)


def _sketches(tests: PairTests, own: Sequence[int]) -> list[Array]:
    paths = [tests.members[at].signature.paths[tests.path] for at in own]
    middle = max(range(len(paths)), key=lambda at: sum(scores(paths[at], paths)))
    layers = len(paths[middle].trace)
    return [differences.align_sketches(path, compare_paths(path, paths[middle]).pairs, layers) for path in paths]


def _merges(gram: Vector, claims: Sequence[Arc]) -> list[differences.Merge]:
    """Return the merges of a family; of several candidates, the one that declares its parents, then the strongest."""
    aside: list[differences.Merge] = []
    while True:
        left = [at for at in range(len(gram)) if all(at != merge.model for merge in aside)]
        candidates = [
            differences.Merge(left[one.model], tuple(left[at] for at in one.parents), left[one.ancestor], one.strength)
            for one in differences.merges(gram[:, left][left])
        ]
        candidates = [one for one in candidates if not any((one.model, parent) in claims for parent in one.parents)]
        if not candidates:
            return aside
        best = min(candidates, key=lambda one: (-sum((at, one.model) in claims for at in one.parents), -one.strength))
        aside.append(best)


def _in_part(tests: PairTests, home: Sequence[int], declared: Sequence[Declaration]) -> Iterator[Edge]:
    """Yield an edge for what is related in part: to a base that it declares, else to the one it is most alike to."""
    pairs = [(one.base, one.child) for one in declared if one.base is not None]
    alike = [(at, other) for _, one, two in tests.scores() for at, other in ((one, two), (two, one))]
    alike.sort(key=lambda pair: home.count(home[pair[1]]) > 1)
    members, done = tests.members, list[set[int]]()
    for number, (base, child) in enumerate([*pairs, *alike]):
        families = {home[base], home[child]}
        if len(families) > 1 and (number < len(pairs) or families not in done):
            verdict = tests.verdict(base, child)
            if verdict is not None and verdict.code is Code.PART:
                done.append(families)
                edge = _declared_edge(tests, declared, members[base].name, members[child].name)
                yield replace(edge, mark=Mark.IN_PART)
