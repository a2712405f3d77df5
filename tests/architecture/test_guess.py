"""Names that no registry file has are guessed by their letters and sizes; layers are found by their numbers alone."""

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
ATTENTION = {f"mixer.w{role}": SQUARE for role in "qkvo"}


def stack(layer, *others):
    (found, *_) = find_groups(
        {f"h.{n}.{name}": shape for n, kind in enumerate((layer, *others)) for name, shape in kind.items()}
    )
    return found


def guessed(layer, *others, known=()):
    return branches(stack(layer, layer, *others), functools.partial(candidates, patterns=patterns(known)))


PLAIN = ("wq wk wv wo", "q k v o", "to_q to_k to_v to_out", "query_proj key_proj value_proj proj")


@pytest.mark.parametrize("names", [*PLAIN, "self.query self.key self.value out.dense"])
def test_attention_is_guessed_by_its_letters(names):
    stored = [f"x.{name}" for name in names.split()]
    assert guessed(dict.fromkeys(stored, SQUARE))["attention"] == [dict(zip(ATTENTION_ROLES, stored, strict=True))]


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"x.a": READER, "x.b": WRITER}, {"up": "x.a", "down": "x.b"}),
        ({"x.expand": WRITER, "x.out": READER}, {"up": "x.expand", "down": "x.out"}),
        ({"x.a": WRITER, "x.a.bias": (HIDDEN,), "x.b": READER, "x.b.bias": GAIN}, {"up": "x.a", "down": "x.b"}),
        ({"x.a": READER, "x.gated": READER, "x.b": WRITER}, {"up": "x.a", "gate": "x.gated", "down": "x.b"}),
        ({"x.a": (2 * HIDDEN, WIDTH), "x.b": WRITER}, {"packed": {"x.a": ["gate", "up"]}, "down": "x.b"}),
        *(
            (layer, None)
            for layer in ({}, {"x.a": READER}, {"x.a": READER, "y.b": WRITER}, {"x.a": SQUARE, "x.b": SQUARE})
        ),
    ],
)
def test_an_mlp_is_guessed_by_its_sizes_and_not_where_it_could_be_anything(layer, said):
    assert guessed(ATTENTION | layer).get("mlp") == (said and [said])


def test_layers_may_lack_a_branch_and_known_names_come_before_letters_and_sizes():
    mlp = {"x.a": READER, "x.b": WRITER}
    assert guessed(ATTENTION | mlp, mlp)["attention"][-1] is None
    layer = ATTENTION | {"mlp.gate_proj": READER, "mlp.up_proj": READER, "mlp.down_proj": WRITER}
    said = {"up": "mlp.up_proj", "gate": "mlp.gate_proj", "down": "mlp.down_proj"}
    assert guessed(layer, known=factorizations())["mlp"] == [said]


@pytest.mark.parametrize(
    ("layers", "attention", "mlp"),
    [
        (
            [["input_layernorm", "post_attention_layernorm", *FEEDFORWARD]],
            {"norm": "input_layernorm", "output_norm": "post_attention_layernorm"},
            {"norm": FEEDFORWARD[0], "output_norm": FEEDFORWARD[1]},
        ),
        ([["norm_att", "norm_ffn", "mixer.q_norm"]], {"norm": "norm_att"}, {"norm": "norm_ffn"}),
        ([["ln"]], {"norm": "ln"}, {"norm": "ln"}),
        (
            [["input_layernorm", "post_attention_layernorm"], ["post_attention_layernorm"]],
            {"norm": ["input_layernorm", None]},
            {"norm": "post_attention_layernorm"},
        ),
    ],
    ids=["of the file that covers most", "by what they are called", "one for both", "one that some layers lack"],
)
def test_norms_are_those_of_a_file_or_guessed(layers, attention, mlp):
    files = factorizations() if "post_attention_layernorm" in layers[0] else ()
    found = norms(stack(*(ATTENTION | dict.fromkeys(layer, GAIN) for layer in layers)), files)
    assert found == {"attention": attention, "mlp": mlp}


def shapes(*names, layers=2):
    return {name.format(n=n): SQUARE for n in range(layers) for name in names}


def test_the_stack_with_most_matrices_comes_first_and_their_common_size_is_the_width():
    found = find_groups(shapes("encoder.h.{n}.a", "decoder.h.{n}.a", "decoder.h.{n}.b.weight", "top.a"))
    assert [(stack.prefix, stack.depth) for stack in found] == [("decoder.h.{layer}", 2), ("encoder.h.{layer}", 2)]
    assert found[0].tensors == {"a": SQUARE, "b": SQUARE}
    sizes = {"q": (8, 4), "up": (16, 4), "o": (4, 8), "norm": (4,)}
    assert (stack(sizes, sizes).width, stack(sizes, sizes).gains) == (4, ["norm"])


@pytest.mark.parametrize(
    ("stored", "kinds"),
    [
        (["h.0.a", "h.2.a"], []),
        (
            shapes("h.{n}.ffn.0.w", "h.{n}.ffn.1.w", "h.{n}.seq.0.w", "h.{n}.seq.2.v"),
            [["ffn.{expert}.w", "seq.0.w", "seq.2.v"]],
        ),
        (["h.0.up", "h.1.experts.0.up", "h.1.experts.1.up"], [["up"], ["experts.{expert}.up"]]),
        *(
            (shapes(name), [])
            for name in ("a{{b}}.{n}.c", "a\n.{n}.c", "ä.{n}.c", f"{'x' * 300}.{{n}}.c", "a {n}.{n}.c")
        ),
    ],
    ids=[
        "a gap",
        "experts stand for one, modules do not",
        "layers of several kinds",
        *(["no name of a registry file"] * 5),
    ],
)
def test_layers_are_found_by_their_numbers(stored, kinds):
    groups = find_groups(dict.fromkeys(stored, SQUARE))
    assert [list(kind) for group in groups for kind in group.kinds] == kinds


def known(**sets):
    plain = {"mlp": {"up": "mlp.fc1", "down": "mlp.fc2"}, "attention": {role: role[0] for role in ATTENTION_ROLES}}
    said = {"name": "one", "classes": [], "layers": "h.{layer}", "normalization": "rms_norm", "branches": plain | sets}
    return msgspec.convert(said, Factorization)


def test_a_pattern_is_found_under_another_module_and_the_names_of_a_file_outrank_it():
    def found(**shapes):
        stored = {name.replace("__", "."): shape for name, shape in shapes.items()}
        return candidates(stored, stored, WIDTH, patterns([known()]))

    ((kind, mlp, _),) = found(ffn__fc1=READER, ffn__fc2=WRITER)
    assert (kind, mlp) == ("mlp", {"up": "ffn.fc1", "down": "ffn.fc2"})
    both = found(**{f"{module}__{name}": SQUARE for module in ("ffn", "mlp") for name in ("fc1", "fc2")})
    assert both[0][1] == {"up": "mlp.fc1", "down": "mlp.fc2"}
    for up, down in (((2 * HIDDEN, WIDTH), WRITER), ((HIDDEN, 9), (9, HIDDEN))):  # they cannot go together
        assert found(mlp__fc1=up, mlp__fc2=down) == []
    # What stands beside a layer makes a pattern only without its number.
    beside = known(mlp={"up": "ffns.{layer}.lin1", "down": "ffns.{layer}.lin2"})
    spread = known(mlp={"up": "lin1.{layer}.a", "down": "lin2.{layer}.a"})
    assert patterns([beside])[0].yaml_set == {"up": "lin1", "down": "lin2"}
    assert [each.kind for each in patterns([spread])] == ["attention"]
