"""Every node is in one row, however often it is named; what was said besides stands with its model."""

from hf_lineage.report.tree.rows import besides, rows
from tests.report.trees import tree


def test_every_model_has_one_row_and_families_come_first():
    names = [row.name for row in rows(tree())]
    assert names == ["unknown common ancestor", "org/base", "org/merge", "org/child", "org/liar"]
    assert [row.depth for row in rows(tree())] == [0, 1, 2, 1, 0]


def test_what_no_weights_bear_out_is_said_of_the_model_that_declares_it():
    *_, liar = rows(tree())
    assert [besides(edge) for edge in liar.further] == [
        "declares org/base: contradicted",
        "declares gone/base: declared only",
    ]
