"""The map of the rooms shows each of them, and arrows that lead down."""

from tools.rooms import imported, rooms, rooms_block


def test_every_room_is_on_the_map_and_every_arrow_leads_down():
    order, lines = rooms(), rooms_block().splitlines()
    drawn = [line.strip().partition(" --> ") for line in lines if "[" in line]
    assert [upper.partition("[")[0] for upper, _, _ in drawn] == order
    arrows = [
        (number, lower) for number, (_, arrow, below) in enumerate(drawn) if arrow for lower in below.split(" & ")
    ]
    assert len(arrows) >= len(order) - 1
    assert all(number < order.index(lower) for number, lower in arrows)


def test_a_room_imports_what_its_modules_import():
    assert imported("policy") >= {"claims", "errors", "evidence"}
