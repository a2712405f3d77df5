"""Rows: every claim gets one, and what is wrong with a base is the verdict of its row alone."""

from dataclasses import replace

import pytest

from hf_lineage import check
from hf_lineage.checking.claims import Request, as_merge, judge_claim, opened_candidate
from hf_lineage.checking.result import NAMED
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.options import Options
from tests.models import WEIGHTS, fine_tuned, tiny_llama

OPTIONS = Options()


@pytest.fixture
def models(tmp_path):
    base = tiny_llama(tmp_path / "base")
    return base, fine_tuned(base, tmp_path / "child")


def row(claim, child, options=OPTIONS):
    candidate = opened_candidate(RepoRef(str(child), child), options)
    return judge_claim(candidate, claim, Request([claim], options))


def named(base, **said):
    return Claim(str(base), None, NAMED, **said)


def test_a_claim_that_says_nothing_usable_is_unverifiable_before_anything_is_read(models):
    base, _ = models
    (base / WEIGHTS).unlink()
    found = row(replace(named(base), problem="two bases are named"), base)
    assert (found.verdict, found.layers) == (Verdict(Code.NO_BASE, "two bases are named"), None)


def test_a_candidate_that_cannot_be_read_is_an_error(models):
    base, child = models
    (child / WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        row(named(base), child)


def test_a_row_says_where_both_signatures_come_from_and_how_many_layers_there_are(models):
    base, child = models
    found = row(named(base), child)
    assert (found.verdict.code, found.layers) == ("inherited", 2)
    assert found.base_origin is found.model_origin
    assert found.traffic == {}


def test_a_model_that_declares_itself_is_unverifiable_and_one_that_the_user_names_twice_is_judged(models):
    base, _ = models
    declared = replace(named(base), sources=("README.md: base_model",))
    assert row(declared, base).verdict.code == "no-base"
    assert row(named(base), base).verdict.code == "inherited"


def test_only_the_parents_of_a_merge_are_judged_together(models):
    base, child = models
    alone = row(named(base), child)
    merge = replace(alone, claim=replace(alone.claim, relation="merge"))
    assert as_merge([alone], 0.5) == (alone,)
    assert as_merge([alone, merge], 0.5)[0] is alone
    verified = replace(merge, verdict=replace(merge.verdict, code=Code.MERGE))
    assert as_merge([alone, merge, merge], 0.5)[1:] == (verified, verified)


@pytest.mark.long
def test_a_base_with_another_name_on_the_hub_is_compared_and_the_row_says_so(server):
    server.hub.renamed["acme/former"] = "acme/base"
    (row,) = check("fern/child", "acme/former", options=OPTIONS).rows
    assert row.verdict.code == "inherited"
    assert row.notes[-1] == (
        "the Hub leads from acme/former to acme/base, and acme/base was compared: name it in the card"
    )
    (row,) = check("fern/child", options=OPTIONS).rows
    assert not [note for note in row.notes if "leads from" in note]
