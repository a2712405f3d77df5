"""The picture of the rooms shows the package as it is."""

import xml.etree.ElementTree as ElementTree

from tools import rooms

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_in_the_documentation_is_the_one_of_today():
    assert rooms.PICTURE.read_text("utf-8") == rooms.picture(), "run make docs"


def test_every_room_is_in_it_once_with_what_it_is_for():
    texts = [node.text for node in ElementTree.fromstring(rooms.picture()).iter(f"{SVG}text")]
    folders = [path.name for path in rooms.PACKAGE.iterdir() if (path / "__init__.py").exists()]
    assert len(folders) > 10
    assert [name for name in folders if texts.count(f"{name}/") != 1] == []
    assert [name for name in folders if not rooms.purpose(name)] == []


def test_a_value_stands_in_the_row_of_the_room_that_makes_it():
    places = {node.text: float(node.get("y")) for node in ElementTree.fromstring(rooms.picture()).iter(f"{SVG}text")}
    values = [(room, place.rpartition(".")[2]) for room, made in rooms.VALUES.items() for place in made]
    assert len(values) > 5
    assert [name for room, name in values if not 0 <= places[name] - places[f"{room}/"] < rooms.ROW / 2] == []
