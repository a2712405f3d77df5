import pytest

from hf_lineage.errors import CheckpointError, LineageError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("org/model", "org/model"),
        ("Größe → 1", "Größe → 1"),
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("right\u202eleft", r"right\u202eleft"),
        ("null\0byte", r"null\x00byte"),
        ("half a pair \ud800", r"half a pair \ud800"),
        ("::error::x ::y", r":\x3aerror:\x3ax :\x3ay"),
        (":::", r":\x3a:"),
        ("a ##[error]b", r"a #\x23[error]b"),
        (7, "7"),
    ],
)
def test_what_strangers_write_is_shown_on_one_printable_line(text, shown):
    assert printable(text) == shown


def test_a_long_text_is_cut_at_the_limit():
    assert printable("x" * 50, limit=10) == "xxxxxxxxx…"


def test_what_is_escaped_is_no_longer_than_the_limit_either():
    assert printable("\0" * 50, limit=10) == r"\x00\x00\…"
    assert len(str(CheckpointError("::" * 5000))) == 2000


def test_the_message_of_an_error_is_one_printable_line():
    assert str(CheckpointError("a\nb")) == r"a\nb"
    assert len(str(LineageError("x" * 10_000))) == 2000
