"""What several commands share: options that are refused before anything is read, and where a result goes."""

from pathlib import Path

import click
import pytest

from hf_lineage.checking.options import Options
from hf_lineage.cli.kinds import writable
from hf_lineage.cli.shared import make_options, with_examples, with_options, write
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.signature.recipe import RECIPES
from tests.invoking import lineage

CHOICE = {"recipe": "robust", "paths": "mlp", "probes": 64, "exact": False}


def refused(file):
    with pytest.raises(click.BadParameter) as error:
        writable(None, None, file)
    return error.value.message


class TestWritable:
    @pytest.mark.parametrize("name", ["new.json", "old.json"])
    def test_a_file_of_a_folder_that_is_there_is_taken(self, tmp_path, name):
        (tmp_path / "old.json").touch()
        assert writable(None, None, tmp_path / name) == tmp_path / name

    def test_none_is_none(self):
        assert writable(None, None, None) is None

    def test_a_folder_that_is_missing_is_to_be_made_first(self, tmp_path):
        assert refused(tmp_path / "gone/new.json").endswith("/gone' that can be written to; make it first")

    def test_a_name_that_no_file_can_have_is_refused(self, tmp_path):
        assert refused(tmp_path / ("x" * 300)).endswith("cannot be written: File name too long; name another file")


class TestMakeOptions:
    def test_the_defaults_of_the_command_are_those_of_the_library(self):
        assert make_options(**CHOICE) == Options()

    @pytest.mark.parametrize("name", RECIPES)
    def test_a_recipe_goes_by_its_name(self, name):
        assert make_options(**CHOICE | {"recipe": name}).recipe == RECIPES[name]

    def test_exact_is_without_probes_however_many_there_would_be(self):
        assert make_options(**CHOICE | {"exact": True, "probes": 8}).recipe.probes is None
        assert make_options(**CHOICE | {"probes": 8}).recipe.probes == 8

    def test_paths_are_separated_by_commas_and_spaces_do_not_matter(self):
        assert make_options(**CHOICE | {"paths": "mlp, query_key"}).paths == ("mlp", "query_key")

    def test_other_options_go_on_as_they_are(self):
        options = make_options(**CHOICE, alpha=0.05, nulls=("a/b",), local_hub=Path("hub"))
        assert (options.alpha, options.nulls, options.local_hub) == (0.05, ("a/b",), Path("hub"))


class TestWrite:
    def test_into_a_file_there_is_no_colour_and_nothing_is_printed(self, tmp_path, capsys):
        write("RELATED – yes\n", tmp_path / "report", coloured=True)
        assert (tmp_path / "report").read_text("utf-8") == "RELATED – yes\n"
        assert capsys.readouterr().out == ""

    def test_what_is_no_terminal_gets_no_colour(self, capsys):
        write("RELATED\n", None, coloured=True)
        assert capsys.readouterr().out == "RELATED\n"


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("json", "'json' is not FORMAT=FILE with a format out of text, json, "),
        ("json=", "'json=' is not FORMAT=FILE"),
        ("=x.json", "'=x.json' is not FORMAT=FILE"),
        ("xml=x.xml", "'xml=x.xml' is not FORMAT=FILE"),
        ("json=gone/x.json", "there is no folder 'gone' that can be written to; make it first"),
    ],
)
def test_a_report_without_a_format_or_a_place_is_refused_before_anything_is_read(report, message):
    assert message in lineage("check", "no/such-model", "--report", report).error


def test_an_equals_sign_in_the_name_of_a_file_belongs_to_it(hub, tmp_path):
    file = tmp_path / "a=b.json"
    assert lineage("check", "fern/child", "--local-hub", hub, "--report", f"json={file}").code == 0
    assert file.read_text().startswith("{")


def test_examples_are_a_line_each_below_the_text():
    assert with_examples("Text.", "one", "two") == "Text.\n\n\b\nExamples:\n  one\n  two"


def test_options_stand_in_the_help_in_the_order_in_which_they_are_named():
    @click.command()
    @with_options(click.option("--b"), click.option("--a"), click.option("--c"))
    def command(**settings):
        """A command."""

    assert [option.name for option in command.params] == ["b", "a", "c"]


@pytest.mark.parametrize("command", ["check", "compare", "annotate", "watch"])
def test_what_the_test_depends_on_has_the_defaults_of_the_library_in_every_command(command):
    from hf_lineage.cli import cli

    options = {option.name: option.default for option in cli.get_command(None, command).params}
    for name in ("alpha", "permutations", "seed", "min_share"):
        assert options[name] == getattr(Criteria(), name), name
