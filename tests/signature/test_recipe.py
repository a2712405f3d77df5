"""A recipe draws the same signs and coordinates for ever, and what changes a number changes what it is filed under."""

import hashlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hf_lineage import Options, Report, check, compare
from hf_lineage.errors import OptionError
from hf_lineage.signature.matrix_product import Probes
from hf_lineage.signature.recipe import RECIPES, Spec, random_stream

ROBUST = RECIPES["robust"]
OTHER = {
    "gains": False, "means": False, "cap": False, "ones": False,
    "gates": False, "version": 7, "probes": 32, "coordinates": 64, "sketch_version": 2,
}  # fmt: skip
"""For every parameter another value than that of the robust recipe."""


def digest(array, kind):
    return hashlib.sha256(np.ascontiguousarray(array, kind)).hexdigest()[:16]


def test_what_is_drawn_is_the_same_on_every_platform_for_ever():
    """A change here makes every published signature one that cannot be compared: it takes a new SKETCH_VERSION."""
    assert random_stream("a purpose").random_raw(2).tolist() == [16838637326425868428, 17994505988760347999]
    assert ROBUST.test_coordinates(4096)[:6].tolist() == [20, 105, 112, 140, 150, 161]
    assert digest(ROBUST.test_coordinates(4096), "<i8") == "210c8af51fe1d145"
    assert digest(np.sign(ROBUST.probe_matrix(4096)), "<f4") == "42ece1f440ad19bd"
    assert digest(Probes.draw(ROBUST, 128).signs, "<f4") == "d186b5f9cba5602f"
    for width, most, count in ((4096, None, 128), (96, None, 96), (4096, 16, 16), (2, None, 2)):
        chosen = ROBUST.test_coordinates(width, most).tolist()
        assert chosen == sorted({*chosen} & {*range(width)})
        assert len(chosen) == count
    for width in (65, 96, 1000):  # random signs over the root of their number
        probes = ROBUST.probe_matrix(width)
        assert probes.shape == (width, 64) == (width, ROBUST.columns(width))
        assert set(np.abs(probes).ravel().tolist()) == {0.125}
        assert abs(np.sign(probes).mean()) < 4 / np.sqrt(probes.size)


def test_every_parameter_changes_the_label_and_the_newest_recipe_goes_by_its_name():
    assert OTHER.keys() == {field.name for field in fields(ROBUST)} - {"name"}
    labels = {replace(ROBUST, **{name: value}).label("mlp") for name, value in OTHER.items()}
    assert len(labels | {ROBUST.label("mlp")}) == len(OTHER) + 1
    assert ROBUST.label("mlp", "x") != ROBUST.label("mlp", "y") != ROBUST.label("mlp")
    assert {option: recipe.option for option, recipe in RECIPES.items()} == {option: option for option in RECIPES}
    assert next(iter(RECIPES)) == "robust"
    assert replace(ROBUST, probes=None, coordinates=8).option == "robust"
    assert replace(ROBUST, name="mine").option == "mine"


UNKNOWN = "paths must be all, usual, or some of mlp, mlp_gate, value_output, query_key, each once, not "
REFUSED = {
    "probes must be between 1 and 65536, not 0; for more use probes=exact": lambda: replace(ROBUST, probes=0),
    "probes must be between 1 and 65536, not 65537": lambda: replace(ROBUST, probes=65537),
    "coordinates must be between 2 and 4096, not 1": lambda: replace(ROBUST, coordinates=1),
    "coordinates must be between 2 and 4096, not 4097": lambda: replace(ROBUST, coordinates=4097),
    UNKNOWN: lambda: Spec(paths=()),
    f"{UNKNOWN}mlp, mlp": lambda: Spec(paths=("mlp", "mlp")),
    f"{UNKNOWN}mlp, nose": lambda: Spec(paths=("mlp", "nose")),
}


@pytest.mark.parametrize("message", REFUSED)
def test_sizes_out_of_range_and_paths_that_are_unknown_or_named_twice_are_refused(message):
    with pytest.raises(OptionError) as error:
        REFUSED[message]()
    assert str(error.value).startswith(message)


def typed() -> None:
    """Never called: `make lint` holds what a type checker knows against it, where an error that is missing is one."""
    options = Options(local_hub="examples/hub", registry=Path("x"), paths="mlp", nulls=["a", Path("b")])
    report: Report = check("a/b", Path("c"), options)
    report = compare(Path("a"), "b")
    rows: dict[str, Any] = check("a/b", ["c/d"]).to_dict()
    hub: Path | None = options.local_hub
    paths: tuple[str, ...] = options.paths
    del report, rows, hub, paths
    Options(local_hub=7)  # type: ignore[arg-type]
    Options(paths=7)  # type: ignore[arg-type]
    Options(alpha="x")  # type: ignore[arg-type]
    Options(nose=1)  # type: ignore[call-arg]
    check(7)  # type: ignore[arg-type]
