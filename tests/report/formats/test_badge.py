"""The badge: the worst row in a word, a colour that stands out from its text, no untrusted text."""

import re
from xml.etree import ElementTree

import pytest

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.formats.badge import AMBER, DARK, GREEN, GREY, RED
from tests.invoking import lineage
from tests.pages import HOSTILE, hostile_report, measured, report, row
from tests.report.page.test_heatmap import luminance

RELATED, UNRELATED = row(mlp=measured()), row(mlp=measured(score=0.01, p=0.4))

SVG = "{http://www.w3.org/2000/svg}"
ACCEPTED = row(mlp=measured(share=0.3), criteria=Criteria(accept=("part",)))


def undecided(kind):
    return Row(Claim("org/base", None, ()), Verdict(kind, "because"))


def badge(*rows):
    return ElementTree.fromstring(FORMATS["badge"](report(*rows), False))


def described(image):
    """Take the description out of a badge; return its text."""
    description = image.find(f"{SVG}desc")
    if description is None:
        return ""
    image.remove(description)
    assert list(description) == []
    return description.text


@pytest.mark.parametrize(
    ("rows", "words", "colour"),
    [
        ([RELATED], "RELATED 0.97, 97% inherited, p 0.001", GREEN),
        ([RELATED, row(mlp=measured(score=0.5))], "RELATED 0.97, 97% inherited, p 0.001", GREEN),
        ([RELATED, row(mlp=measured(share=0.3))], "RELATED in part 0.97, 30% inherited, p 0.001", AMBER),
        ([RELATED, ACCEPTED], "RELATED in part 0.97, 30% inherited, p 0.001", AMBER),
        ([row(mlp=measured(share=0.0))], "RELATED by the basis only 0.97, 0% inherited, p 0.001", AMBER),
        ([RELATED, UNRELATED, undecided(Kind.INCONCLUSIVE)], "UNRELATED", RED),
        ([RELATED, undecided(Kind.UNVERIFIABLE)], "UNVERIFIABLE", GREY),
        ([UNRELATED, undecided(Kind.UNREADABLE)], "UNREADABLE", GREY),
        ([], "nothing declared", GREY),
    ],
)
def test_the_worst_row_is_shown(rows, words, colour):
    image = badge(*rows)
    described(image)
    assert [text.strip() for text in image.itertext() if text.strip()] == [f"lineage: {words}", "lineage", words]
    assert [element.get("fill") for element in image.iter() if element.get("fill")] == [DARK, colour, "#fff"]


def test_white_can_be_read_on_every_colour():
    for colour in (GREEN, AMBER, RED, GREY, DARK):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_no_untrusted_text_is_on_it():
    image = ElementTree.fromstring(FORMATS["badge"](hostile_report(HOSTILE), False))
    assert "layers come from it" in described(image)
    assert not re.search(r"script|hacked|mmm|http(?!://www\.w3\.org/2000/svg)", ElementTree.tostring(image).decode())


def test_the_words_fit_into_their_half():
    image = badge(RELATED)
    halves = [
        float(element.get("width"))
        for element in image.iter()
        if element.get("fill", "").startswith("#") and element.get("width")
    ]
    lengths = [float(element.get("textLength")) for element in image.iter() if element.get("textLength")]
    assert all(length + 10 < half for length, half in zip(lengths, halves, strict=True))
    assert float(image.get("width")) == sum(halves)


def test_the_command_line_writes_it(hub):
    outcome = lineage("check", "fern/child", "--local-hub", hub, "--format", "badge")
    assert outcome.code == 0
    assert "".join(ElementTree.fromstring(outcome.out).itertext()).strip().startswith("lineage: RELATED ")
