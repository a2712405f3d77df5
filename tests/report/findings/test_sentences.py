"""Sentences of findings stand in front of what was read for them, each with the name of the base."""

from dataclasses import replace

from hf_lineage.claims.licence import Licence
from hf_lineage.report.findings.sentences import reasons, state_all, state_claim, state_report
from tests.pages import measured, report, row

MIT = replace(report(replace(row(mlp=measured()), licence=Licence("mit"), notes=("a note",))), licence=Licence("mit"))


def test_what_was_found_stands_before_notes():
    *_, licence, note = reasons(MIT)
    assert (licence, note) == ("org/base: licence as both cards state it: mit", "a note")


def test_what_only_explaining_adds_is_stated_where_there_is_nothing_shorter():
    claim = ["org/base: All 6 layers come from it", "org/base: licence as both cards state it: mit"]
    assert list(state_claim(MIT, MIT.rows[0])) == list(state_all(MIT)) == claim
    assert list(state_report(MIT)) == []
