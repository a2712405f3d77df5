"""What two reports say alike of a known model and those that it was tested for."""

from hf_lineage.index.search.catalogue_test import Group, Judged
from hf_lineage.report.single.bases import untested, values
from tests.pages import HOSTILE, measured, row
from tests.report.single.test_bases import entry


def group(near):
    return Group(entry("org/base"), tuple(entry(name) for name in near))


def test_who_was_not_tested_is_named_up_to_five_and_then_counted():
    assert untested(group([])) == ""
    assert untested(group(["a/b"])) == "a/b is near it by its keys, and was not tested"
    seven = untested(group([f"near/{number}" for number in range(7)]))
    assert seven.startswith("near/0, near/1, near/2, near/3, near/4 and 2 more are near it")


def test_a_hostile_name_stays_in_its_line():
    assert untested(group([HOSTILE])).isprintable()


def test_the_values_hold_the_verdict_and_everyone_near():
    shown = values(Judged(group(["a/b"]), row(mlp=measured(p=0.001))))
    assert (shown["model"], [one["model"] for one in shown["near"]]) == ("org/base", ["a/b"])
    assert (shown["verdict"], shown["kind"], shown["reason"]) == ("RELATED", "related", "")
