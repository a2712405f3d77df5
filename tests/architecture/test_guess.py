"""Names that no registry file has are guessed by their letters and sizes, and by nothing else."""

import pytest

from hf_lineage.architecture.guess import branches, norms
from hf_lineage.architecture.patterns import find_groups
from hf_lineage.architecture.registry import factorizations

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
