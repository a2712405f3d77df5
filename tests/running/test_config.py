"""Every setting of a class of transformers, with those that a `config.json` leaves to the class."""

import json

import pytest
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_lineage.running.config import complete
from hf_lineage.source.differences import differing


def test_what_a_file_leaves_out_is_what_its_class_says_in_the_forms_of_this_version():
    settings = complete("llama", {"hidden_size": 64, "num_attention_heads": 4, "made_up": [3]})
    assert (settings["head_dim"], settings["num_key_value_heads"], settings["rms_norm_eps"]) == (16, 4, 1e-06)
    assert settings["made_up"] == [3]
    scaling = {"type": "linear", "factor": 8.0}
    old = complete("llama", {"rope_theta": 5e5, "rope_scaling": scaling, "max_length": 20})
    new = {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}
    assert ({key: old["rope_parameters"][key] for key in new}, "max_length" in old) == (new, False)


def test_parts_are_completed_infinities_read_and_what_cannot_be_read_has_none():
    full = transformers.Gemma3Config().to_dict()
    text = complete("gemma3", {"text_config": {"hidden_size": 64, "made_up": 3}})["text_config"]
    assert (text.keys() - full["text_config"].keys(), text["hidden_size"]) == ({"made_up"}, 64)
    written = json.loads(transformers.Mamba2Config().to_json_string(use_diff=False))
    assert complete("mamba2", written)["time_step_limit"] == [0.0, float("inf")]
    for kind, config in (  # what a class cannot read, or what would fill the memory
        ("no_such_model", {}), ("llama", {"num_labels": 10**12}), ("llama", {"num_attention_heads": 0}),
        ("gpt_neo", {"attention_types": [[["global"], 10**12]]}), ("llama", {"hidden_size": "wide"}),
        ("llama", {"text_config": {"num_hidden_layers": 10**12}}),
    ):  # fmt: skip
        assert complete(kind, config) is None


@pytest.mark.long  # the configurations of all classes
def test_a_full_file_and_one_that_leaves_out_what_is_usual_mean_the_same():
    tried = 0
    for kind, build in CONFIG_MAPPING.items():
        try:
            config = build()
            files = [json.loads(config.to_json_string(use_diff=less)) for less in (False, True)]
        except Exception:
            continue
        full, less = (complete(kind, file) for file in files)
        assert full is not None, kind
        assert not [*differing(full, less), *differing(less, full)], kind
        tried += 1
    assert tried > 700
