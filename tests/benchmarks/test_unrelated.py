"""The models on which a verdict takes its longest way are what they are said to be, in a narrow stream."""

import importlib

import pytest

from benchmarks import watched
from benchmarks.shapes import Shape
from benchmarks.turning import BASE, write_variants

SHAPE = Shape(1, 64, 512, heads=2, groups=2, head_size=32, vocabulary=512)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_variants(folder, SHAPE)
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("case", "verdict", "frame"),
    [
        ("fine-tune", "VERIFIED inherited", ""),
        ("independent", "UNRELATED", None),
        ("rotated", "VERIFIED inherited", "token"),
        ("rotated, new embedding", "VERIFIED inherited", "procrustes"),
    ],
)
def test_every_case_has_the_verdict_and_the_frame_that_it_is_made_for(models, monkeypatch, case, verdict, frame):
    monkeypatch.setattr(watched, "_watched", dict)
    found = watched.cost(models / BASE.name, models / case)
    assert found.verdict == verdict
    assert frame in (None, found.frame)


@pytest.mark.parametrize(("module", "function"), watched.STEPS.values())
def test_every_step_whose_time_is_taken_is_a_function(module, function):
    assert callable(getattr(importlib.import_module(f"hf_lineage.{module}"), function))
