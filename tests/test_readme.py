"""What README.md shows is what the program prints."""

import pytest

from tests.readme import BLOCKS, README, block


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
    assert {line.split()[-1] for line in lines if " RELATED" in line} == {"0"}
    assert {line.split()[-1] for line in lines if "UNRELATED" in line} == {"1"}
