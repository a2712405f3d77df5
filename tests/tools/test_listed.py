"""What the pages list of commands is what their help says."""

import click

from hf_lineage.checking.settings import TYPED
from hf_lineage.cli import cli
from tools import listed


def test_the_usage_of_a_command_names_its_arguments():
    assert {name: listed.usage(command) for name, command in cli.commands.items()} == {
        "check": "check MODEL", "compare": "compare A B", "annotate": "annotate MODEL",
        "identify": "identify MODEL", "tree": "tree MODEL...", "index": "index",
        "extract": "extract MODEL", "inspect": "inspect MODEL", "registry": "registry [CLASS]",
    }  # fmt: skip


def test_every_option_of_every_command_is_on_the_page():
    page = listed.options_block()
    options = [option for _, command in listed.every_command(cli) for option in command.params]
    names = {name for option in options if isinstance(option, click.Option) for name in option.opts}
    assert len(names) > 20
    assert [name for name in names if name not in page] == []


def test_an_option_of_one_command_stands_with_it_and_one_of_several_at_the_end():
    page = listed.options_block()
    annotate = page.partition("## annotate\n")[2].partition("\n## ")[0]
    shared = page.partition("## Options of several commands\n")[2]
    assert "`--repair-base`" in annotate
    assert "`--local-hub DIR`" not in annotate
    assert "| `--local-hub DIR` | A folder with org/name folders; models are searched" in shared


def test_every_setting_is_on_the_page_with_its_usual_value_and_its_commands():
    settings = listed.options_block().partition("## Settings\n")[2]
    alpha = "| `alpha=NUMBER` | Significance level of the test. [default: 0.01] |"
    assert f"{alpha} check, compare, annotate, identify |" in settings
    assert "| `recipe` | One of `robust`, `paper`. How weights become numbers: robust, or paper" in settings
    assert all(f"`{key}" in settings for key in TYPED)


def test_choices_are_told_in_words_since_a_bar_would_end_the_cell():
    assert "| `--budget` | One of `quick`, `full`. " in listed.options_block()


def test_classes_of_one_family_are_named_once():
    assert listed.families(["BertForMaskedLM", "BertModel", "GPT2LMHeadModel"]) == ["Bert", "GPT2"]


def test_the_commands_of_a_group_stand_by_themselves():
    page = listed.options_block()
    assert "## index build\n\n    hf-lineage index build\n" in page
    assert "## index\n" not in page
    assert "| `--from LIST` |" in page
