"""What the pages list of commands is what their help says, and the map of the rooms shows each of them."""

import click

from hf_lineage.cli import cli
from tools import listed
from tools.rooms import imported, rooms, rooms_block


def test_every_option_of_every_command_is_on_the_page():
    page = listed.options_block()
    options = [option for _, command in listed.every_command(cli) for option in command.params]
    names = {name for option in options if isinstance(option, click.Option) for name in option.opts}
    assert len(names) > 20
    assert [name for name in names if name not in page] == []


def test_every_room_is_on_the_map_and_every_arrow_leads_down():
    order, lines = rooms(), rooms_block().splitlines()
    drawn = [line.strip().partition(" --> ") for line in lines if "[" in line]
    assert [upper.partition("[")[0] for upper, _, _ in drawn] == order
    arrows = [
        (number, lower) for number, (_, arrow, below) in enumerate(drawn) if arrow for lower in below.split(" & ")
    ]
    assert len(arrows) >= len(order) - 1
    assert all(number < order.index(lower) for number, lower in arrows)
    assert imported("policy") >= {"claims", "errors", "evidence"}
