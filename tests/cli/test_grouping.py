"""Options that belong together become one value, and the rest of them stays."""

import json
from dataclasses import dataclass

import pytest

from hf_lineage.cli.grouping import Result, take


@dataclass(frozen=True)
class Pair:
    first: int
    second: str


def test_a_group_takes_its_own_options_and_leaves_the_others():
    settings = {"second": "b", "third": True, "first": 1}
    assert take(Pair, settings) == Pair(1, "b")
    assert settings == {"third": True}


def test_an_option_that_no_command_has_is_noticed():
    with pytest.raises(KeyError, match="second"):
        take(Pair, {"first": 1})


def test_a_result_goes_where_and_as_the_user_says(tmp_path, capsys):
    forms = {"text": lambda one, other: f"{one} and {other}: RELATED\n", "json": lambda *both: json.dumps(both)}
    Result("json", tmp_path / "result.json").write(forms, "a", "b", coloured=True)
    assert (tmp_path / "result.json").read_text() == '["a", "b"]'
    Result("text", None).write(forms, "a", "b")
    assert capsys.readouterr().out == "a and b: RELATED\n"
