"""Which library wrote a configuration."""

import pytest

from hf_lineage.architecture.loading.library import of_diffusers


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"_class_name": "UNet2DConditionModel"}, True),
        ({"_class_name": "UNet2DConditionModel", "model_type": "llama"}, False),
        ({"_class_name": "UNet2DConditionModel", "architectures": []}, False),
        ({"model_type": "llama"}, False),
        ({}, False),
    ],
)
def test_what_transformers_is_asked_to_load_is_none_of_diffusers(config, expected):
    assert of_diffusers(config) is expected
