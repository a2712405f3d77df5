"""The recipes by name: naming them needs no NumPy. Other coordinates to compare products in are another entry."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options, compare, extract, load_signature, save_signature
from hf_lineage.errors import OptionError
from hf_lineage.signature.recipe import RECIPES, Recipe
from hf_lineage.signature.recipe_table import FRAMES, PARAMETERS, STREAM, Frame
from tests.models import WIDTH, fine_tuned, tiny_llama

TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)


@pytest.fixture
def turned(monkeypatch):
    """The stream, turned: what lies on the identity stays on it."""
    frame = Frame(lambda width: width, lambda rows: rows @ TURN, ones=False, exchangeable="a turn changes nothing")
    monkeypatch.setitem(FRAMES, "turned", frame)
    return Options(recipe=replace(RECIPES["paper"], frame="turned"))


@pytest.fixture
def halved(monkeypatch):
    """Half of the stream's coordinates."""
    frame = Frame(lambda width: width // 2, lambda rows: rows[:, ::2], ones=True, exchangeable="as those of all")
    monkeypatch.setitem(FRAMES, "halved", frame)
    return Options(recipe=replace(RECIPES["robust"], frame="halved"), paths=("mlp", "value_output", "query_key"))


@pytest.fixture
def models(tmp_path):
    base = tiny_llama(tmp_path / "base")
    return base, fine_tuned(base, tmp_path / "child"), tiny_llama(tmp_path / "other", seed=9)


def scores(options, base, *candidates):
    rows = [compare(str(base), str(candidate), options).rows[0] for candidate in candidates]
    return [row.verdict.evidence["mlp"].comparison.score for row in rows]


def test_an_orthogonal_frame_that_is_added_to_the_table_leaves_every_score_where_it_is(turned, models):
    plain = Options(recipe=RECIPES["paper"])
    assert scores(turned, *models) == pytest.approx(scores(plain, *models), abs=1e-4)


def test_its_products_are_those_of_the_stream_in_other_coordinates(turned, models):
    plain, other = (
        extract(str(models[0]), options).paths["mlp"] for options in (Options(recipe=RECIPES["paper"]), turned)
    )
    np.testing.assert_allclose(other.sketch, TURN.T @ plain.sketch @ TURN, atol=1e-5)


def test_a_frame_of_another_dimension_tells_descendants_from_independent_models(halved, models):
    signature = extract(str(models[0]), halved)
    assert {path: parts.sketch.shape[1] for path, parts in signature.paths.items()} == dict.fromkeys(
        halved.paths, WIDTH // 2
    )
    child, other = scores(halved, *models)
    assert child > 0.9 > 0.5 > other


def test_its_signature_is_stored_and_never_compared_with_one_of_the_stream(halved, models, tmp_path):
    save_signature(extract(str(models[0]), halved), tmp_path / "base.sig")
    assert load_signature(tmp_path / "base.sig").recipe == halved.recipe
    assert halved.recipe.label("mlp") != RECIPES["robust"].label("mlp")
    row = compare(str(tmp_path / "base.sig"), str(models[1]), halved).rows[0]
    assert row.verdict.name == "RELATED"


def test_the_usual_frame_is_no_part_of_the_name_of_a_file():
    assert RECIPES["robust"].frame == STREAM
    assert "residual" not in RECIPES["robust"].label("mlp")


def test_a_frame_that_is_not_in_the_table_is_refused():
    with pytest.raises(OptionError, match=r"the frame must be one of residual, not odd\\n"):
        replace(RECIPES["paper"], frame="odd\n")


def test_the_first_is_the_default():
    assert list(PARAMETERS) == ["robust", "paper"]
    assert [(recipe.name, recipe.version) for recipe in RECIPES.values()] == [("robust", 3), ("paper", 1)]


def test_every_name_is_another_recipe_and_is_the_one_that_it_gives_back():
    assert len(set(RECIPES.values())) == len(PARAMETERS)
    for name, recipe in RECIPES.items():
        assert recipe.option == name


def test_every_parameter_is_one_of_a_recipe():
    fields = Recipe.__dataclass_fields__
    assert all(parameters.keys() <= fields.keys() for parameters in PARAMETERS.values())


def test_the_paper_undoes_nothing_and_robust_everything_that_can_be_undone():
    paper, robust = RECIPES["paper"], RECIPES["robust"]
    assert (paper.gains, paper.means, paper.cap, paper.ones, paper.activity) == (False, False, None, False, False)
    assert (robust.gains, robust.means, robust.cap, robust.ones, robust.activity) == (True, True, 2.0, True, True)
    assert (paper.gates, robust.gates) == (False, True)


def test_the_command_line_names_them_without_numpy():
    code = "import sys, hf_lineage.signature.recipe_table as table; print(*table.PARAMETERS, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["robust", "paper", "False"]
