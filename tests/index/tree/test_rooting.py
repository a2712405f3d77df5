"""A root is where claims lead away from, and an edge has a direction only where something leads along it."""

from hf_lineage.index.tree.rooting import crossed, oriented, root_of

CHAIN = {0: {1: 1.0}, 1: {0: 1.0, 2: 1.0, 3: 2.0}, 2: {1: 1.0}, 3: {1: 2.0}}


def test_the_root_is_the_model_that_others_declare():
    assert root_of(CHAIN, [(0, 2), (0, 1)], 4) == 0
    assert list(oriented(CHAIN, 0)) == [(0, 1), (1, 2), (1, 3)]


def test_without_evidence_the_tree_hangs_on_the_node_with_most_branches():
    assert root_of(CHAIN, [], 4) == 1
    assert root_of(CHAIN, [], 3) == 3


def test_a_claim_gives_direction_to_the_edges_it_leads_along_and_to_no_others():
    assert [crossed(CHAIN, [(0, 2)], edge) for edge in ((0, 1), (1, 2), (1, 3), (2, 1))] == [True, True, False, False]


def test_claims_that_lead_both_ways_give_no_direction():
    assert not crossed(CHAIN, [(0, 1), (2, 0)], (0, 1))
