"""A report turns into each format, and says what it is in a line."""

import json
from dataclasses import replace

import pytest

from hf_lineage.errors import OptionError
from hf_lineage.report import FORMATS
from tests.pages import HOSTILE, measured, report, row

PAIR = report(row(mlp=measured()))


def test_each_form_is_what_the_option_format_writes():
    assert PAIR.to_json() == FORMATS["json"](PAIR, False)
    assert PAIR.to_dict() == json.loads(PAIR.to_json())
    assert PAIR.to_text() == FORMATS["text"](PAIR, False)
    assert PAIR.to_markdown(explain=True) == FORMATS["markdown"](PAIR, True)
    assert PAIR.to_html() == FORMATS["html"](PAIR, True)
    assert PAIR.to_format("sarif") == FORMATS["sarif"](PAIR, False)


def test_a_format_that_is_none_is_named_with_those_that_there_are():
    with pytest.raises(OptionError, match=r"there is no format 'pdf'; the formats are text, json, markdown"):
        PAIR.to_format("pdf")


def test_a_report_is_shown_in_one_line_without_any_array():
    assert repr(PAIR) == "<Report on org/model: org/base is VERIFIED inherited>"
    assert repr(report()) == "<Report on org/model: nothing is declared>"
    other = row("a/b", mlp=measured(score=0.01, p=0.4, share=0.0))
    assert repr(report(*[other] * 7)).endswith(f"{', '.join(['a/b is UNRELATED'] * 5)} and 2 more>")
    assert "\n" not in repr(report(row(HOSTILE, mlp=measured()), model=HOSTILE))


def test_neither_are_arrays_in_what_a_report_holds():
    (claim,) = PAIR.rows
    assert repr(claim) == "<Row: org/base is VERIFIED inherited>"
    assert repr(replace(claim, part="text_encoder")) == "<Row: org/base (text_encoder) is VERIFIED inherited>"
    assert repr(claim.verdict) == "<VERIFIED inherited>"
    assert repr(replace(claim.verdict, reason="why")) == "<VERIFIED inherited: why>"
    assert repr(claim.verdict.evidence["mlp"]) == "<Evidence: score 0.970, p 0.001, 6 layers>"
