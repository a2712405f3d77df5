"""The large numbers at the head of a claim: those that decided, each with what it means."""

from dataclasses import replace

import pytest

from hf_lineage.checking.options import Options
from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.nulls.empirical import EmpiricalNull
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report.html.tiles import figures, tiles
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
