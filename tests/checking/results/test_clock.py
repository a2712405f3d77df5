"""The time of a report: when the check began, unless the environment gives one, and never a wrong one."""

import datetime

import pytest

from hf_lineage.checking.results.clock import in_words, moment, stamp
from hf_lineage.errors import OptionError

BEGAN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


def test_it_is_when_the_check_began_unless_the_environment_says_another(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
    assert moment(BEGAN).isoformat() == "2026-11-18T11:06:40+00:00"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert moment(BEGAN) is BEGAN


@pytest.mark.parametrize("epoch", ["noon", "9" * 20, "9" * 5000, "-" + "9" * 20, "1e9", "inf"])
def test_a_time_that_is_none_is_an_error(monkeypatch, epoch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(OptionError, match=f"SOURCE_DATE_EPOCH must be seconds since 1970, not {epoch[:1900]}"):
        moment(BEGAN)


def test_it_is_told_in_utc_wherever_it_was_measured():
    assert stamp(BEGAN) == "2026-01-02T01:04:05Z"
    assert in_words(BEGAN) == "2 January 2026, 01:04 UTC"


def test_a_year_has_four_digits_for_programs():
    assert stamp(datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)) == "0001-01-01T00:00:00Z"
