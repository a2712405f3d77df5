"""Matrix sets: which sets a layer has, under which names, and what stands beside them."""

import msgspec
import pytest

from hf_lineage.architecture.layers import Layer, Stack
from hf_lineage.architecture.matrix_sets import find_sets
from hf_lineage.architecture.schema import MatrixSet
from hf_lineage.errors import CheckpointError

MLP = {"up": "up", "down": "down"}


def sets(*said, stack="", names=("up", "down")):
    """The sets that a layer of these tensors has, of sets as a registry file says them; None for one it may lack."""
    declared = tuple(None if each is None else msgspec.convert(each, MatrixSet) for each in said)
    here = Layer(Stack(stack, 0), 0, "h.0", "", {f"h.0.{name}": (4, 4) for name in names})
    return find_sets(declared[0] if len(declared) == 1 and declared[0] else declared, here)


def stored(found):
    return {role: slot.tensor for role, slot in found.slots.items()}


def test_a_set_is_of_layers_that_have_what_it_asks_for_and_lack_what_it_excludes():
    special = MLP | {"where": "marker", "unless": ["shortcut", "other"]}
    assert sets(special, None) == ()
    assert len(sets(special, None, names=["up", "down", "marker"])) == 1
    assert sets(special, None, names=["up", "down", "marker", "other"]) == ()


@pytest.mark.parametrize("kind", ["norm", "output_norm", "inner_norm"])
def test_of_several_names_the_first_on_disk_counts_and_null_lets_it_be_absent(kind):
    both = MLP | {kind: ["a", "b", None]}
    assert [getattr(sets(both, names=["up", "down", *more])[0], kind) for more in (["b", "a"], ["b"], [])] == [
        "h.0.a",
        "h.0.b",
        None,
    ]
    with pytest.raises(CheckpointError, match=r"h\.0 has no norm a or b"):
        sets(MLP | {kind: ["a", "b"]})


@pytest.mark.parametrize(
    ("matrix", "bias"), [("up.weight", "up.bias"), ("up", "up_bias"), ("up", "up.bias"), ("up.weight", "up.beta")]
)
def test_a_bias_stands_beside_its_matrix_under_one_of_the_usual_names(matrix, bias):
    (found,) = sets(MLP, names=[matrix, "down", bias, "other.bias"])
    assert found.biases == {f"h.0.{matrix}": f"h.0.{bias}"}


def test_a_running_variance_is_that_of_a_norm_between_a_latent_and_its_matrix_too():
    latent = {"query": "q", "key": "k", "value": "v", "output": "o", "latent": {"k": ["down", "ln"]}}
    names = ["q", "k", "v", "o", "down", "ln.weight", "ln.running_var"]
    (found,) = sets(latent, names=names)
    assert found.variances == {"h.0.ln.weight": "h.0.ln.running_var"}
    assert found.slots["key"].tensors == ("h.0.k", "h.0.down", "h.0.ln.weight")


def test_a_set_names_what_some_of_its_roles_and_its_norms_are_stored_in_each_once():
    packed = {"down": "down", "packed": {"both": ["gate", "up"]}, "norm": "ln", "inner_norm": "ln"}
    (found,) = sets(packed, names=["both", "down", "ln.weight", "ln.running_var"])
    norm = ("h.0.ln.weight", "h.0.ln.running_var")
    assert found.read_by("gate", "up") == ("h.0.both", *norm)
    assert found.read_by("down") == ("h.0.down", *norm)
    assert set(found.tensors) == {"h.0.both", "h.0.down", *norm}
    assert len(found.tensors) == 4
