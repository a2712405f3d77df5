"""What holds of a model whose numbers were held against the base's, and in which words."""

from dataclasses import replace

import pytest

from hf_lineage.evidence.strict.outcome import Beyond, Strict

RIGHT = Strict("org/base", {"Q4_K": 20, "Q6_K": 2, "": 9, "F16": 1})
FEW, MANY = Beyond("a", 1000, 3, 5.0, (1, 2)), Beyond("b", 1000, 400, 9.0, (0, 0))


def test_it_holds_where_every_tensor_is_right_and_nothing_else_is_there():
    assert (RIGHT.holds, RIGHT.right, RIGHT.tensors) == (True, 32, 32)


@pytest.mark.parametrize(
    "change",
    [
        {"beyond": (FEW,)},
        {"unbound": {"a": "why"}},
        {"added": ("a",)},
        {"lacking": ("a",)},
        {"settings": ("rope_theta is 1, and 2 in the base",)},
        {"problem": "why"},
        {"stored": {}},
    ],
)
def test_it_does_not_hold_where_anything_is_missing_or_more(change):
    assert not replace(RIGHT, **change).holds


def test_it_is_named_after_what_was_done():
    assert RIGHT.what == "the quantization (Q4_K, Q6_K) of"
    assert replace(RIGHT, stored={"": 3, "BF16": 1}).what == "the rounding to bfloat16 of"
    assert replace(RIGHT, stored={"": 3}).what == "the same numbers as"


def test_few_numbers_of_most_tensors_look_like_an_edit_and_many_like_training():
    assert (FEW.wide, MANY.wide) == (False, True)
    assert replace(RIGHT, beyond=(FEW, FEW, MANY)).is_edit
    assert not replace(RIGHT, beyond=(FEW, MANY, MANY)).is_edit
