"""A change as a diff: what `patch` would read, with nothing in it that a terminal obeys."""

import shutil
import subprocess

import pytest

from hf_lineage.annotate.difference import render


def test_a_change_is_shown_with_the_lines_around_it():
    before = "".join(f"{n}\n" for n in range(9)).encode()
    assert render("f", before, before.replace(b"4\n", b"four\n4a\n")) == (
        "--- a/f\n+++ b/f\n@@ -2,7 +2,8 @@\n 1\n 2\n 3\n-4\n+four\n+4a\n 5\n 6\n 7\n"
    )


def test_a_new_file_comes_from_nowhere_and_no_change_is_nothing():
    assert render("f", None, b"a\n") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"
    assert render("f", b"a\n", b"a\n") == render("f", b"", b"") == ""


def test_a_missing_last_line_end_is_said():
    assert render("f", b"a", b"a\nb\n").endswith("@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n")


def test_untrusted_text_is_escaped_and_cut():
    text = render("f", "\ufeff\x1b[31m\u202e\r\n".encode() + b"\xff\n", b"x" * 10_000)
    assert "-\\ufeff\\x1b[31m\\u202e\n-\\udcff\n" in text
    assert max(map(len, text.splitlines())) <= 2001


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["b"], ["a", "b", "c"]),
        ([*"abcdefghijklmnop"], [*"Xbcdefghijklmno", "Y"]),
        ([*"abcdefghijklmnop"], [*"abcdefXYZghijkm"]),
        (["a"] * 50, ["a"] * 20 + ["b"] + ["a"] * 31),
    ],
)
def test_it_is_a_diff_that_patch_applies(before, after, tmp_path):
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    (tmp_path / "f").write_bytes(old)
    subprocess.run(
        ["patch", "-p1"], cwd=tmp_path, input=render("f", old, new).encode(), check=True, capture_output=True
    )
    assert (tmp_path / "f").read_bytes() == new


def test_a_long_change_is_not_compared_line_by_line():
    old, new = (b"".join(b"%d\n" % (n * step % 97) for n in range(5000)) for step in (3, 5))
    assert render("f", old, new).count("\n-") >= 4990
