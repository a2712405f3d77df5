"""The fingerprint of a factorization follows what it says of the tensors, and nothing else."""

from msgspec.structs import replace

from hf_lineage.architecture.registry.digest import fingerprint
from hf_lineage.architecture.registry.lookups import factorizations

FOUND = {found.name: found for found in factorizations()}
LLAMA = FOUND["llama"]


def test_no_two_are_alike():
    assert len(set(map(fingerprint, FOUND.values()))) == len(FOUND)


def test_another_class_or_another_matrix_that_is_left_out_changes_nothing():
    assert fingerprint(replace(LLAMA, classes=("Another",), ignores=("router",), depth="n")) == fingerprint(LLAMA)


def test_whatever_may_change_a_number_changes_it():
    changes = [
        {"stored": "in_out"},
        {"gain": "one_plus"},
        {"exchangeable": False},
        {"heads": "n_head"},
        {"normalization": "layer_norm"},
        {"layers": "h.{layer}"},
        {"branches": FOUND["gemma2"].branches},
    ]
    assert len({fingerprint(replace(LLAMA, **change)) for change in changes} | {fingerprint(LLAMA)}) == len(changes) + 1


def test_it_stays_what_it_is():
    """Written down, since what is published under it is used for as long as it is the same."""
    assert fingerprint(LLAMA)[:16] == "40ff9d8fc3d20475"
