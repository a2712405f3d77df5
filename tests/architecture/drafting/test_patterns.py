"""Known names are found under any module, if their sizes could go together."""

from hf_lineage.architecture.drafting.patterns import candidates, names, patterns
from hf_lineage.architecture.registry.schema import Branches, Factorization, MatrixSet

WIDTH, HIDDEN = 4, 6
LATENT = MatrixSet(
    latent={"attn.q_b": ("attn.q_a", "attn.q_norm")},
    query="attn.q_b",
    key="attn.k",
    value="attn.v",
    output="attn.o",
)


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


def test_what_many_files_say_outranks_what_few_say():
    rare = MatrixSet(up="mlp.fc2", down="mlp.fc1")
    files = known("one"), known("two"), known("three", mlp=rare)
    best = max(found({"x.fc1": (WIDTH, WIDTH), "x.fc2": (WIDTH, WIDTH)}, *files), key=lambda each: each.rank)
    assert best.yaml_set == {"up": "x.fc1", "down": "x.fc2"}


def test_sizes_that_cannot_go_together_are_no_candidate():
    assert found({"mlp.fc1": (2 * HIDDEN, WIDTH), "mlp.fc2": (WIDTH, HIDDEN)}, known()) == []
    assert found({"mlp.fc1": (HIDDEN, 9), "mlp.fc2": (9, HIDDEN)}, known()) == []


def test_everything_that_a_set_says_moves_along():
    shapes = {"x.q_b": (8, 3), "x.q_a": (3, WIDTH), "x.q_norm": (3,)} | {f"x.{name}": (WIDTH, WIDTH) for name in "kvo"}
    (attention,) = found(shapes, known(attention=LATENT))
    assert attention.yaml_set["latent"] == {"x.q_b": ["x.q_a", "x.q_norm"]}
    assert sorted(names(attention.yaml_set)) == ["x.k", "x.o", "x.q_a", "x.q_b", "x.q_norm", "x.v"]


def test_what_stands_beside_a_layer_makes_a_pattern_only_without_its_number():
    beside = known(mlp=MatrixSet(up="ffns.{layer}.lin1", down="ffns.{layer}.lin2"))
    spread = known(mlp=MatrixSet(up="lin1.{layer}.a", down="lin2.{layer}.a"))
    assert patterns([beside])[0].yaml_set == {"up": "lin1", "down": "lin2"}
    assert [each.kind for each in patterns([spread])] == ["attention"]
