"""Claims with a verdict, reports with more ancestry than one claim, and a tree with an edge of every kind."""

from dataclasses import replace

from hf_lineage.checking.report import Relative
from hf_lineage.checking.result import ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.merge import Parent, Share
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.tree import UNKNOWN, Edge, Mark, Tree
from tests.pages import measured, report, row


def claimed(verdict, base="org/base", relation="finetune", **more):
    return ClaimResult(Claim(base, relation, ("README.md",)), verdict, **more)


def related(base, relation="merge", share=0.97, sources=("README.md",), **numbers):
    return row(base, relation, sources, mlp=measured(share=share, **numbers))


def unrelated(base, sources=("README.md",)):
    return row(base, "merge", sources, mlp=measured(score=0.01, p=0.4, share=0.0))


def unread(base):
    return claimed(Verdict(Code.NO_WEIGHTS, "no weights"), base, "merge")


def merge(model="org/merge"):
    """Two parents, with what they gave, one that is contradicted and one that could not be read."""
    shares = (Share(value, value - 0.01, value + 0.01, {}, True) for value in (0.7, 0.3))
    one, two = (Parent(shares={"mlp": share}, remainders={"mlp": 0.0}) for share in shares)
    gave = (replace(related("org/one"), parent=one), replace(related("org/two"), parent=two))
    return report(*gave, unrelated("free/three"), unread("gone/four"), model=model)


def nearer(relative="org/between"):
    """A model of an index between the declared base and the model."""
    return replace(report(related("org/base", "finetune")), relatives=(Relative(relative, "org/base", 0.8),))


def adapters():
    rows = (replace(related("org/base", "adapter"), part="style"), replace(unrelated("org/base"), part="other-style"))
    return report(*rows, model="org/adapters")


def tree(base="org/base", child="org/child"):
    """A family with an unknown ancestor, a merge and a claim that is contradicted."""
    merge, liar = "org/merge", "org/liar"
    edges = (
        Edge(UNKNOWN, base, Mark.MEASURED, 0.01, directed=False),
        Edge(UNKNOWN, child, Mark.MEASURED, 0.02, directed=False, way="pruned (50% of the weights set to zero)"),
        Edge(base, merge, Mark.VERIFIED, 0.01, relation="merge"),
        Edge(child, merge, Mark.VERIFIED, 0.01, relation="merge"),
        Edge(base, liar, Mark.CONTRADICTED, relation=child),
        Edge("gone/base", liar, Mark.DECLARED),
    )
    return Tree("mlp", (base, child, merge, liar), ((liar,), (UNKNOWN, base, child, merge)), edges, 6, 0.001)
