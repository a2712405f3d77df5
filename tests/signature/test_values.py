"""Signatures of one recipe are compared, and the layers of one that can be."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.evidence.measure import same_recipe
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.values import PathSignature, Signature, UnitCodes

ROBUST = RECIPES["robust"]
OTHER = {"gains": False, "cap": False, "ones": False, "probes": 32, "coordinates": 4, "sketch_version": 2, "version": 1}


def path_signature(layers=2, width=6, columns=6, m=6):
    sketch, corner = np.ones((layers, width, columns), np.float32), np.ones((layers, m, m), np.float32)
    return PathSignature(sketch, corner, np.ones(layers), np.ones(layers))


def signature(recipe=ROBUST, **changes):
    paths = changes.pop("paths", {"mlp": path_signature()})
    return replace(Signature("a/b", None, "SomeClass", "some", True, 6, 2, recipe, paths), **changes)


def test_signatures_of_unlike_recipes_are_not_compared():
    for name, value in OTHER.items():
        arrays = {"mlp": path_signature(m=4 if name == "coordinates" else 6)}
        with pytest.raises(SignatureError, match=name):
            same_recipe(signature(), signature(replace(ROBUST, **{name: value}), paths=arrays))


def test_a_zero_or_unfinished_layer_is_not_usable_and_has_no_concentration():
    found = path_signature(layers=3)
    found.corner[0] = 0
    found.norm[1] = np.nan
    assert found.usable.tolist() == [False, False, True]
    assert found.concentration.tolist() == [0.0, 0.0, 1.0]
    assert found.finite.tolist() == [True, False, True]


def codes(count, weight=1.0):
    rows = (np.zeros((count, size), np.uint8) for size in (2, 1, 0))
    return UnitCodes(np.full(count, weight, np.float32), *rows)
