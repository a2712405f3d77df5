"""An undeclared parent is said first, with the shares, what is left and what the card names; a mere share says so."""

from dataclasses import replace

import pytest

from hf_lineage import Options, check
from hf_lineage.checking.report import Combination
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.merge import Blend, BlendPlace, Parent, Share, Shares
from hf_lineage.evidence.unit_comparison import judge_units
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict
from hf_lineage.lora.gradient_alignment import judge_trace
from hf_lineage.policy import Policy
from hf_lineage.report import FORMATS, contributions, wording
from hf_lineage.report.findings import describe_report, state_outcome
from tests import blends, pages
from tests.evidence.test_unit_comparison import IN_ORDER, INDEPENDENT, SHUFFLED
from tests.example_evidence import evidence, trace
from tests.models import EXAMPLES
from tests.pages import document, measured, report, row
from tests.report.families import claimed

A, B = (Share(value, value - 0.002, value + 0.002, {}, detected=True) for value in (0.43, 0.57))
RIO = Combination(("org/a", "org/b"), Blend(Shares((A, B), 0.0), {}, 1.0, 1.0, (BlendPlace.BLEND,) * 2), (True, False))


def reporting(combination, **changes):
    return replace(report(row("org/a", mlp=measured())), blended=combination, **changes)


def test_the_sentence_and_the_values_say_shares_what_is_left_and_what_is_named():
    found = contributions.describe_shares(RIO, reporting(RIO))
    assert found.sentences[0] == (
        "org/b shows as an undeclared parent: 57% (± 0.2) of org/b and 43% (± 0.2) of org/a explain 99.9% of the "
        "model; nothing was trained after the blend; the model names org/a alone"
    )
    assert (found.first, found.values["undeclared"], found.values["trained_after"]) == (True, ["org/b"], False)
    assert [parent["shows"] for parent in found.values["parents"]] == ["blend", "blend"]
    hostile = replace(RIO, parents=("a\x1b[31m", "b\n"), is_declared=(False, False))
    sentence, *_ = contributions.describe_shares(hostile, reporting(hostile)).sentences
    assert "\x1b" not in sentence
    assert sentence.endswith("the model names none of them")
    assert "show as undeclared parents" in sentence
    for remainder, words in (
        (1.2, "nothing was trained after the blend"),
        (14.0, "what is left is 14 times what rounding leaves, as after further training"),
        (None, "what was trained after the blend does not show beside its quantization"),
    ):
        assert contributions.describe_rest(replace(RIO.blend, remainder=remainder)) == words


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

    found = contributions.describe_merge((of_parent(), of_parent(base="org/b")), report())
    assert found.sentences == (contributions.NO_PROBABILITY,)
    unread = claimed(Verdict(Code.INHERITED), "<script>", "merge", parent=Parent(reason="it is <b>"))
    page = FORMATS["html"](report(of_parent(), unread, of_parent(is_base=True, declared={})), False)
    assert page.count('(0.58 to 0.62)"') == 2
    assert ("it is &lt;b&gt;" in page, "<script>" in page, ">base</td>" in page) == (True, False, True)
    (bar,) = contributions.describe_merge([of_parent(replace(SHARE, low=-3.0, high=4.0))], report()).picture.bars
    assert (bar.low, bar.high, bar.clear) == (-3.0, 4.0, False)


UNRELATED = judge({"mlp": evidence(score=0.01, p=0.5, shares=(0.0,) * 4)}, Criteria())


def unit_row(framed, first=UNRELATED):
    verdict = judge_units(framed, Criteria())
    verdict = replace(verdict, evidence=first.evidence, by_path=first.by_path) if first else verdict
    return claimed(verdict)


def test_table_outcome_and_json_say_the_share_of_units_and_no_score():
    lines = list(wording.cells(unit_row(SHUFFLED)))
    assert [line[2:] for line in lines] == [
        ("mlp", "0.010", "0%", "0.5", "UNRELATED"),
        ("units", "-", "100%", wording.order_p(SHUFFLED), "RELATED calibrated"),
    ]
    (line,) = wording.cells(unit_row(IN_ORDER, None))
    assert line == ("org/base", "finetune", "units", "-", "100%", "0.005", "VERIFIED inherited")
    outcome = state_outcome(unit_row(IN_ORDER))
    assert outcome.startswith("org/base is VERIFIED inherited (100% of its units inherited, p = 0.005): the residual ")
    p_values = [wording.p_value(unit_row(one)) for one in (IN_ORDER, INDEPENDENT)]
    assert (wording.best(unit_row(IN_ORDER)), p_values) == (None, [0.005, 0.5])
    assert wording.inherited_share(unit_row(SHUFFLED)) == pytest.approx(1)
    rows = (
        unit_row(IN_ORDER),
        unit_row(SHUFFLED),
        unit_row(INDEPENDENT),
        unit_row(IN_ORDER, None),
        unit_row(INDEPENDENT, None),
    )
    claims = document(report(*rows))["claims"]
    codes = ["inherited", "calibrated", "unrelated", "inherited", "unrelated"]
    assert ([claim["code"] for claim in claims], claims[0]["units"]["p_value_adjusted"]) == (codes, 0.005)
    assert claims[0]["units"]["calibration"]["pairs"] > 1000


