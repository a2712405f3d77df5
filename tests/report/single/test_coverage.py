"""How much of transformers the registry covers, as sentences and as JSON."""

import json

import pytest

from hf_lineage.architecture.drafting.class_coverage import Coverage
from hf_lineage.report.single.single import COVERAGES, counted, coverage_json, coverage_text

NEW = Coverage("9.0", ("A", "B", "C"), {"D": "odd", "E": "odd", "F": "even"}, ("G", "H"))
COMPLETE = Coverage("9.0", ("A", "B"), {}, ())


def test_the_numbers_stand_in_one_sentence():
    assert counted(COMPLETE) == (
        "The registry covers 2 of the 2 classes of causal language models in transformers 9.0 (100.0%), each proved on "
        "the real module by tests/test_conformance.py."
    )
    assert "covers 3 of the 8 classes" in counted(NEW)


def test_a_reason_is_given_once_for_all_its_classes_and_new_classes_come_last():
    assert coverage_text(NEW).splitlines()[-5:] == [
        "Not covered:",
        "- D, E: odd",
        "- F: even",
        "",
        "Not reviewed yet: G, H.",
    ]


def test_where_everything_is_covered_the_sentence_is_all():
    assert " ".join(coverage_text(COMPLETE).split()) == counted(COMPLETE)


def test_lines_are_no_wider_than_a_terminal():
    many = Coverage("9.0", ("A",), {f"Class{number}": "a reason of some words" for number in range(100)}, ())
    assert max(map(len, coverage_text(many).splitlines())) <= 80


@pytest.mark.parametrize("coverage", [NEW, COMPLETE])
def test_json_has_every_class_and_the_share(coverage):
    found = json.loads(coverage_json(coverage))
    assert found == {
        "version": coverage.version,
        "listed": list(coverage.listed),
        "unsupported": coverage.unsupported,
        "unknown": list(coverage.unknown),
        "share": coverage.share,
    }


def test_there_is_a_format_for_people_and_one_for_programs():
    assert {"text": coverage_text, "json": coverage_json} == COVERAGES
