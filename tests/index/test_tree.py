"""The tree of the example models is the true one: parents, a merge, a second family, and who is alone."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.claims.sources import Claim, read_claims
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.hub.repo import resolve
from hf_lineage.index.relatives import Member
from hf_lineage.index.tree import Mark, grow
from hf_lineage.signature.recipe import signs
from tests.blends import blended
from tests.invoking import lineage
from tests.models import EXAMPLES

QUICK = Criteria(permutations=99)
BASE = "acme/llama-base"
CHILDREN = ("fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged", "heron/llama-int8-rounded",
            "heron/llama-pruned-50", "magpie/llama-laundered", "moss/llama-continued")  # fmt: skip


@pytest.fixture(scope="session")
def members(signatures):
    return {name: Member(name, one, read_claims(resolve(name, EXAMPLES)).claims) for name, one in signatures.items()}


@pytest.fixture(scope="session")
def tree(members):
    return grow(list(members.values()), "mlp", QUICK)


def edges(tree, *marks):
    return {(edge.parent, edge.child) for edge in tree.edges if not marks or edge.mark in marks}


def test_the_true_tree_is_drawn_with_those_who_are_alone_and_false_claims(tree):
    expected = {(BASE, child) for child in CHILDREN} | {("acme/gpt2-base", "fern/gpt2-finetune-a")}
    merged = {(f"fern/llama-finetune-{one}", "fern/llama-merge-a-b") for one in "ab"}
    assert edges(tree, Mark.VERIFIED) == expected | merged
    given = [edge.way for edge in tree.edges if edge.child == "fern/llama-merge-a-b"]
    assert given == ["a contribution to a merge"] * 2, "signatures alone do not tell how much"
    assert all(edge.directed for edge in tree.edges)
    alone = {family[0] for family in tree.families if len(family) == 1}
    liars = {"heron/llama-distilled", "magpie/llama-liar"}
    assert alone == liars | {"magpie/llama-grafted", "otter/llama-independent"}
    assert edges(tree, Mark.CONTRADICTED) == {(BASE, liar) for liar in liars}
    assert edges(tree, Mark.IN_PART) == {(BASE, "magpie/llama-grafted")}


def test_without_claims_edges_have_no_direction_and_an_absent_base_is_unknown(members):
    some = ("acme/gpt2-base", "fern/gpt2-finetune-a", "otter/llama-independent")
    (edge,) = grow([replace(members[name], claims=()) for name in some], "mlp", QUICK).edges
    assert (edge.mark, edge.directed) == (Mark.MEASURED, False)
    some = [members[name] for name in ("fern/llama-finetune-a", "fern/llama-finetune-b", "fern/llama-lora-merged")]
    tree = grow(some, "mlp", QUICK)
    assert edges(tree, Mark.MEASURED) == {("unknown common ancestor", member.name) for member in some}
    assert edges(tree, Mark.DECLARED) == {(BASE, member.name) for member in some}


def nudged(member, number):
    whole = member.signature.paths["mlp"]
    noise = signs(f"noise {number}", whole.sketch.shape[1:]) * 0.05 * np.abs(whole.sketch).mean()
    name, sketch = f"org/{member.name.partition('/')[0]}-{number}", whole.sketch + noise
    return Member(name, replace(member.signature, model=name, paths={"mlp": replace(whole, sketch=sketch)}))


def test_unknown_ancestors_are_two_and_a_model_hangs_on_what_it_was_made_from(members):
    some = [nudged(members[name], number) for name in (BASE, "otter/llama-independent") for number in range(3)]
    tree = grow(some, "mlp", QUICK)
    parents = {edge.child: edge.parent for edge in tree.edges}
    assert {parents[f"org/acme-{number}"] for number in range(3)} == {"unknown common ancestor"}
    assert {parents[f"org/otter-{number}"] for number in range(3)} == {"unknown common ancestor 2"}
    claims = (Claim(BASE, "finetune", ("README.md",)),)
    made = replace(nudged(members["fern/llama-finetune-a"], 0), claims=claims)
    some = [members[name] for name in (BASE, "fern/llama-finetune-a", "fern/llama-finetune-b")]
    (edge,) = [one for one in grow([*some, made], "mlp", QUICK).edges if one.child == made.name]
    assert (edge.parent, edge.mark, edge.directed) == ("fern/llama-finetune-a", Mark.MEASURED, True)


def test_a_graft_hangs_on_both_its_parents_and_a_copy_is_at_no_distance(tmp_path):
    hub, (host, donor) = tmp_path, ("otter/llama-independent", "acme/llama-base")
    for name, model in ((host, host), (donor, donor), ("wren/copy", host)):
        shutil.copytree(EXAMPLES / model, hub / name)
    blended(hub / "wren/graft", {host: 0.0, donor: 1.0}, part="layers.[14].")
    (hub / "wren/graft/README.md").unlink()
    asked = ("tree", host, donor, "wren/copy", "wren/graft", "--local-hub", hub, "--format")
    text, drawn = lineage(*asked, "text").sentences, json.loads(lineage(*asked, "json").out)["edges"]
    ends = {frozenset((one["parent"], one["child"])): one for one in drawn}
    assert ends[frozenset((host, "wren/graft"))]["relation_seen"] == "in layers 0, 2-3, 5, weights unchanged"
    assert ends[frozenset((donor, "wren/graft"))]["mark"] == "in_part"
    assert (ends[frozenset((host, "wren/copy"))]["length"], len(drawn)) == (0.0, 3)
    assert "A length is -2 ln of the mean cosine of both models' layers: 0 for a copy" in text
