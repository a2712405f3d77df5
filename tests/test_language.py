"""The list of docstrings and sentences that are hard to read."""

import pytest

from tools.language import main

LONG, SHORT = " ".join(["word"] * 26), " ".join(["word"] * 25)


def findings(tmp_path, capsys, name, text):
    """Return the lines printed about a file, without the last one, which has the counts."""
    file = tmp_path / name
    file.write_text(text, "utf-8")
    above = main([str(file), "--most", "0"])
    capsys.readouterr()
    assert main([str(file)]) == 0
    lines = [line.removeprefix(f"{file}:") for line in capsys.readouterr().out.splitlines()[:-1]]
    assert above == bool(lines)
    return lines


@pytest.mark.parametrize("code", ['"""{}"""', 'class A:\n    a = 1\n    """{}"""', 'def f():\n    """{}"""'])
def test_docstrings_that_begin_with_a_riddle_or_are_long(code, tmp_path, capsys):
    line = code.count("\n") + 1
    assert findings(tmp_path, capsys, "a.py", code.format("What is left.")) == [f"{line}: What is left."]
    assert findings(tmp_path, capsys, "a.py", code.format(f"Short. {LONG}.")) == [f"{line}: 26 words: {LONG}."]
    for fine in ("Whatever is left.", SHORT, f"Short.\n\n>>> {LONG}\n{LONG}\n", f"| What | {LONG} |"):
        assert findings(tmp_path, capsys, "a.py", code.format(fine)) == []


def test_long_sentences_of_a_page(tmp_path, capsys):
    for text in (LONG, f"- {LONG}", f"a |\n{LONG}", f"```\na\n```\n{LONG}", f"e.g. {SHORT}"):
        assert len(findings(tmp_path, capsys, "a.md", text)) == 1
    block = f"<!-- begin demo -->\n\n{LONG}\n\n<!-- end demo -->"
    for text in ("What", f"# {LONG}", block, f"```\n{LONG}\n```", f"`{LONG}` {SHORT[5:]}", f"{SHORT}: **a.** {SHORT}"):
        assert findings(tmp_path, capsys, "a.md", text) == []