def report_adapter(*traces, layers=2):
    """A report on an adapter with a row for each of these tests."""
    judged = (judge_trace(one, Criteria()) for one in traces)
    rows = (claimed(verdict, "acme/base", "adapter", layers=layers) for verdict in judged)
    return report(*rows, model="fern/lora", options=Options(seed=3))


@pytest.mark.long
def test_the_values_are_those_of_the_schema():
    tests = trace(), trace(0.5), trace(0.5, size=float("inf")), trace(2.0)  # the last is less than is predicted
    related, unrelated, open_one, weak = document(report_adapter(*tests))["claims"]
    assert (related["code"], related["verified"], related["paths"]) == ("adapter", True, [])
    assert (related["adapter"]["p_value"], related["adapter"]["permutations"]) == (0.001, 999)
    assert (related["adapter"]["effect"], related["adapter"]["least_effect"]) == pytest.approx((12.1, 9.2), abs=0.05)
    assert (weak["verdict"], weak["code"], weak["verified"], weak["exit_code"]) == ("RELATED", "weak", False, 3)
    assert weak["adapter"]["effect"] < weak["adapter"]["least_effect"]
    value, down = related["adapter"]["projections"]
    assert (value["projection"], value["permuted"]) == ("value", "dimensions of value heads")
    assert [layer["layer"] for layer in down["layers"]] == [0, 1]
    assert (unrelated["verdict"], unrelated["code"]) == ("UNRELATED", "unrelated")
    assert (open_one["verdict"], open_one["adapter"]["projections"][0]["layers"][0]["size"]) == ("UNDECIDED", None)


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_every_format_for_people_shows_the_verdict_the_projections_and_p(name):
    text = " ".join(FORMATS[name](report_adapter(trace()), True).split())
    assert ("VERIFIED adapter" in text, "0.001" in text) == (True, True)
    assert "value z 12.1" in text.lower()


LANGUAGE = pages.row(layers=6, mlp=pages.measured())
TOWER = replace(pages.row(base="org/tower", layers=4, mlp=pages.measured()), part="vision")


def test_a_row_for_each_of_several_parts_with_its_base_and_what_is_inherited():
    unread = replace(TOWER, part="audio", verdict=Verdict(Code.NO_BASE, "it stands nowhere"))
    finding = contributions.describe_parts([], report(LANGUAGE, TOWER, unread))
    share = finding.tables[0].rows[0][3]
    assert share.endswith("%")
    assert finding.tables[0].rows == (
        ("the model itself", "org/base", LANGUAGE.verdict.label, share),
        ("vision", "org/tower", TOWER.verdict.label, share),
        ("audio", "org/tower", "UNDECIDED no-base", ""),
    )
    assert [bar.label for bar in finding.picture.bars] == ["the model itself: org/base", "vision: org/tower"]
    verified = [(one["part"], one["verified"]) for one in finding.values]
    assert verified[1:] == [("vision", TOWER.verdict.verified), ("audio", False)]
    assert finding.values[2]["inherited"] is None
    stranger = replace(TOWER, verdict=replace(TOWER.verdict, code=Code.UNRELATED))
    bars = contributions.describe_parts([], report(LANGUAGE, stranger)).picture.bars
    assert [bar.pale for bar in bars] == [False, True], "a tower that comes from nowhere is drawn pale"
    for rows, is_table in (((LANGUAGE, TOWER), True), ((LANGUAGE,), False), ((TOWER,), False)):
        assert ("parts" in [maker.name for maker, _ in describe_report(report(*rows))]) is is_table
    hostile = replace(TOWER, claim=replace(TOWER.claim, base="<script>alert(1)</script>"), part="<b>vision")
    page = FORMATS["html"](report(LANGUAGE, hostile), True)
    assert not any(markup in page for markup in ("<script>alert", "<b>vision"))
