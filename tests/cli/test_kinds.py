"""Kinds of options: each refuses what is not of its kind, with one line."""

from pathlib import Path

import click
import pytest

from hf_lineage.cli.kinds import count_option, format_option, path_option


@click.command()
@format_option("text", "json")
@path_option("--place", "DIR", "Where.", envvar="PLACE")
@count_option("--many", "How many.", 2, most=3)
def command(**settings):
    """A command."""
    return settings


def taken(*words):
    return command.main(words, standalone_mode=False)


def test_what_is_left_out_has_its_default():
    assert taken() == {"form": "text", "place": None, "many": 2}


def test_what_is_given_is_of_its_kind(monkeypatch):
    assert taken("--format", "json", "--place", "x", "--many", "3") == {"form": "json", "place": Path("x"), "many": 3}
    monkeypatch.setenv("PLACE", "y")
    assert taken()["place"] == Path("y")


@pytest.mark.parametrize("words", [("--format", "html"), ("--many", "4"), ("--many", "0"), ("--many", "x")])
def test_what_is_of_no_such_kind_is_refused(words):
    with pytest.raises(click.BadParameter):
        taken(*words)
