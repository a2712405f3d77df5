"""What README.md shows is what the program prints."""

import re

import pytest

from tests.readme import BLOCKS, README, ROOT, block
from tests.screenshots import LARGEST, SHOWN


@pytest.mark.parametrize("name", BLOCKS)
def test_every_generated_block_is_up_to_date(name):
    file, render = BLOCKS[name]
    shown = block(file.read_text(encoding="utf-8"), name)[2].strip()
    assert shown == render().strip(), "run `make docs`"


def test_the_demo_has_the_verdicts_that_the_readme_promises():
    lines = block(README.read_text(encoding="utf-8"), "demo")[2].splitlines()
    unrelated = [line.split()[0] for line in lines if "UNRELATED" in line]
    related = [line.split()[0] for line in lines if " RELATED" in line]
    assert sorted(name.partition("/")[2] for name in unrelated) == ["llama-distilled", "llama-liar"]
    assert len(related) >= 9
    assert {line.split()[-1] for line in lines if " RELATED" in line} == {"RELATED"}
    assert {line.split()[3] for line in lines if "UNRELATED" in line} == {"0%"}


def test_the_screenshots_are_shown_with_words_for_those_who_do_not_see_them():
    shown = dict(re.findall(r'<img src="docs/([^"]+)" [^>]*alt="([^"]{40,})"', README.read_text(encoding="utf-8")))
    assert set(shown) == set(SHOWN)
    assert all((ROOT / "docs" / name).stat().st_size < LARGEST for name in SHOWN)
