"""Other sizes than the base's: what is left of a model, and which layers the library says come from where."""

import pytest
import torch

from benchmarks.paper.items import ours_reshaped
from benchmarks.paper.parts import reshaping
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.rated import verdict

BASE = HUB / "acme" / "llama-base"
TOKENS = torch.arange(48).view(2, 24)


@pytest.fixture
def model():
    with torch.no_grad():
        yield ours_reshaped.loaded(BASE)


def logits(model):
    return model.eval()(input_ids=TOKENS).logits


@pytest.mark.parametrize("change", [reshaping.more_units, reshaping.twice_as_wide])
def test_widening_keeps_the_function(change, model):
    before = logits(model)
    torch.testing.assert_close(logits(change(model)), before, rtol=0, atol=1e-4)


def test_narrowing_and_pruning_leave_a_model_of_the_sizes_that_are_said(model, tmp_path):
    reshaping.one_after_the_other(reshaping.narrowed(1 / 4), reshaping.fewer_units(0.6))(model).save_pretrained(
        tmp_path
    )
    config = ours_reshaped.loaded(tmp_path).config
    assert (config.hidden_size, config.intermediate_size) == (72, 154)


@pytest.mark.parametrize("name", ["a third of the layers dropped", "a layer repeated in place of another"])
def test_every_layer_is_said_to_come_from_the_one_it_comes_from(name, model, tmp_path):
    shape = next(shape for shape in ours_reshaped.SHAPES if shape.name == name)
    shape.change(model).save_pretrained(tmp_path)
    said = verdict(BASE, tmp_path)
    origins, share = ours_reshaped.origins_of(said)
    assert (said.words, origins) == ("RELATED", shape.origins)
    assert share == pytest.approx(1)


def test_only_one_half_of_a_stack_comes_from_each_parent(model, tmp_path):
    stack = next(shape for shape in ours_reshaped.SHAPES if shape.name.startswith("an independent"))
    stack.change(model).save_pretrained(tmp_path)
    said = verdict(BASE, tmp_path)
    assert said.words in ("RELATED", "RELATED in part")
    assert ours_reshaped.origins_of(said)[0] == {number: number for number in range(6)}
