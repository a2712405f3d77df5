"""Known names are found under any module, if their sizes could go together.

Layers are found by their numbers alone, and untrusted names are never taken for one.
"""

import pytest

from hf_lineage.architecture.patterns import candidates, find_groups, patterns
from hf_lineage.architecture.schema import Branches, Factorization, MatrixSet

MATRIX = (4, 4)


def shapes(*names, layers=2):
    return {name.format(n=n): MATRIX for n in range(layers) for name in names}


def test_the_stack_with_the_most_matrices_comes_first():
    found = find_groups(shapes("encoder.h.{n}.a", "decoder.h.{n}.a", "decoder.h.{n}.b.weight", "top.a"))
    assert [(stack.prefix, stack.depth) for stack in found] == [("decoder.h.{layer}", 2), ("encoder.h.{layer}", 2)]
    assert found[0].tensors == {"a": MATRIX, "b": MATRIX}


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


WIDTH, HIDDEN = 4, 6


def known(name="one", **sets):
    plain = {
        "mlp": MatrixSet(up="mlp.fc1", down="mlp.fc2"),
        "attention": MatrixSet(query="q", key="k", value="v", output="o"),
    }
    return Factorization(
        name=name, classes=(), layers="h.{layer}", normalization="rms_norm", branches=Branches(**plain | sets)
    )


def found(shapes, *files):
    free = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    return list(candidates(free, shapes, WIDTH, patterns(files)))


def test_a_pattern_is_found_under_another_module():
    (mlp,) = found({"ffn.fc1": (HIDDEN, WIDTH), "ffn.fc2": (WIDTH, HIDDEN)}, known())
    assert (mlp.kind, mlp.yaml_set) == ("mlp", {"up": "ffn.fc1", "down": "ffn.fc2"})


def test_the_names_of_a_file_outrank_those_under_another_module():
    both = {f"{module}.{name}": (WIDTH, WIDTH) for module in ("ffn", "mlp") for name in ("fc1", "fc2")}
    best = max(found(both, known()), key=lambda each: each.rank)
    assert best.yaml_set == {"up": "mlp.fc1", "down": "mlp.fc2"}


def test_sizes_that_cannot_go_together_are_no_candidate():
    assert found({"mlp.fc1": (2 * HIDDEN, WIDTH), "mlp.fc2": (WIDTH, HIDDEN)}, known()) == []
    assert found({"mlp.fc1": (HIDDEN, 9), "mlp.fc2": (9, HIDDEN)}, known()) == []


def test_what_stands_beside_a_layer_makes_a_pattern_only_without_its_number():
    beside = known(mlp=MatrixSet(up="ffns.{layer}.lin1", down="ffns.{layer}.lin2"))
    spread = known(mlp=MatrixSet(up="lin1.{layer}.a", down="lin2.{layer}.a"))
    assert patterns([beside])[0].yaml_set == {"up": "lin1", "down": "lin2"}
    assert [each.kind for each in patterns([spread])] == ["attention"]
