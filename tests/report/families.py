"""Claims with a verdict, reports with more ancestry than one claim, and a tree with an edge of every kind."""

from dataclasses import replace

from hf_lineage.checking.report import Relative
from hf_lineage.checking.result import NAMED, ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.merge import Parent, Share
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.tree import UNKNOWN, Edge, Mark, Tree
from tests.pages import measured, report, row


def claimed(verdict, base="org/base", relation="finetune", **more):
    """A claim of the card with a verdict."""
    return ClaimResult(Claim(base, relation, ("README.md",)), verdict, **more)


def related(base, relation="merge", share=0.97, sources=("README.md",), **numbers):
    return row(base, relation, sources, mlp=measured(share=share, **numbers))


def unrelated(base, sources=("README.md",)):
    return row(base, "merge", sources, mlp=measured(score=0.01, p=0.4, share=0.0))


def unread(base, sources=("README.md",)):
    return ClaimResult(Claim(base, "merge", sources), Verdict(Code.NO_WEIGHTS, "no weights"))


def gave(base, value):
    """A parent of a merge, with what it gave."""
    share = Share(value, value - 0.01, value + 0.01, {}, True)
    return replace(related(base), parent=Parent(shares={"mlp": share}, remainders={"mlp": 0.0}))


def merge(model="org/merge"):
    """Two parents, one that is contradicted and one that could not be read."""
    rows = (gave("org/one", 0.7), gave("org/two", 0.3), unrelated("free/three"), unread("gone/four"))
    return report(*rows, model=model)


def named():
    """What nothing declares: whoever ran the check named it."""
    return report(related("org/one", None, sources=NAMED), unrelated("free/two", NAMED), unread("gone/three", NAMED))


def nearer(relative="org/between"):
    """A model of an index between the declared base and the model."""
    return replace(report(related("org/base", "finetune")), relatives=(Relative(relative, "org/base", 0.8),))


def adapters():
    """Two adapters of one repository, on one base."""
    rows = (replace(related("org/base", "adapter"), part="style"), replace(unrelated("org/base"), part="other-style"))
    return report(*rows, model="org/adapters")


def crowd(model="org/merge"):
    """More bases than are drawn, the last of which is contradicted."""
    return report(*(related(f"org/base-{number}") for number in range(11)), unrelated("free/liar"), model=model)


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
