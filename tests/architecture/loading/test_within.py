"""A model inside another is seen by the names and the settings of its own class."""

import pytest

from hf_lineage.architecture.loading.within import Within
from hf_lineage.errors import NothingToCompare


def test_what_stands_under_the_prefix_is_the_model_and_all_else_is_not():
    stored = {"llm.model.norm.weight": 1, "llm.h.0.up.weight": 2, "vpm.h.0.up.weight": 3, "llmx.h.0.up.weight": 4}
    assert Within(("llm.",)).tensors(stored) == {"model.norm.weight": 1, "h.0.up.weight": 2}


def test_the_place_is_told_and_two_places_are_refused():
    within = Within(("llm.", "model.llm."))
    assert within.place(["llm.norm.weight", "vpm.norm.weight"]) == "llm."
    for stored in (["llm.norm.weight", "model.llm.norm.weight"], ["norm.weight"]):
        with pytest.raises(NothingToCompare):
            within.place(stored)


def test_names_in_layers_are_those_of_the_class_and_others_stay():
    within = Within(("m.",), layers="m.h.{layer}", renamed={"ln1": "input", "mlp.w": "mlp.up"})
    stored = dict.fromkeys(
        ["m.h.0.ln1.weight", "m.h.11.mlp.w", "m.h.0.ln10.weight", "m.ln1.weight", "m.h.x.ln1.weight"]
    )
    renamed = ["h.0.input.weight", "h.11.mlp.up", "h.0.ln10.weight", "ln1.weight", "h.x.ln1.weight"]
    assert list(within.tensors(stored)) == renamed


def test_its_settings_are_its_own_and_how_it_is_stored_is_said_for_all():
    whole = {"text_config": {"hidden_size": 8}, "hidden_size": 4, "quantization_config": {"bits": 4}}
    assert Within(("",), "text_config").config(whole) == {"hidden_size": 8, "quantization_config": {"bits": 4}}
    assert Within().config(whole) == whole
    assert Within(("",), "audio_config").config(whole | {"audio_config": 7}) == {"quantization_config": {"bits": 4}}
