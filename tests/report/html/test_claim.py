"""One claim on the page: the numbers that decided, tables told apart by name, and links where these are certain."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.reference import RepoRef
from hf_lineage.report import FORMATS
from hf_lineage.report.html.claim import CAPTIONS, evidence, figures, tiles, view_claim
from hf_lineage.report.page.finding import commit_of_model
from hf_lineage.report.page.templates import fill
from hf_lineage.signature.sources.origin import Origin
from tests.pages import measured, report, row


def shown(*rows, **settings):
    """Name -> number and meaning of each tile of the first claim."""
    return {tile.name: (tile.figure, tile.meaning) for tile in tiles(report(*rows, **settings), rows[0])}


def test_without_evidence_there_is_nothing_to_show():
    undecided = Row(Claim("org/base", None, ("README.md",)), Verdict(Code.NO_WEIGHTS, "no weights"))
    assert list(tiles(report(undecided), undecided)) == []
    assert list(evidence(undecided, 0, captions=True)) == []
    assert figures(undecided) == ("–", "–", "–")


def test_the_path_that_decided_is_the_one_that_is_shown():
    found = shown(row(mlp=measured(p=0.9, score=0.0), value_output=measured(score=0.8)))
    assert found["Score"][0] == "0.800"
    assert "Compared along the path value_output" in found["Layers"][1]


def test_layers_are_counted_out_of_all_only_where_more_could_have_been_read():
    assert shown(row(mlp=measured(), layers=32))["Layers"][0] == "6"
    assert shown(row(mlp=measured(analyses=3), layers=32))["Layers"][0] == "6 of 32"
    assert shown(row(mlp=measured(analyses=3), layers=6))["Layers"][0] == "6"


def shown_claims(*claims):
    return FORMATS["html"](report(*claims), False)


def test_a_share_that_is_not_known_has_no_picture():
    assert shown_claims(row(mlp=measured(share=None))).count("<figure") == len(CAPTIONS) - 1
    assert "product, as the recipe forms it, shares a direction" in CAPTIONS["A profile of each model"]


def test_tables_of_several_claims_have_names_of_their_own():
    page = shown_claims(*(row(base, mlp=measured(), query_key=measured()) for base in ("org/a", "org/b")))
    names = [name for name in re.findall('role="region" aria-label="([^"]*)"', page) if name.endswith("by layer")]
    assert names == [f"claim {number}, {path}, layer by layer" for number in (1, 2) for path in ("mlp", "query_key")]


A, B = "a" * 40, "b" * 40
WEIGHTS = Origin("weights")


def on_hub(*rows, name="org/model", **settings):
    remote = RepoRef(name, Path("/cache"), A, remote=name)
    return replace(report(*rows, model=name, commit=A, **settings), source=remote)


def whole_claim(made, several=False):
    view = view_claim(made, 0, captions=True, explain=False)
    return fill(
        "html/claim.html.j2",
        report=made,
        commit=commit_of_model(made),
        claim=view,
        several=several,
        explain=False,
        family="",
    )


def addresses(markup):
    return re.findall('href="([^"]*)"', markup)


def test_commits_of_models_on_the_hub_are_linked():
    found = on_hub(row(commit=B, mlp=measured()))
    assert addresses(whole_claim(found)) == [
        f"https://huggingface.co/org/model/tree/{A}", f"https://huggingface.co/org/base/tree/{B}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["javascript:alert(1)", "//evil.example", "a/b\"onclick='x'", "../../x", "<b>"])
def test_hostile_names_and_commits_are_never_addresses(name):
    hostile = replace(row(name, commit=name, mlp=measured()), base_origin=WEIGHTS)
    found = replace(on_hub(hostile), commit=name)
    assert addresses(whole_claim(found)) == []
    assert addresses(whole_claim(found, several=True)) == []
