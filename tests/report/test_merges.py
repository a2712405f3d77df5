"""An undeclared parent is said first, with the shares, what is left and what the card names; a mere share says so."""

from dataclasses import replace

import pytest

from hf_lineage import Options, check
from hf_lineage.checking.report import Combination
from hf_lineage.evidence.merge import Blend, BlendPlace, Parent, Share, Shares
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict
from hf_lineage.policy import Policy
from hf_lineage.report import FORMATS, merges
from tests import blends
from tests.models import EXAMPLES
from tests.pages import measured, report, row
from tests.report.families import claimed

A, B = (Share(value, value - 0.002, value + 0.002, {}, detected=True) for value in (0.43, 0.57))
RIO = Combination(("org/a", "org/b"), Blend(Shares((A, B), 0.0), {}, 1.0, 1.0, (BlendPlace.BLEND,) * 2), (True, False))


def reporting(combination, **changes):
    return replace(report(row("org/a", mlp=measured())), blended=combination, **changes)


def test_the_sentence_and_the_values_say_shares_what_is_left_and_what_is_named():
    found = merges.describe_shares(RIO, reporting(RIO))
    assert found.sentences[0] == (
        "org/b shows as an undeclared parent: 57% (± 0.2) of org/b and 43% (± 0.2) of org/a explain 99.9% of the "
        "model; nothing was trained after the blend; the model names org/a alone"
    )
    assert (found.first, found.values["undeclared"], found.values["trained_after"]) == (True, ["org/b"], False)
    assert [parent["shows"] for parent in found.values["parents"]] == ["blend", "blend"]
    hostile = replace(RIO, parents=("a\x1b[31m", "b\n"), is_declared=(False, False))
    sentence, *_ = merges.describe_shares(hostile, reporting(hostile)).sentences
    assert "\x1b" not in sentence
    assert sentence.endswith("the model names none of them")
    assert "show as undeclared parents" in sentence
    for remainder, words in (
        (1.2, "nothing was trained after the blend"),
        (14.0, "what is left is 14 times what rounding leaves, as after further training"),
        (None, "what was trained after the blend does not show beside its quantization"),
    ):
        assert merges.describe_rest(replace(RIO.blend, remainder=remainder)) == words


@pytest.mark.parametrize("form", ["text", "markdown", "html", "sarif", "github", "json"])
def test_every_report_says_it_and_the_text_before_everything_else(form):
    shown = " ".join(FORMATS[form](reporting(RIO), explain=False).split())
    assert all(word in shown for word in ("undeclared", "org/b"))
    text = " ".join(FORMATS["text"](reporting(RIO), explain=False).split())
    assert text.index("shows as an undeclared parent") < text.index("All 6 layers come from it")
    assert "Next: Declare the other parent in the card" in text


def test_it_leaves_a_check_undecided_and_a_policy_decides_otherwise():
    assert reporting(None).exit_code is ExitCode.VERIFIED
    assert reporting(RIO).exit_code is ExitCode.UNDECIDED
    assert reporting(replace(RIO, is_declared=(True, True))).exit_code is ExitCode.VERIFIED
    for policy, status in (
        (Policy(), ExitCode.UNDECIDED),
        (Policy(fail_on="unrelated"), ExitCode.VERIFIED),
        (Policy(fail_on="undeclared-parent"), ExitCode.UNDECIDED),
        (Policy(undeclared_parent="accept"), ExitCode.VERIFIED),
        (Policy(undeclared_parent="accept", fail_on="undeclared-parent"), ExitCode.VERIFIED),
        (Policy(undeclared_parent="refuse", fail_on="unrelated"), ExitCode.UNDECIDED),
        (Policy(fail_on="never"), ExitCode.VERIFIED),
    ):
        assert reporting(RIO, policy=policy).status is status


def test_a_share_beside_numbers_of_the_base_denies_no_parent_of_a_merge_by_ties(tmp_path):
    merged, parents = blends.dare_ties(tmp_path / "merged", (blends.A, blends.B)), (blends.BASE, blends.A)
    told = " ".join(check(str(merged), parents, Options(local_hub=EXAMPLES)).to_text(explain=True).split())
    assert "27% of the numbers are the base's, unchanged, the others are not" in told
    assert f"share of {blends.A} alone shows no parent" in told
    assert "It denies none either: merges by TIES, DARE or DELLA have no one share. They leave many numb" in told


SHARE = Share(0.6, 0.58, 0.62, {0: (0.6, 0.01), 1: (0.61, 0.01)}, detected=True)


def test_a_page_has_a_bar_for_every_parent_and_escapes_their_names():
    def of_parent(share=SHARE, base="org/a", **changes):
        parent = Parent({"mlp": share}, {"mlp": 0.0}, {"mlp": 0.5}, "linear")
        return claimed(Verdict(Code.INHERITED), base, "merge", parent=replace(parent, **changes))

    found = merges.describe_merge((of_parent(), of_parent(base="org/b")), report())
    assert found.sentences == (merges.NO_PROBABILITY,)
    unread = claimed(Verdict(Code.INHERITED), "<script>", "merge", parent=Parent(reason="it is <b>"))
    page = FORMATS["html"](report(of_parent(), unread, of_parent(is_base=True, declared={})), False)
    assert page.count('(0.58 to 0.62)"') == 2
    assert ("it is &lt;b&gt;" in page, "<script>" in page, ">base</td>" in page) == (True, False, True)
    (bar,) = merges.describe_merge([of_parent(replace(SHARE, low=-3.0, high=4.0))], report()).picture.bars
    assert (bar.low, bar.high, bar.clear) == (-3.0, 4.0, False)
