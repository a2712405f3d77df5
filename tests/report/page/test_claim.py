"""One claim on the page: its commits, with links where these are certain, its layers in words, and what to do next."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.checking.results.rows import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.hub.reference import RepoRef
from hf_lineage.report.page.claim import commit_of_base, commit_of_model, folded_claim, whole_claim
from hf_lineage.report.page.evidence import View
from hf_lineage.report.page.markup import escaped
from hf_lineage.report.words import advice
from hf_lineage.signature.sources.origin import Origin
from tests.pages import measured, report, row

A, B = "a" * 40, "b" * 40
VIEW = View(0, explain=False, captions=True)
WEIGHTS, FILE = (Origin(kind, None, {}, "") for kind in ("weights", "file"))


def on_hub(*rows, name="org/model", **settings):
    remote = RepoRef(name, Path("/cache"), A, remote=name)
    return replace(report(*rows, model=name, commit=A, **settings), source=remote)


def addresses(markup):
    return re.findall('href="([^"]*)"', markup)


def test_commits_of_models_on_the_hub_are_linked():
    found = on_hub(row(commit=B, mlp=measured()))
    assert addresses(whole_claim(found, VIEW)) == [
        f"https://huggingface.co/org/model/tree/{A}", f"https://huggingface.co/org/base/tree/{B}",
    ]  # fmt: skip


def test_a_folder_has_no_link_and_says_why():
    local = replace(report(row(mlp=measured())), source=RepoRef("./x", Path("x")))
    assert commit_of_model(local) == "none: read from a folder"
    assert commit_of_model(replace(local, source=None)) == "none: given as a stored signature"
    assert commit_of_base(replace(row(), base_origin=WEIGHTS)) == "none: read from a folder"
    assert commit_of_base(row()) == "none: nothing of it was read"


def test_the_commit_that_a_stored_signature_names_is_not_linked():
    assert addresses(commit_of_model(replace(report(commit=A), source=None))) == []
    stored = replace(row("base.lineage.safetensors", commit=B), base_origin=FILE)
    assert (addresses(commit_of_base(stored)), B in commit_of_base(stored)) == ([], True)


@pytest.mark.parametrize("name", ["javascript:alert(1)", "//evil.example", "a/b\"onclick='x'", "../../x", "<b>"])
def test_hostile_names_and_commits_are_never_addresses(name):
    hostile = replace(row(name, commit=name, mlp=measured()), base_origin=WEIGHTS)
    found = replace(on_hub(hostile), commit=name)
    assert addresses(whole_claim(found, VIEW)) == []
    assert addresses(folded_claim(found, VIEW)) == []


def test_what_comes_from_the_base_is_said_before_the_numbers():
    page = whole_claim(report(row(mlp=measured())), VIEW)
    assert page.index("All 6 layers come from it.") < page.index('class="tiles"')


def test_what_to_do_next_stands_before_the_evidence():
    undecided = Row(Claim("org/base", None, NAMED), Verdict(Kind.UNVERIFIABLE, "no weights"))
    for claim, after in ((row(mlp=measured()), "Evidence along"), (undecided, "What is claimed, and where")):
        page = whole_claim(report(claim), VIEW)
        steps = [escaped(sentence) for sentence in advice.NEXT[claim.verdict.kind]]
        assert all(page.index("What to do next") < page.index(step) < page.index(after) for step in steps)


def test_what_else_was_seen_has_no_name_in_front_and_no_hint():
    seen = replace(
        row(mlp=measured()), notes=("org/model: a pickle beside it",), base_origin=replace(WEIGHTS, kind="cache")
    )
    page = whole_claim(report(seen), VIEW)
    assert "<li>A pickle beside it.</li>" in page
    assert "<li>The signature of the base comes from the cache of this machine, made from its weights.</li>" in page


def test_a_claim_that_nobody_declared_says_so():
    assert "nowhere: whoever ran the check named it" in whole_claim(report(row(sources=NAMED)), VIEW)


def test_one_of_several_is_folded_below_its_verdict():
    page = folded_claim(report(row(mlp=measured())), VIEW)
    assert page.startswith('<details class="claim good"><summary>')
    assert '<div id="claim-0">' in page
    assert " open=" not in page
