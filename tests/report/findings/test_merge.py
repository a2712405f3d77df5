"""What a parent gave is said in words, in figures and as a bar, and never as if a score were a probability."""

from dataclasses import replace

import pytest

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.derivation.contributions import Parent, Share
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.findings import merge
from tests.pages import report

SHARE = Share(0.6, 0.58, 0.62, {0: (0.6, 0.01), 1: (0.61, 0.01)}, detected=True)
PARENT = Parent({"mlp": SHARE}, {"mlp": 0.0}, {"mlp": 0.5}, "linear")


def row(parent, base="org/a"):
    return Row(Claim(base, "merge", ("README.md",)), Verdict(Kind.RELATED), parent=parent)


def of(share=SHARE, **changes):
    return replace(PARENT, shares={"mlp": share}, **changes)


@pytest.mark.parametrize(
    ("parent", "sentence"),
    [
        (PARENT, "gave 0.60 (0.58 to 0.62) of the merge along mlp; 0.50 by its recipe (linear)"),
        (of(method="", declared={}), "gave 0.60 (0.58 to 0.62) of the merge along mlp"),
        (of(declared={}), "gave 0.60 (0.58 to 0.62) of the merge along mlp; the recipe (linear) gives no weight"),
        (
            of(replace(SHARE, value=-0.3, low=-0.31, high=-0.29), is_base=True, method="ties"),
            "gave as the base -0.30 (-0.31 to -0.29) of the merge along mlp; the recipe (ties) takes differences from "
            "it",
        ),
        (
            of(replace(SHARE, value=0.001, low=-0.002, high=0.004, detected=False)),
            "gave no detectable contribution (0.00 to 0.00) of the merge along mlp; 0.50 by its recipe (linear)",
        ),
        (
            of(replace(SHARE, low=0.1, high=0.9)),
            "gave a contribution between 0.10 to 0.90, which cannot be separated from those of the other parents, of "
            "the merge along mlp; 0.50 by its recipe (linear)",
        ),
        (
            of(replace(SHARE, layers={0: (1, 0), 1: (1, 0), 2: (0, 0), 3: (1, 0)})),
            "gave 0.60 (0.58 to 0.62) of the merge along mlp; 0.50 by its recipe (linear); by layer 1.00 in 0-1, 3, "
            "0.00 in 2",
        ),
        (
            of(replace(SHARE, layers={number: (number / 10, 0) for number in range(10)})),
            "gave 0.60 (0.58 to 0.62) of the merge along mlp; 0.50 by its recipe (linear); by layer 0.00 to 0.90",
        ),
        (Parent(reason="it is UNRELATED"), "its merge contribution is not known: it is UNRELATED"),
    ],
)
def test_what_a_parent_gave_is_one_sentence(parent, sentence):
    assert list(merge.describe_parent(report(), row(parent)).statements) == [f"org/a: {sentence}"]


def test_a_row_that_is_no_parent_says_nothing():
    assert (merge.describe_parent(report(), row(None)), merge.describe_merge(report(row(None)))) == (None, None)


def test_a_score_is_said_to_be_neither_a_share_nor_a_probability():
    assert merge.describe_merge(report(row(PARENT), row(PARENT, "org/b"))).sentences == (merge.NO_PROBABILITY,)


def test_what_no_parent_explains_is_said():
    rows = row(of(remainders={"mlp": 0.5})), row(Parent(reason="it is UNRELATED"))
    _, remainder = merge.describe_merge(report(*rows)).sentences
    assert "is 0.50 times (along mlp) the distance between the parents" in remainder


def test_the_values_are_those_of_the_schema():
    assert merge.describe_parent(report(), row(PARENT)).values == {
        "method": "linear",
        "is_base": False,
        "reason": "",
        "shares": {
            "mlp": {
                "share": 0.6, "low": 0.58, "high": 0.62, "detected": True, "declared": 0.5, "remainder": 0.0,
                "layers": {"0": {"share": 0.6, "error": 0.01}, "1": {"share": 0.61, "error": 0.01}},
            }
        },
    }  # fmt: skip


def test_a_page_has_a_bar_for_every_parent_and_escapes_their_names():
    rows = row(PARENT), row(Parent(reason="it is <b>"), "<script>"), row(of(is_base=True, declared={}))
    page = FORMATS["html"](report(*rows), False)
    assert page.count('(0.58 to 0.62)"') == 2
    assert "it is &lt;b&gt;" in page
    assert "<script>" not in page
    assert ">base</td>" in page


def test_a_share_that_is_not_clear_has_an_interval_and_no_bar():
    (bar,) = merge.describe_merge(report(row(of(replace(SHARE, low=-3.0, high=4.0))))).picture.bars
    assert (bar.low, bar.high, bar.clear) == (-3.0, 4.0, False)


def test_the_shares_are_kept_in_hundredths():
    assert merge.describe_parent(report(), row(PARENT)).decimals == 2
