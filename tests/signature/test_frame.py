"""Frame: other coordinates to compare products in are another entry of the table."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import RECIPES, Options, compare, extract, load_signature, save_signature
from hf_lineage.errors import OptionError
from hf_lineage.signature.frame import FRAMES, STREAM, Frame
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
