"""The table of adapter forms: settings are read as peft calls them, and long names cost nothing."""

import time

import pytest

from hf_lineage.checkpoint.lora.forms import form_of, forms, instead
from hf_lineage.checkpoint.tensor import TensorInfo


@pytest.mark.parametrize(
    ("config", "name", "settings"),
    [
        ({"peft_type": "LORA"}, "peft", {"peft_type": "LORA"}),
        ({"lora_parameters": {"rank": 4, "scale": 2.0}}, "mlx-lm", {"peft_type": "lora", "r": 4, "lora_alpha": 2.0}),
        ({"lora_parameters": 7, "fine_tune_type": "full"}, "mlx-lm", {"peft_type": "full"}),
    ],
)
def test_settings_have_the_names_of_peft(config, name, settings):
    form, found = form_of(config)
    assert (form["name"], found) == (name, settings)
    assert all(one.keys() == form.keys() for one in forms()["configured"])


def test_hostile_names_cost_nothing():
    began = time.perf_counter()
    names = [end * 10**5 for end in (".lora_A", ".lora_A (0, ", "lora_embedding_A ", ".")]
    assert [*instead({name: TensorInfo((1,), (name,)) for name in names})]
    assert time.perf_counter() - began < 1
