"""What config.json says about a model is a plain value, made without reading anything else."""

import pytest

from hf_lineage.architecture.loading import Within
from hf_lineage.architecture.registry import lookup
from hf_lineage.checking.source.description import Described, holds_others, named_class, whole_config
from hf_lineage.hub import resolve
from tests.models import tiny_llama


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, False),
        ({"vision_config": {}}, True),
        ({"quantization_config": {}}, False),
        ({"vision_config": 7}, False),
        ({"vision": {}}, False),
    ],
)
def test_a_configuration_inside_another_one_says_that_there_are_several_parts(config, expected):
    assert holds_others(config) is expected


@pytest.mark.parametrize(("named", "expected"), [(["A", "B"], "A"), ([7, "B"], "B"), ("A", None), (None, None)])
def test_the_first_class_that_is_named_counts(named, expected):
    assert named_class({"architectures": named}) == expected


def test_a_part_still_knows_the_whole_configuration(tmp_path):
    repo = resolve(str(tiny_llama(tmp_path / "llama")))
    name, factorization = lookup(repo.config())
    model = Described(repo, {"hidden_size": 8}, name, factorization)
    assert whole_config(model) == {"hidden_size": 8}
    part = Described(repo, {"hidden_size": 8}, name, factorization, within=Within())
    assert whole_config(part) == repo.config()
