"""The map of the rooms shows each of them, and arrows that lead down."""

from tools.rooms import imported, rooms, rooms_block


def test_every_room_is_on_the_map_and_every_arrow_leads_down():
    order, lines = rooms(), rooms_block().splitlines()
    assert [line.split("[")[0].strip() for line in lines if "[" in line] == order
    arrows = [line.split(" --> ") for line in lines if "-->" in line]
    assert len(arrows) >= len(order) - 1
    assert all(order.index(upper.strip()) < order.index(lower) for upper, lower in arrows)


def test_a_room_imports_what_its_modules_import():
    assert imported("policy") >= {"claims", "errors", "evidence"}
