import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.errors import CheckpointError, format_error, printable
from tests.properties import ANY_TEXT, cases


@pytest.mark.parametrize(("text", "shown"), [
    ("org/model", "org/model"), ("Größe → 1", "Größe → 1"), (7, "7"), ("two\nlines\r\n", r"two\nlines\r\n"),
    ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"), ("right\u202eleft", r"right\u202eleft"),
    ("null\0byte", r"null\x00byte"), ("half a pair \ud800", r"half a pair \ud800"),
    ("::error::x ::y", r":\x3aerror:\x3ax :\x3ay"), (":::", r":\x3a:"), ("a ##[error]b", r"a #\x23[error]b"),
])  # fmt: skip
def test_untrusted_text_is_shown_on_one_printable_line(text, shown):
    assert printable(text) == shown


@cases(300)
@given(ANY_TEXT, st.integers(1, 40))
def test_whatever_is_written_is_short_printable_no_command_and_stays_so(text, limit):
    shown = printable(text, limit)
    assert (shown.isprintable(), len(shown) <= limit) == (True, True)
    assert not any(command in shown for command in ("::", "##["))
    assert (printable(shown, limit), len(str(CheckpointError("::" * 5000)))) == (shown, 2000)


@cases(100)
@given(st.text(st.characters(categories=["L", "N"])))
def test_letters_and_numbers_of_every_language_stay_what_they_are(text):
    assert printable(text) == text


@pytest.mark.parametrize(("error", "line"), [
    (CheckpointError("a\nb"), r"a\nb"),
    (OSError(28, "No space left"), "what is to be written finds no room ([Errno 28] No space left); make"),
    (OSError(27, "File too large"), "what is to be written finds no room ([Errno 27] File too large); rai"),
    (OSError(5, "Input/output error"), "[Errno 5] Input/output error"),
    (OSError(), "OSError"),
    (MemoryError(), "not enough memory; try HF_LINEAGE_MAX_MEMORY=8GiB"),
    (MemoryError("8 GiB"), "8 GiB"),
    (ImportError("No 'x'"), "a package that is needed cannot be imported (No 'x'); install"),
    (KeyError("::x"), r"an unexpected error (KeyError: ':\x3ax'); --debug shows where, please report it"),
])  # fmt: skip
def test_whatever_is_raised_is_told_on_one_line(error, line):
    assert format_error(error).startswith(line)
    assert format_error(error).isprintable()
