"""Graphviz and Mermaid get every node and edge, and names that cannot be anything else."""

from hf_lineage.report.tree.graph import dot, mermaid
from tests.report.trees import tree


def test_graphviz_gets_every_edge():
    shown = dot(tree('org/"; evil [x\\', "org/child"))
    assert shown.startswith("digraph lineage {\n")
    assert shown.count("->") == 6
    assert r'"org/\"; evil [x\\" -> "org/merge" [label="verified", color="#12642c"];' in shown
    assert '"unknown common ancestor" -> "org/child" [label="measured only", color="#404a57", dir="none"];' in shown


def test_mermaid_gets_every_edge_between_numbered_nodes():
    lines = mermaid(tree('org/"]; click x', "org/child")).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n2["org/#34;#93;#59; click x"]' in lines
    assert '  n2 -->|"verified"| n4' in lines
    assert '  n1 ---|"measured only"| n2' in lines
    assert '  n2 -.->|"contradicted"| n0' in lines
