"""Trees for the formats: one with an edge of every kind, and hostile names."""

from hf_lineage.index.tree import UNKNOWN, Edge, Mark, Tree


def tree(base="org/base", child="org/child"):
    """A family with an unknown ancestor, a merge and a claim that is contradicted."""
    merge, liar = "org/merge", "org/liar"
    edges = (
        Edge(UNKNOWN, base, Mark.MEASURED, 0.01, directed=False),
        Edge(UNKNOWN, child, Mark.MEASURED, 0.02, directed=False, seen="pruned (50% of the weights set to zero)"),
        Edge(base, merge, Mark.VERIFIED, 0.01, relation="merge"),
        Edge(child, merge, Mark.VERIFIED, 0.01, relation="merge"),
        Edge(base, liar, Mark.CONTRADICTED, relation=child),
        Edge("gone/base", liar, Mark.DECLARED),
    )
    return Tree("mlp", (base, child, merge, liar), ((liar,), (UNKNOWN, base, child, merge)), edges, 6, 0.001)
