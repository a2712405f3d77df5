"""Parts are copies of those of the base with which they share nine tenths of their bytes."""

import pytest

from hf_lineage.evidence.derivation import Part, Stretch, find_copies

ONE, TWO, HEAD = Part("layers.0", True), Part("layers.1", True), Part("head.weight", False)
BASE = [Stretch(ONE, "a", 0, 100), Stretch(TWO, "a", 100, 200), Stretch(HEAD, "b", 0, 50)]
SIZES = {ONE: 100, TWO: 100, HEAD: 50}


def test_what_is_stored_at_the_same_places_is_copied():
    found = find_copies(BASE, BASE, SIZES)
    assert {part: source.part for part, source in found.copied.items()} == {ONE: ONE, TWO: TWO, HEAD: HEAD}
    assert (found.share, found.others, found.all_layers) == (1, (), True)


def test_layers_may_be_in_another_order():
    found = find_copies(BASE, [Stretch(ONE, "a", 100, 200), Stretch(TWO, "a", 0, 100)], SIZES)
    assert {name: source.part for name, source in found.layers.items()} == {"layers.0": TWO, "layers.1": ONE}
    assert found.others == (HEAD,)
    assert found.all_layers


@pytest.mark.parametrize(("stop", "copied"), [(90, True), (89, False)])
def test_a_tenth_may_differ_where_a_copy_begins_or_ends(stop, copied):
    found = find_copies(BASE, [Stretch(ONE, "a", 0, stop)], SIZES)
    assert (ONE in found.copied) == copied
    assert found.share == pytest.approx(stop / 250)
    assert not found.all_layers


def test_a_part_of_bytes_of_two_parts_is_no_copy_of_either():
    found = find_copies(BASE, [Stretch(ONE, "a", 50, 150)], SIZES)
    assert (found.copied, found.share) == ({}, pytest.approx(0.4))


def test_the_same_place_in_another_object_is_something_else():
    assert find_copies(BASE, [Stretch(ONE, "c", 0, 100)], SIZES).share == 0


def test_a_model_without_layers_has_none_that_are_copied():
    assert not find_copies(BASE, [Stretch(HEAD, "b", 0, 50)], {HEAD: 50}).all_layers
