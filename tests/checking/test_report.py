"""A report: what it is worth as a whole, and when it was made."""

import datetime

import pytest

from hf_lineage import Options
from hf_lineage.checking.report import Blended, Report
from hf_lineage.errors import OptionError
from hf_lineage.evidence.blend import Blend, Made
from hf_lineage.evidence.merge import Share, Shares
from hf_lineage.evidence.verdict import ExitCode
from tests.pages import HOSTILE, measured, row


def report(*rows):
    return Report("org/model", None, rows, (), Options())


def test_the_most_severe_of_its_rows_counts():
    good, bad = row(mlp=measured()), row("org/other", mlp=measured(score=0.0, p=0.5))
    assert report(good).exit_code == ExitCode.VERIFIED
    assert report(good, bad).exit_code == ExitCode.UNRELATED
    assert report().exit_code == ExitCode.UNDECIDED


def test_it_began_when_it_was_made_unless_another_time_is_given():
    before = datetime.datetime.now(datetime.UTC)
    assert before <= report().checked_at <= datetime.datetime.now(datetime.UTC)
    assert report().called == "check"


SHARE = Share(0.5, 0.49, 0.51, {}, detected=True)


def blended(made, named):
    return Blended(("a", "b"), Blend(Shares((SHARE, SHARE), 0.0), {}, 1.0, 1.0, made), named)


def test_a_parent_that_gave_a_part_and_is_not_named_is_undeclared():
    assert blended((Made.BLEND, Made.BLEND), (True, False)).undeclared == ("b",)
    assert blended((Made.BLEND, Made.BLEND), (True, True)).undeclared == ()


def test_a_share_alone_makes_nobody_a_parent():
    for made in (Made.ASIDE, Made.NEAR, Made.HIDDEN, Made.PIECES, Made.FROM_MODEL, Made.NONE):
        assert blended((made, made), (False, False)).undeclared == ()


def test_a_format_that_is_none_is_named_with_those_that_there_are():
    with pytest.raises(OptionError, match=r"there is no format 'pdf'; the formats are text, json, markdown"):
        report().to_format("pdf")


def test_a_report_is_shown_in_one_line_whatever_its_bases_are_called():
    other = row("a/b", mlp=measured(score=0.01, p=0.4, share=0.0))
    assert repr(report(*[other] * 7)).endswith(f"{', '.join(['a/b is UNRELATED'] * 5)} and 2 more>")
    assert "\n" not in repr(report(row(HOSTILE, mlp=measured())))
