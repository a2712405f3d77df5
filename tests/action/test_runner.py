"""What a runner reads of a step: nothing that a model calls itself can say more to it than text."""

import pytest

from hf_lineage import action
from tests.github import commands, outputs


def test_a_command_is_one_line_whatever_it_says():
    assert action.command("error", "50%\r\n::error::x", title="a: b,\nc") == (
        "::error title=a%3A b%2C%0Ac::50%25%0D%0A::error::x"
    )


def test_an_output_cannot_end_before_its_mark(tmp_path):
    action.set_outputs(tmp_path / "out", {"a": "x\nb<<EOF\ny", "b": ""})
    assert outputs((tmp_path / "out").read_text()) == {"a": "x b<<EOF y", "b": ""}


def test_a_summary_stays_under_a_mebibyte_and_ends_with_a_whole_line(tmp_path):
    action.add_summary(tmp_path / "summary", "| é |\n" * 200_000)
    content = (tmp_path / "summary").read_bytes()
    assert 2**20 - 2**11 < len(content) < 2**20
    beginning, _, rest = content.decode().rpartition("| é |\n")
    assert set(beginning.splitlines()) == {"| é |"}
    assert "The rest is left out" in rest


def test_outputs_are_appended_each_between_marks_of_its_own(tmp_path):
    for value in ("x", "y"):
        action.set_outputs(tmp_path / "out", {"a": value, "b": value})
    marks = [line.partition("<<")[2] for line in (tmp_path / "out").read_text().splitlines() if "<<" in line]
    assert len(set(marks)) == len(marks) == 4
    assert outputs((tmp_path / "out").read_text()) == {"a": "y", "b": "y"}


def test_what_is_printed_while_nobody_listens_is_no_command(capsys):
    with action.without_commands():
        print("::error::owned")
    print(action.command("notice", "heard"))
    assert commands(capsys.readouterr().out) == [("notice", "", "heard")]


def test_the_runner_listens_again_after_an_error(capsys):
    with pytest.raises(ValueError, match="ours"), action.without_commands():
        raise ValueError("ours")
    print(action.command("warning", "heard", title="T"))
    assert commands(capsys.readouterr().out) == [("warning", "title=T", "heard")]
