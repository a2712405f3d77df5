"""What the pages list of commands is what their help says."""

import click

from hf_lineage.checking.settings import TYPED
from hf_lineage.cli import cli
from tools import listed


def test_every_option_of_every_command_is_on_the_page():
    page = listed.options_block()
    options = [option for _, command in listed.every_command(cli) for option in command.params]
    names = {name for option in options if isinstance(option, click.Option) for name in option.opts}
    assert len(names) > 20
    assert [name for name in names if name not in page] == []


def test_every_setting_is_on_the_page_with_its_usual_value_and_its_commands():
    settings = listed.options_block().partition("## Settings\n")[2]
    alpha = "| `alpha=NUMBER` | Significance level of the test. [default: 0.01] |"
    assert f"{alpha} check, compare, annotate, identify |" in settings
    assert "| `recipe` | One of `robust`, `paper`. How weights become numbers: robust, or paper" in settings
    assert all(f"`{key}" in settings for key in TYPED)
