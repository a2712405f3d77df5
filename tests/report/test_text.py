"""Text for people: tables and paragraphs of 80 columns in which nothing is lost, colours on whole verdicts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.report.text import BAR, WIDTH, bar, colour, table, wrap
from tests.properties import cases

WORD = st.text("abc-/.é_1", min_size=1, max_size=30)


@cases(80)
@given(st.lists(st.tuples(WORD, WORD, WORD), min_size=1, max_size=4))
def test_no_line_of_a_table_is_longer_than_a_screen_and_no_letter_is_lost(rows):
    """Cells of many lines are read from the top; columns stay in order."""
    text = table(("A", "B", "C"), rows)
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    body = re.sub(r"\s", "", "".join(lines[3:]))
    assert sorted(body) == sorted("".join("".join(row) for row in rows))


def test_a_long_name_is_broken_after_a_mark_or_within_a_word_also_in_a_notebook(monkeypatch):
    names = ("meta-llama/Llama-3.1-8B-Instruct-Abliterated", "mistralai/Mistral-7B-v0.3", "x" * 40, "0.900", "RELATED")
    assert table("abcde", [names]).splitlines()[3:] == [
        " meta-llama/Llama-    mistralai/Mistral-   xxxxxxxxxxxxxxxxxxxx  0.900  RELATED",
        " 3.1-8B-Instruct-     7B-v0.3              xxxxxxxxxxxxxxxxxxxx",
        " Abliterated",
    ]
    usual = table(("A", "B"), [("[red]x[/red]", "y")])
    assert "[red]x[/red]" in usual
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # the library would print it into the cell
    assert table(("A", "B"), [("[red]x[/red]", "y")]) == usual


@cases(80)
@given(st.lists(st.text("abc-", min_size=1, max_size=40), min_size=1, max_size=20))
def test_a_paragraph_keeps_its_words_and_breaks_none_at_a_hyphen(words):
    lines = wrap(" ".join(words)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines).split() == words
    assert all(line.startswith("  ") for line in lines[1:])
    command = f"`hf-lineage check ./{len(words) ** 2 * 'x'} --base ./base`"
    lines = wrap(f"{'word ' * 10}{command} reads it.").splitlines()
    assert any(command in line for line in lines), "so that it can be copied"


@pytest.mark.parametrize(("text", "shown"), [
    ("VERIFIED inherited", "\x1b[32mVERIFIED\x1b[0m inherited"), ("UNRELATED", "\x1b[31mUNRELATED\x1b[0m"),
    ("RELATED part", "\x1b[33mRELATED\x1b[0m part"), ("UNDECIDED damaged", "\x1b[33mUNDECIDED\x1b[0m damaged"),
    ("org/RELATEDNESS is no verdict", "org/RELATEDNESS is no verdict"),
])  # fmt: skip
def test_a_verdict_has_its_colour(text, shown):
    assert colour(text) == shown


@cases(60)
@given(st.floats(allow_nan=False, width=32), st.floats(0, 100))
def test_a_bar_is_never_longer_than_its_column(value, top):
    assert set(bar(value, top)) <= {"█"}
    assert len(bar(value, top)) <= BAR
    assert not (value <= 0 and bar(value, top))
    assert not (value >= top > 0 and len(bar(value, top)) < BAR)
