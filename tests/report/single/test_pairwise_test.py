"""What was read of known models: every number with what it is corrected for, and no name leaves its line."""

from dataclasses import replace

from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.index.search.catalogue_test import Group, Judged
from hf_lineage.index.search.pairwise_test import ByWeights
from hf_lineage.report.single.pairwise_test import text, values
from tests.pages import HOSTILE
from tests.report.controlled import compared
from tests.report.single.test_bases import entry


def read(name="org/base", near=7):
    related = compared(p=0.001).rows[0]
    gone = Row(Claim(name, None, NAMED), Verdict(Kind.UNVERIFIABLE, f"{name} is gone"))
    groups = Group(entry(name), tuple(entry(f"near/{number}") for number in range(near))), Group(entry(f"x/{name}"), ())
    return ByWeights("org/model", (Judged(groups[0], related), Judged(groups[1], gone)), 20, 11)


def test_the_table_says_how_many_each_stands_for_and_the_sentence_how_many_are_left():
    shown = " ".join(text(read()).split())
    assert "org/base 96 7 97% 0.002 RELATED" in shown
    assert "by their keys, and were not tested; models that were not tested may be nearer" in shown
    assert "1 of 20 models of the index, of any width, were tested against their weights" in shown
    assert "12 were neither tested nor near one that was" in shown


def test_a_calibrated_verdict_says_what_it_rests_on():
    first, second = read().tested
    calibrated = replace(first, row=replace(first.row, verdict=Verdict(Kind.CALIBRATED, "")))
    shown = " ".join(text(replace(read(), tested=(calibrated, second))).split())
    assert "RELATED, calibrated rests on a threshold, which is not corrected" in shown
    assert "rests on a threshold" not in text(read())


def test_values_are_those_of_the_table():
    first, second = values(read())["tested"]
    assert (first["verdict"], first["kind"], first["p_value_adjusted"]) == ("RELATED", "related", 0.002)
    assert (second["verdict"], second["p_value_adjusted"], second["inherited"]) == ("UNVERIFIABLE", None, None)


def test_hostile_names_stay_in_their_lines():
    assert all(line.isprintable() for line in text(read(HOSTILE)).splitlines())
