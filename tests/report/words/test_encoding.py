"""Every format for machines: the same each time, in ASCII, and untrusted input is never more than text."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hf_lineage.report import FORMATS
from hf_lineage.report.words.encoding import encode
from tests import hostile

ROOT = Path(__file__).parents[3]
MACHINES = ("json", "sarif", "junit", "cyclonedx", "intoto")


def rendered(form, report):
    return FORMATS[form](report, False)


@pytest.mark.parametrize("form", MACHINES)
def test_the_same_report_is_the_same_file(every_kind, form):
    assert rendered(form, every_kind) == rendered(form, every_kind)


@pytest.mark.parametrize("form", MACHINES)
def test_untrusted_input_is_nowhere_more_than_text(hostile_report, form):
    text = rendered(form, hostile_report)
    assert text.isascii()
    patterns = hostile.MARKUP + hostile.LINES
    assert not hostile.traces(text, patterns[:-1] if form in ("json", "intoto") else patterns)  # these cut no name


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_neither_is_it_in_what_people_read(hostile_report, form):
    text = FORMATS[form](hostile_report, True)
    assert not hostile.traces(text, hostile.LINES if form == "text" else hostile.MARKUP + hostile.LINES)


def test_escaping_changes_no_value():
    document = {"<b>": ["&", "##[x]", "\u202e", "é", 0.1, None, True, -3]}
    assert json.loads(encode(document)) == document


def test_a_format_costs_nothing_until_it_is_asked_for():
    code = "import sys, hf_lineage.report; sys.exit('cyclonedx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
