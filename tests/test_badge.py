"""The badge: the worst row in a word, a colour that stands out from its text, nothing that a stranger wrote."""

import re
from xml.etree import ElementTree

import pytest

from hf_lineage.claims import Claim
from hf_lineage.evaluate import Criteria
from hf_lineage.pipeline import Row
from hf_lineage.report import FORMATS
from hf_lineage.report.badge import AMBER, DARK, GREEN, GREY, RED
from hf_lineage.verdict import Inconclusive, Unreadable, Unverifiable
from tests.pages import HOSTILE, hostile_report, measured, report, row
from tests.running import lineage
from tests.test_heatmap import luminance

RELATED, UNRELATED = row(mlp=measured()), row(mlp=measured(score=0.01, p=0.4))

ACCEPTED = row(mlp=measured(share=0.3), criteria=Criteria(accept=("part",)))


def undecided(verdict):
    return Row(Claim("org/base", None, ()), verdict("because"))


def badge(*rows):
    return ElementTree.fromstring(FORMATS["badge"](report(*rows), False))


@pytest.mark.parametrize(
    ("rows", "said", "colour"),
    [
        ([RELATED], "RELATED 0.97, 97% inherited, p 0.001", GREEN),
        ([RELATED, row(mlp=measured(score=0.5))], "RELATED 0.97, 97% inherited, p 0.001", GREEN),
        ([RELATED, row(mlp=measured(share=0.3))], "RELATED in part 0.97, 30% inherited, p 0.001", AMBER),
        ([RELATED, ACCEPTED], "RELATED in part 0.97, 30% inherited, p 0.001", AMBER),
        ([row(mlp=measured(share=0.0))], "RELATED by the basis only 0.97, 0% inherited, p 0.001", AMBER),
        ([row(mlp=measured(share=None))], "RELATED, share not measured 0.97, p 0.001", AMBER),
        ([RELATED, UNRELATED, undecided(Inconclusive)], "UNRELATED", RED),
        ([RELATED, undecided(Unverifiable)], "UNVERIFIABLE", GREY),
        ([UNRELATED, undecided(Unreadable)], "UNREADABLE", GREY),
        ([], "nothing declared", GREY),
    ],
)
def test_the_worst_row_is_shown(rows, said, colour):
    found = badge(*rows)
    assert [text.strip() for text in found.itertext()] == [f"lineage: {said}", "lineage", said]
    assert [each.get("fill") for each in found.iter() if each.get("fill")] == [DARK, colour, "#fff"]


def test_white_can_be_read_on_every_colour():
    for colour in (GREEN, AMBER, RED, GREY, DARK):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_nothing_that_a_stranger_wrote_is_on_it():
    source = FORMATS["badge"](hostile_report(HOSTILE), False)
    assert not re.search(r"script|hacked|mmm|http(?!://www\.w3\.org/2000/svg)", source)


def test_the_words_fit_into_their_half():
    found = badge(RELATED)
    halves = [
        float(each.get("width")) for each in found.iter() if each.get("fill", "").startswith("#") and each.get("width")
    ]
    lengths = [float(each.get("textLength")) for each in found.iter() if each.get("textLength")]
    assert all(length + 10 < half for length, half in zip(lengths, halves, strict=True))
    assert float(found.get("width")) == sum(halves)


def test_the_command_line_writes_it(hub):
    found = lineage("check", "fern/child", "--local-hub", hub, "--format", "badge")
    assert found.code == 0
    assert "".join(ElementTree.fromstring(found.out).itertext()).startswith("lineage: RELATED ")
