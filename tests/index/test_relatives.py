"""Families are joined by exact tests; an edge has a direction only where something leads along it."""

from dataclasses import replace

import pytest

from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index import relatives
from hf_lineage.index.relatives import Member, PairTests, declarations, families_of, is_along

NAMES = ("acme/gpt2-base", "fern/gpt2-finetune-a", "acme/llama-base", "otter/llama-independent")
CHAIN = {0: {1: 1.0}, 1: {0: 1.0, 2: 1.0, 3: 2.0}, 2: {1: 1.0}, 3: {1: 2.0}}


@pytest.fixture
def tests(signatures):
    return PairTests([Member(name, signatures[name]) for name in NAMES], "mlp", Criteria(permutations=99))


def test_claims_are_joined_to_their_bases_direct_edges_and_name_the_root(tests):
    home = families_of(tests, [])
    assert home[0] == home[1]
    assert len(set(home)) == 3
    assert set(tests.verdicts) == {(0, 1)}
    claims = tuple(Claim(base, None, ("README.md",)) for base in ("ACME/gpt2-base", "fern/gpt2-finetune-a", "org/gone"))
    members = [tests.members[0], replace(tests.members[1], claims=claims)]
    joined = [(one.child, one.base, one.claim.base) for one in declarations(replace(tests, members=members))]
    assert joined == [(1, 0, "ACME/gpt2-base"), (1, None, "org/gone")]
    assert relatives.root_of(CHAIN, [(0, 2), (0, 1)], 4) == 0
    assert list(relatives.orient(CHAIN, 0)) == [(0, 1), (1, 2), (1, 3)]
    assert [is_along(CHAIN, [(0, 2)], edge) for edge in ((0, 1), (1, 2), (1, 3), (2, 1))] == [True, True, False, False]


def test_a_declared_name_is_joined_to_a_folder_only_where_the_weights_agree(tests, monkeypatch):
    monkeypatch.chdir("/")
    claims = tuple(Claim(base, None, ("README.md",)) for base in ("base", "./other", "child", "org/gone"))
    folders = ("/base", "/child", "/elsewhere", "/other")
    members = [replace(one, folder=folder) for one, folder in zip(tests.members, folders, strict=True)]
    members[1] = replace(members[1], claims=claims)
    joined = declarations(replace(tests, members=members))
    assert [one.base for one in joined] == [0, None, None, None]
