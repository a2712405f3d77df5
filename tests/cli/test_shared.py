"""What several commands share: options that are refused before anything is read, and where a result goes."""

from dataclasses import replace
from pathlib import Path

import click
import pytest

from hf_lineage.checking.options import Options
from hf_lineage.checking.settings import TYPED
from hf_lineage.cli.kinds import writable
from hf_lineage.cli.shared import make_options, with_examples, with_options
from hf_lineage.signature.recipe import RECIPES
from tests.invoking import lineage


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
        assert make_options("mlp", {}) == Options()

    @pytest.mark.parametrize("name", RECIPES)
    def test_a_recipe_goes_by_its_name(self, name):
        assert make_options("mlp", {"recipe": name}).recipe == RECIPES[name]

    def test_probes_are_those_of_the_recipe_and_none_is_exact(self):
        assert make_options("mlp", {"probes": None}).recipe.probes is None
        assert make_options("mlp", {"probes": 8, "recipe": "paper"}).recipe == replace(RECIPES["paper"], probes=8)

    def test_paths_are_separated_by_commas_and_spaces_do_not_matter(self):
        assert make_options("mlp, query_key", {}).paths == ("mlp", "query_key")

    def test_other_options_go_on_as_they_are(self):
        options = make_options("mlp", {"alpha": 0.05}, nulls=("a/b",), local_hub=Path("hub"))
        assert (options.alpha, options.nulls, options.local_hub) == (0.05, ("a/b",), Path("hub"))


class TestSet:
    def test_help_lists_every_key_and_its_usual_value_and_needs_no_model(self):
        outcome = lineage("check", "--set", "help")
        assert (outcome.code, outcome.err) == (0, "")
        assert all(f"{key}=" in outcome.out for key in TYPED)
        assert "alpha=NUMBER         Significance level of the test.  [default: 0.01]\n" in outcome.out
        assert "Seed of the permutations.  [default: 0]\n" in outcome.out

    def test_a_command_lists_the_keys_that_it_has(self):
        listed = lineage("extract", "--set", "help").out
        assert [key for key in TYPED if f"{key}=" in listed] == ["probes", "recipe", "recompute", "max-memory"]
        assert "alpha=0.1' is not KEY=VALUE; the keys are recipe, probes, max-memory, recompute" in (
            lineage("extract", "no/model", "--set", "alpha=0.1").error
        )

    @pytest.mark.parametrize("pair", ["signatures=org/signatures", "trust=trust.yaml", "published=yes"])
    def test_keys_of_published_signatures_are_gone(self, pair):
        done = lineage("check", "no/model", "--set", pair)
        assert (done.code, f"{pair!r} is not KEY=VALUE; the keys are " in done.error) == (2, True)


def test_check_has_no_more_options_than_a_user_can_read():
    from hf_lineage.cli import cli

    check = cli.get_command(None, "check")
    options = [option for option in check.get_params(click.Context(check)) if isinstance(option, click.Option)]
    assert len(options) <= 28


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("json", "'json' is not FORMAT=FILE; the formats are text, json, "),
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
