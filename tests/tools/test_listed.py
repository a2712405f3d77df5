"""What the pages list of commands is what their help says."""

import click

from hf_lineage.cli import cli
from tools import listed


def test_every_option_of_every_command_is_on_the_page():
    page = listed.options_block()
    options = [option for _, command in listed.every_command(cli) for option in command.params]
    names = {name for option in options if isinstance(option, click.Option) for name in option.opts}
    assert len(names) > 20
    assert [name for name in names if name not in page] == []
