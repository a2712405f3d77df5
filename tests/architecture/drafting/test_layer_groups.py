"""Layers are found by their numbers alone, and untrusted names are never taken for one."""

import pytest

from hf_lineage.architecture.drafting.layer_groups import find_groups

MATRIX = (4, 4)


def shapes(*names, layers=2):
    return {name.format(n=n): MATRIX for n in range(layers) for name in names}


def test_the_stack_with_the_most_matrices_comes_first():
    found = find_groups(shapes("encoder.h.{n}.a", "decoder.h.{n}.a", "decoder.h.{n}.b.weight", "top.a"))
    assert [(stack.prefix, stack.depth) for stack in found] == [("decoder.h.{layer}", 2), ("encoder.h.{layer}", 2)]
    assert found[0].tensors == {"a": MATRIX, "b": MATRIX}


def test_a_number_that_never_changes_is_no_layer():
    (found,) = find_groups(shapes("0.model.h.{n}.a"))
    assert found.prefix == "0.model.h.{layer}"


def test_a_single_layer_is_one_where_nothing_has_two():
    (found,) = find_groups(shapes("h.{n}.a", layers=1))
    assert (found.prefix, found.depth) == ("h.{layer}", 1)


def test_numbers_with_a_gap_are_no_layers():
    assert find_groups({"h.0.a": MATRIX, "h.2.a": MATRIX}) == ()


def test_experts_stand_for_one_and_modules_in_a_row_do_not():
    (found,) = find_groups(shapes("h.{n}.ffn.0.w", "h.{n}.ffn.1.w", "h.{n}.seq.0.w", "h.{n}.seq.2.v"))
    assert list(found.tensors) == ["ffn.{expert}.w", "seq.0.w", "seq.2.v"]


def test_layers_of_several_kinds_are_told_apart():
    dense, routed = shapes("h.{n}.up", layers=1), {"h.1.experts.0.up": MATRIX, "h.1.experts.1.up": MATRIX}
    (found,) = find_groups(dense | routed)
    assert [list(kind) for kind in found.kinds] == [["up"], ["experts.{expert}.up"]]


def test_the_width_is_what_matrices_have_in_common():
    readers = {f"h.{n}.{name}": shape for n in range(2) for name, shape in {"q": (8, 4), "up": (16, 4)}.items()}
    writers = {f"h.{n}.{name}": shape for n in range(2) for name, shape in {"o": (4, 8), "norm": (4,)}.items()}
    (found,) = find_groups(readers | writers)
    assert (found.width, found.gains) == (4, ["norm"])


@pytest.mark.parametrize("name", ["a{{b}}.{n}.c", "a\n.{n}.c", "ä.{n}.c", f"{'x' * 300}.{{n}}.c", "a {n}.{n}.c"])
def test_names_that_no_registry_file_could_say_make_no_layers(name):
    assert find_groups(shapes(name)) == ()
