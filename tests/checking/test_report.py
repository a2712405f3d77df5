"""A report: what it is worth as a whole, and when it was made."""

import datetime

from hf_lineage import Options
from hf_lineage.checking.report import Blended, Report
from hf_lineage.checking.report import Report as Judged
from hf_lineage.evidence.blend import Blend, Made
from hf_lineage.evidence.merge import Share, Shares
from hf_lineage.evidence.verdict import ExitCode
from tests.pages import measured, row


def report(*rows):
    return Report("org/model", None, rows, (), Options())


def test_it_is_offered_where_it_is_made():
    assert Report is Judged


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
