"""Names that no registry file has are guessed by their letters and sizes, and by nothing else.

Known names are found under any module, if their sizes could go together. Layers are found by their numbers alone, and
untrusted names are never taken for one.
"""

import pytest

from hf_lineage.architecture.guess import branches, candidates, find_groups, norms, patterns
from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import Branches, Factorization, MatrixSet

WIDTH, HIDDEN = 4, 6
READER, WRITER, SQUARE, GAIN = (HIDDEN, WIDTH), (WIDTH, HIDDEN), (WIDTH, WIDTH), (WIDTH,)
ATTENTION = {"mixer.wq": SQUARE, "mixer.wk": SQUARE, "mixer.wv": SQUARE, "mixer.wo": SQUARE}


def stack(layer, *others):
    (found, *_) = find_groups(
        {f"h.{n}.{name}": shape for n, kind in enumerate((layer, *others)) for name, shape in kind.items()}
    )
    return found


def guessed(layer, *others, known=()):
    return branches(stack(layer, layer, *others), known)


@pytest.mark.parametrize(
    "names",
    [
        ("wq", "wk", "wv", "wo"),
        ("q", "k", "v", "o"),
        ("to_q", "to_k", "to_v", "to_out"),
        ("query_proj", "key_proj", "value_proj", "proj"),
        ("self.query", "self.key", "self.value", "out.dense"),
    ],
)
def test_attention_is_guessed_by_its_letters(names):
    found = guessed({f"x.{name}": SQUARE for name in names})["attention"]
    assert found == [dict(zip(("query", "key", "value", "output"), (f"x.{name}" for name in names), strict=True))]


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"x.a": READER, "x.b": WRITER}, {"up": "x.a", "down": "x.b"}),
        ({"x.expand": WRITER, "x.out": READER}, {"up": "x.expand", "down": "x.out"}),
        ({"x.a": WRITER, "x.a.bias": (HIDDEN,), "x.b": READER, "x.b.bias": GAIN}, {"up": "x.a", "down": "x.b"}),
        ({"x.a": READER, "x.gated": READER, "x.b": WRITER}, {"up": "x.a", "gate": "x.gated", "down": "x.b"}),
        ({"x.a": (2 * HIDDEN, WIDTH), "x.b": WRITER}, {"packed": {"x.a": ["gate", "up"]}, "down": "x.b"}),
    ],
    ids=["sizes", "names", "biases", "gated", "packed"],
)
def test_an_mlp_is_guessed_by_its_sizes(layer, said):
    assert guessed(ATTENTION | layer)["mlp"] == [said]


@pytest.mark.parametrize("layer", [{}, {"x.a": READER}, {"x.a": READER, "y.b": WRITER}, {"x.a": SQUARE, "x.b": SQUARE}])
def test_what_could_be_anything_is_not_guessed(layer):
    assert "mlp" not in guessed(ATTENTION | layer)


def test_layers_without_a_branch_are_said_to_have_none():
    mlp = {"x.a": READER, "x.b": WRITER}
    assert guessed(ATTENTION | mlp, mlp)["attention"][-1] is None


def test_known_names_come_before_letters_and_sizes():
    layer = ATTENTION | {"mlp.gate_proj": READER, "mlp.up_proj": READER, "mlp.down_proj": WRITER}
    said = {"up": "mlp.up_proj", "gate": "mlp.gate_proj", "down": "mlp.down_proj"}
    assert guessed(layer, known=factorizations())["mlp"] == [said]


class TestNorms:
    def test_those_of_the_file_that_covers_most_are_taken(self):
        sandwich = dict.fromkeys(
            (
                *("input_layernorm", "post_attention_layernorm"),
                *("pre_feedforward_layernorm", "post_feedforward_layernorm"),
            ),
            GAIN,
        )
        assert norms(stack(ATTENTION | sandwich), factorizations()) == {
            "mlp": {"norm": "pre_feedforward_layernorm", "output_norm": "post_feedforward_layernorm"},
            "attention": {"norm": "input_layernorm", "output_norm": "post_attention_layernorm"},
        }

    def test_unknown_ones_are_guessed_by_what_they_are_called(self):
        found = norms(stack(ATTENTION | {"norm_att": GAIN, "norm_ffn": GAIN, "mixer.q_norm": GAIN}), ())
        assert found == {"attention": {"norm": "norm_att"}, "mlp": {"norm": "norm_ffn"}}

    def test_a_single_one_is_read_by_both(self):
        found = norms(stack(ATTENTION | {"ln": GAIN}), ())
        assert found == {"attention": {"norm": "ln"}, "mlp": {"norm": "ln"}}

    def test_one_that_some_layers_lack_is_optional(self):
        both = {"input_layernorm": GAIN, "post_attention_layernorm": GAIN}
        found = norms(stack(ATTENTION | both, ATTENTION | {"post_attention_layernorm": GAIN}), factorizations())
        assert found["attention"] == {"norm": ["input_layernorm", None]}


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
