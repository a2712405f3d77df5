"""A report as a flat table: the same keys for every claim, plain values, and a fragment that nothing can leave."""

from html.parser import HTMLParser

import pytest

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report.formats import flat
from tests.pages import HOSTILE, hostile_report, measured, report, row

BOTH = report(
    row(mlp=measured(share=0.75), commit="0" * 40, layers=6),
    Row(Claim("org/gone", None, ("README.md", "adapter_config.json")), Verdict(Kind.UNVERIFIABLE, "it is gone")),
)


def test_every_claim_is_a_flat_dictionary_with_the_same_keys():
    first, second = flat.rows(BOTH)
    assert list(first) == list(second)
    assert not [value for row in (first, second) for value in row.values() if isinstance(value, dict | list | tuple)]
    assert (first["model"], first["base"], first["base_commit"]) == ("org/model", "org/base", "0" * 40)
    assert (first["verdict"], first["kind"], first["verified"], first["exit_code"]) == ("RELATED", "related", True, 0)
    assert (first["p_value_adjusted"], first["inherited"], first["layers"]) == (0.001, pytest.approx(0.75), 6)
    assert first["inherited_low"] < first["inherited"] < first["inherited_high"]
    assert (second["verdict"], second["reason"], second["score"]) == ("UNVERIFIABLE", "it is gone", None)
    assert second["sources"] == "README.md, adapter_config.json"


def test_where_nothing_is_declared_there_are_no_rows():
    assert flat.rows(report()) == []


def test_pandas_makes_a_table_of_it():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(BOTH.to_rows())
    assert table.shape == (2, len(flat.rows(BOTH)[0]))
    assert table.set_index("base")["verdict"].to_dict() == {"org/base": "RELATED", "org/gone": "UNVERIFIABLE"}
    assert str(table["score"].dtype) == "float64"


class Tags(HTMLParser):
    """The tags of a fragment, each of which is closed, and its text."""

    def __init__(self):
        super().__init__()
        self.seen, self.open, self.text = set(), [], ""

    def handle_starttag(self, tag, attributes):
        self.seen.add((tag, *(name for name, _ in attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_the_table_whatever_the_names_are():
    parser = Tags()
    parser.feed(hostile_report(HOSTILE)._repr_html_())
    assert parser.open == []
    assert {tag for tag, *_ in parser.seen} == {"p", "bdi", "table", "thead", "tbody", "tr", "th", "td", "small"}
    assert {name for _, *names in parser.seen for name in names} <= {"class", "scope"}
    assert "\u202e" not in parser.text


def test_a_notebook_shows_that_nothing_is_declared():
    shown = report()._repr_html_()
    assert "Nothing is declared" in shown
    assert "<table>" not in shown
