"""Names that no registry file has are guessed by their letters and sizes, and by nothing else.

Known names are found under any module, if their sizes could go together. Layers are found by their numbers alone, and
untrusted names are never taken for one.
"""

import functools

import msgspec
import pytest

from hf_lineage.architecture.guess import branches, find_groups, norms
from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import ATTENTION_ROLES, Factorization
from tools.draft import candidates, patterns

WIDTH, HIDDEN = 4, 6
READER, WRITER, SQUARE, GAIN = (HIDDEN, WIDTH), (WIDTH, HIDDEN), (WIDTH, WIDTH), (WIDTH,)
FEEDFORWARD = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
ATTENTION = {"mixer.wq": SQUARE, "mixer.wk": SQUARE, "mixer.wv": SQUARE, "mixer.wo": SQUARE}


def stack(layer, *others):
    (found, *_) = find_groups(
        {f"h.{n}.{name}": shape for n, kind in enumerate((layer, *others)) for name, shape in kind.items()}
    )
    return found


def guessed(layer, *others, known=()):
    return branches(stack(layer, layer, *others), functools.partial(candidates, patterns=patterns(known)))


@pytest.mark.parametrize(
    "names",
    [
        *("wq wk wv wo", "q k v o", "to_q to_k to_v to_out", "query_proj key_proj value_proj proj"),
        "self.query self.key self.value out.dense",
    ],
)
def test_attention_is_guessed_by_its_letters(names):
    stored = [f"x.{name}" for name in names.split()]
    found = guessed(dict.fromkeys(stored, SQUARE))["attention"]
    assert found == [dict(zip(ATTENTION_ROLES, stored, strict=True))]


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


def test_layers_without_a_branch_have_none_and_known_names_come_before_letters_and_sizes():
    mlp = {"x.a": READER, "x.b": WRITER}
    assert guessed(ATTENTION | mlp, mlp)["attention"][-1] is None
    layer = ATTENTION | {"mlp.gate_proj": READER, "mlp.up_proj": READER, "mlp.down_proj": WRITER}
    said = {"up": "mlp.up_proj", "gate": "mlp.gate_proj", "down": "mlp.down_proj"}
    assert guessed(layer, known=factorizations())["mlp"] == [said]


@pytest.mark.parametrize(
    ("layers", "files", "said"),
    [
        (
            [dict.fromkeys(("input_layernorm", "post_attention_layernorm", *FEEDFORWARD), GAIN)],
            factorizations(),
            {
                "mlp": {"norm": FEEDFORWARD[0], "output_norm": FEEDFORWARD[1]},
                "attention": {"norm": "input_layernorm", "output_norm": "post_attention_layernorm"},
            },
        ),
        (
            [{"norm_att": GAIN, "norm_ffn": GAIN, "mixer.q_norm": GAIN}],
            (),
            {"attention": {"norm": "norm_att"}, "mlp": {"norm": "norm_ffn"}},
        ),
        ([{"ln": GAIN}], (), {"attention": {"norm": "ln"}, "mlp": {"norm": "ln"}}),
        (
            [{"input_layernorm": GAIN, "post_attention_layernorm": GAIN}, {"post_attention_layernorm": GAIN}],
            factorizations(),
            {"attention": {"norm": ["input_layernorm", None]}, "mlp": {"norm": "post_attention_layernorm"}},
        ),
    ],
    ids=["of the file that covers most", "by what they are called", "one for both", "one that some layers lack"],
)
def test_norms_are_those_of_a_file_or_guessed(layers, files, said):
    assert norms(stack(*(ATTENTION | layer for layer in layers)), files) == said


MATRIX = (4, 4)


def shapes(*names, layers=2):
    return {name.format(n=n): MATRIX for n in range(layers) for name in names}


def test_the_stack_with_the_most_matrices_comes_first():
    found = find_groups(shapes("encoder.h.{n}.a", "decoder.h.{n}.a", "decoder.h.{n}.b.weight", "top.a"))
    assert [(stack.prefix, stack.depth) for stack in found] == [("decoder.h.{layer}", 2), ("encoder.h.{layer}", 2)]
    assert found[0].tensors == {"a": MATRIX, "b": MATRIX}


@pytest.mark.parametrize(
    ("stored", "kinds"),
    [
        ({"h.0.a": MATRIX, "h.2.a": MATRIX}, []),
        (
            shapes("h.{n}.ffn.0.w", "h.{n}.ffn.1.w", "h.{n}.seq.0.w", "h.{n}.seq.2.v"),
            [["ffn.{expert}.w", "seq.0.w", "seq.2.v"]],
        ),
        (
            shapes("h.{n}.up", layers=1) | {"h.1.experts.0.up": MATRIX, "h.1.experts.1.up": MATRIX},
            [["up"], ["experts.{expert}.up"]],
        ),
    ],
    ids=["a gap", "experts stand for one and modules in a row do not", "layers of several kinds"],
)
def test_layers_are_found_by_their_numbers(stored, kinds):
    assert [list(kind) for group in find_groups(stored) for kind in group.kinds] == kinds


def test_the_width_is_what_matrices_have_in_common():
    sizes = {"q": (8, 4), "up": (16, 4), "o": (4, 8), "norm": (4,)}
    (found,) = find_groups({f"h.{n}.{name}": shape for n in range(2) for name, shape in sizes.items()})
    assert (found.width, found.gains) == (4, ["norm"])


@pytest.mark.parametrize("name", ["a{{b}}.{n}.c", "a\n.{n}.c", "ä.{n}.c", f"{'x' * 300}.{{n}}.c", "a {n}.{n}.c"])
def test_names_that_no_registry_file_could_say_make_no_layers(name):
    assert find_groups(shapes(name)) == ()


def known(**sets):
    plain = {"mlp": {"up": "mlp.fc1", "down": "mlp.fc2"}, "attention": {role: role[0] for role in ATTENTION_ROLES}}
    said = {"name": "one", "classes": [], "layers": "h.{layer}", "normalization": "rms_norm", "branches": plain | sets}
    return msgspec.convert(said, Factorization)


def found(shapes, *files):
    free = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    return candidates(free, shapes, WIDTH, patterns(files))


def test_a_pattern_is_found_under_another_module_and_the_names_of_a_file_outrank_it():
    ((kind, mlp, _),) = found({"ffn.fc1": (HIDDEN, WIDTH), "ffn.fc2": (WIDTH, HIDDEN)}, known())
    assert (kind, mlp) == ("mlp", {"up": "ffn.fc1", "down": "ffn.fc2"})
    both = {f"{module}.{name}": (WIDTH, WIDTH) for module in ("ffn", "mlp") for name in ("fc1", "fc2")}
    _, best, _ = found(both, known())[0]
    assert best == {"up": "mlp.fc1", "down": "mlp.fc2"}


def test_sizes_that_cannot_go_together_are_no_candidate():
    assert found({"mlp.fc1": (2 * HIDDEN, WIDTH), "mlp.fc2": (WIDTH, HIDDEN)}, known()) == []
    assert found({"mlp.fc1": (HIDDEN, 9), "mlp.fc2": (9, HIDDEN)}, known()) == []


def test_what_stands_beside_a_layer_makes_a_pattern_only_without_its_number():
    beside = known(mlp={"up": "ffns.{layer}.lin1", "down": "ffns.{layer}.lin2"})
    spread = known(mlp={"up": "lin1.{layer}.a", "down": "lin2.{layer}.a"})
    assert patterns([beside])[0].yaml_set == {"up": "lin1", "down": "lin2"}
    assert [each.kind for each in patterns([spread])] == ["attention"]
