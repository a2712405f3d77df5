"""What a parent gave is said in words, in figures and as a bar, and never as if a score were a probability."""

from dataclasses import replace

from hf_lineage.checking.result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.merge import Parent, Share
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import FORMATS, merges
from tests.pages import report

SHARE = Share(0.6, 0.58, 0.62, {0: (0.6, 0.01), 1: (0.61, 0.01)}, detected=True)
PARENT = Parent({"mlp": SHARE}, {"mlp": 0.0}, {"mlp": 0.5}, "linear")


def row(parent, base="org/a"):
    return Row(Claim(base, "merge", ("README.md",)), Verdict(Code.INHERITED), parent=parent)


def of(share=SHARE, **changes):
    return replace(PARENT, shares={"mlp": share}, **changes)


def test_a_score_is_said_to_be_neither_a_share_nor_a_probability():
    assert merges.describe_merge((row(PARENT), row(PARENT, "org/b")), report()).sentences == (merges.NO_PROBABILITY,)


def test_the_values_are_those_of_the_schema():
    assert merges.describe_parent(PARENT, row(PARENT), report()).values == {
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
    (bar,) = merges.describe_merge([row(of(replace(SHARE, low=-3.0, high=4.0)))], report()).picture.bars
    assert (bar.low, bar.high, bar.clear) == (-3.0, 4.0, False)
