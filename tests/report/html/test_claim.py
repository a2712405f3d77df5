"""One claim on the page: its commits, with links where these are certain, its layers in words, and what to do next."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.hub.reference import RepoRef
from hf_lineage.report.html.claim import view_claim
from hf_lineage.report.page.templates import escaped, fill
from hf_lineage.report.words import advice
from hf_lineage.signature.sources.origin import Origin
from tests.pages import measured, report, row

A, B = "a" * 40, "b" * 40
WEIGHTS = Origin("weights", None, {}, "")


def on_hub(*rows, name="org/model", **settings):
    remote = RepoRef(name, Path("/cache"), A, remote=name)
    return replace(report(*rows, model=name, commit=A, **settings), source=remote)


def whole_claim(made, several=False):
    view = view_claim(made, 0, captions=True, explain=False)
    return fill("html/claim.html.j2", claim=view, several=several, explain=False, family="")


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


def test_what_comes_from_the_base_is_said_before_the_numbers():
    page = whole_claim(report(row(mlp=measured())))
    assert page.index("All 6 layers come from it.") < page.index('class="tiles"')


def test_what_to_do_next_stands_before_the_evidence():
    undecided = Row(Claim("org/base", None, NAMED), Verdict(Kind.UNVERIFIABLE, "no weights"))
    for claim, after in ((row(mlp=measured()), "Evidence along"), (undecided, "What is claimed, and where")):
        page = whole_claim(report(claim))
        steps = [escaped(sentence) for sentence in advice.NEXT[claim.verdict.kind]]
        assert all(page.index("What to do next") < page.index(step) < page.index(after) for step in steps)


def test_what_else_was_seen_has_no_name_in_front_and_no_hint():
    seen = replace(
        row(mlp=measured()), notes=("org/model: a pickle beside it",), base_origin=replace(WEIGHTS, kind="cache")
    )
    page = whole_claim(report(seen))
    assert "<li>A pickle beside it.</li>" in page
    assert "<li>The signature of the base was cached on this machine when its weights were read.</li>" in page


def test_a_claim_that_nobody_declared_says_so():
    assert "nowhere: the person who ran the check named it" in whole_claim(report(row(sources=NAMED)))


def test_one_of_several_is_folded_below_its_verdict():
    page = whole_claim(report(row(mlp=measured())), several=True)
    assert page.strip().startswith('<details class="claim good">\n<summary>')
    assert '<div id="claim-0">' in page
    assert " open=" not in page
