"""One claim on the page: its commits, with links where these are certain, its layers in words, and what to do next.

The large numbers at the head of a claim: those that decided, each with what it means.
The evidence of a claim on the page: pictures that say what they mean, once, and tables told apart by name.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.checking.options import Options
from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.nulls.empirical import EmpiricalNull
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.hub.reference import RepoRef
from hf_lineage.report import FORMATS
from hf_lineage.report.html.claim import CAPTIONS, UNREAD, evidence, figures, tiles, view_claim
from hf_lineage.report.page.finding import commit_of_model
from hf_lineage.report.page.templates import escaped, fill
from hf_lineage.report.words import advice
from hf_lineage.signature.sources.origin import Origin
from tests.example_evidence import trace
from tests.pages import measured, report, row


def shown(*rows, **settings):
    """Name -> number and meaning of each tile of the first claim."""
    return {tile.name: (tile.figure, tile.meaning) for tile in tiles(report(*rows, **settings), rows[0])}


def test_there_are_four_in_their_order():
    found = shown(row(mlp=measured()))
    assert list(found) == ["Score", "Inherited", "p-value", "Layers"]
    assert [number for number, _ in found.values()] == ["0.970", "97%", "0.001", "6"]


def test_the_range_of_independent_models_is_drawn_beside_the_score():
    only = row(mlp=measured())
    low, high = only.verdict.evidence["mlp"].permutation.range
    assert (
        f"independent models score {low:.3f} to {high:.3f}, this pair 0.970" in next(tiles(report(only), only)).picture
    )


def test_without_evidence_there_are_none():
    undecided = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))
    assert list(tiles(report(undecided), undecided)) == []
    assert figures(undecided) == ("–", "–", "–")


def test_the_path_that_decided_is_the_one_that_is_shown():
    found = shown(row(mlp=measured(p=0.9, score=0.0), value_output=measured(score=0.8)))
    assert found["Score"][0] == "0.800"
    assert "Compared along the path value_output" in found["Layers"][1]


@pytest.mark.parametrize(
    ("share", "number", "meaning"),
    [
        (0.97, "97%", "Between 95% and 99% of what the model's hidden units write has a counterpart in the base; "),
        (None, "–", "Not measured: a stored signature holds no hidden units."),
    ],
)
def test_what_is_inherited_has_its_interval_or_the_reason_why_it_is_not_known(share, number, meaning):
    found = shown(row(mlp=measured(share=share)))
    assert found["Inherited"][0] == number
    assert found["Inherited"][1].startswith(meaning)


def test_the_share_that_is_asked_for_is_that_of_the_options():
    found = shown(row(mlp=measured()), options=Options(min_share=0.8))
    assert found["Inherited"][1].endswith("more than 80% is required.")


def test_an_interval_without_width_is_one_number():
    evidence = measured()
    certain = replace(evidence, inherited=replace(evidence.inherited, error=0.0))
    assert shown(row(mlp=certain))["Inherited"][1].startswith("97% of what the model")


@pytest.mark.parametrize(("score", "least"), [(0.97, True), (0.0, False)])
def test_the_least_p_value_that_permutations_can_show_is_called_so(score, least):
    found = shown(row(mlp=measured(score=score, p=0.001 if least else 0.5)))
    assert ("It is the smallest value that 999 permutations can show." in found["p-value"][1]) is least


def doubled(evidence, **more):
    """The same, with p as it is after a test of the hidden units was reckoned with."""
    return replace(evidence, p_value=min(1.0, 2 * evidence.permutation.p_value), further=1, **more)


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (
            doubled(measured()),
            "This test alone gives 0.001, the smallest value that 999 permutations can show; p is doubled, because a "
            "second "
            "test, of the hidden units, may follow.",
        ),
        (
            replace(measured(p=0.003), analyses=3),
            "This test alone gives 0.001, the smallest value that 999 permutations can show; p is multiplied by 3, "
            "because reading may stop after each of 3 tests.",
        ),
        (doubled(measured(score=-0.02)), "How often independent models would score as high by chance."),
    ],
    ids=["a second test", "interim analyses", "no figure is above 1"],
)
def test_a_p_value_that_is_larger_than_that_of_one_test_says_why(evidence, sentence):
    assert shown(row(mlp=evidence))["p-value"][1].endswith(sentence)


def test_several_paths_are_a_reason_as_well():
    evidence = measured(p=0.002)
    null = replace(evidence.permutation, by_maximum=0.002)
    found = shown(row(mlp=replace(evidence, nulls=(null,))))
    assert found["p-value"][1].endswith("p is doubled, because several paths are tested.")


def test_where_another_null_decides_nothing_is_said_of_permutations():
    known = EmpiricalNull({f"org/{number}": number / 1000 for number in range(9)}, "independent models", alpha=0.2)
    evidence = measured(empirical=known)
    deciding = replace(evidence, nulls=(known, evidence.permutation))
    assert shown(row(mlp=deciding))["p-value"][1] == "How often independent models would score as high by chance."


def test_layers_are_counted_out_of_all_only_where_more_could_have_been_read():
    assert shown(row(mlp=measured(), layers=32))["Layers"][0] == "6"
    assert shown(row(mlp=measured(analyses=3), layers=32))["Layers"][0] == "6 of 32"
    assert shown(row(mlp=measured(analyses=3), layers=6))["Layers"][0] == "6"


def shown_claims(*claims):
    return FORMATS["html"](report(*claims), False)


def captions(claim):
    """What stands below the pictures of a claim that is one of several."""
    (section,) = evidence(claim, 1, captions=False)
    return [figure.caption for figure in section.figures if figure.caption]


def test_every_picture_says_what_it_means():
    page = shown_claims(row(mlp=measured()))
    assert all(escaped(caption) in page for caption in CAPTIONS.values())
    assert page.count("<figure") == page.count("<figcaption") == len(CAPTIONS)


def test_where_it_is_said_elsewhere_only_what_concerns_this_claim_is():
    assert captions(row(mlp=measured())) == []
    assert captions(row(layers=32, mlp=measured(analyses=3))) == [UNREAD.strip()]
    two = shown_claims(row(mlp=measured()), row("org/b", mlp=measured()))
    assert "<figcaption" not in two.partition('<ol class="parents">')[2]


def test_a_share_that_is_not_known_has_no_picture():
    assert shown_claims(row(mlp=measured(share=None))).count("<figure") == len(CAPTIONS) - 1


def test_tables_of_several_claims_have_names_of_their_own():
    page = shown_claims(*(row(base, mlp=measured(), query_key=measured()) for base in ("org/a", "org/b")))
    names = [name for name in re.findall('role="region" aria-label="([^"]*)"', page) if name.endswith("by layer")]
    assert names == [f"claim {number}, {path}, layer by layer" for number in (1, 2) for path in ("mlp", "query_key")]


def test_an_adapter_has_its_projections():
    adapter = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
    page = shown_claims(adapter)
    assert "<h3>Adapter</h3>" in page
    assert "claim 1, projections by layer" in page


def test_where_nothing_was_measured_there_is_nothing():
    nothing = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))
    assert list(evidence(nothing, 0, captions=True)) == []


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
        advice=advice.NEXT,
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
