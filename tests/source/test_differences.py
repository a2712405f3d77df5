"""In which settings two models of one class differ, with what each file leaves to its class."""

import json
import shutil

import pytest

from hf_lineage.hub.repo import RepoRef
from hf_lineage.source import differences
from hf_lineage.source.differences import differing_settings
from hf_lineage.source.headers import headers
from tests import gguf_models
from tests.models import edit_json, tiny_gpt2, tiny_llama


def differing(base, candidate):
    return differing_settings(*(headers(RepoRef(f"org/{folder.name}", folder)) for folder in (base, candidate)))


@pytest.fixture
def base(tmp_path):
    return tiny_llama(tmp_path / "base", width=64)


@pytest.fixture
def child(base, tmp_path):
    def write(without=(), **config):
        folder = shutil.copytree(base, tmp_path / "child")
        kept = json.loads((folder / "config.json").read_text())
        left = {key: value for key, value in kept.items() if key not in without}
        (folder / "config.json").write_text(json.dumps(left | config))
        return folder

    return write


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"rope_scaling": {"rope_type": "linear", "factor": 64.0}}, "rope_parameters.factor is 64.0"),
        ({"rope_theta": 5.0}, "rope_theta is 5.0, and 10000.0 in the base"),
        ({"sliding_window": 1}, "sliding_window is 1, and the base has no such setting"),
        ({"rms_norm_eps": 1e-2}, "rms_norm_eps is 0.01, and 1e-06 in the base"),
        ({"made_up": 3}, "made_up is 3, and the base has no such setting"),
        ({"image_token_id": 7}, "image_token_id is 7"),
        ({"pad_token_id": 5}, "pad_token_id is 5"),
        ({"made_up": False}, "made_up is false, and the base has no such setting"),
        ({"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}, 'id2label.0 is "NEGATIVE", and "LABEL_0" in the base'),
    ],
)
def test_a_setting_that_only_the_model_has_counts_unless_its_class_would_say_the_same(base, child, config, said):
    assert any(one.startswith(said) for one in differing(base, child(**config)))


@pytest.mark.parametrize("key", ["rope_parameters", "rms_norm_eps"])
def test_a_setting_that_only_the_base_has_counts_where_the_class_would_say_another(base, child, key):
    edit_json(base / "config.json", rope_parameters={"rope_type": "linear", "factor": 8.0}, rms_norm_eps=1e-4)
    assert differing(base, child(without=(key,)))


def test_what_an_older_version_wrote_is_what_this_one_writes(base, child):
    old = {"rope_theta": 10000.0, "rope_scaling": None, "pretraining_tp": 1, "torch_dtype": "float32", "max_length": 20}
    other = child(without=("rope_parameters", "head_dim", "attention_bias", "mlp_bias", "dtype"), **old)
    assert differing(base, other) == differing(other, base) == ()


@pytest.mark.parametrize("value", [False, None])
def test_what_the_base_leaves_to_its_class_is_held_against_what_the_class_says(value, tmp_path):
    base = tiny_gpt2(tmp_path / "base")
    copy = shutil.copytree(base, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"scale_attn_weights": value}))
    assert differing(base, copy)[0] == f"scale_attn_weights is {json.dumps(value)}, and true in the base"


def test_who_saved_a_model_says_nothing(base, child):
    said = {"use_cache": False, "unsloth_version": "1", "left_out": None, "_name_or_path": "x"}
    assert differing(base, child(**said)) == ()


def test_code_of_the_repository_is_a_setting_that_differs(base, child):
    said = ("auto_map names code of the repository that the base does not have",)
    assert differing(base, child(auto_map={"AutoModel": "code.Model"})) == said


@pytest.mark.parametrize(
    "hostile", [{"num_labels": 10**12}, {"rope_parameters": [3]}, {"attention_types": [[["a"], 10**12]]}]
)
def test_a_configuration_that_its_class_cannot_be_asked_about_is_compared_as_it_is(base, child, hostile):
    key = next(iter(hostile))
    assert any(one.startswith(key) for one in differing(base, child(**hostile)))


def test_without_transformers_what_only_one_has_counts_and_why_is_said(base, child, monkeypatch):
    monkeypatch.setattr(differences, "find_spec", lambda name: None)
    only, why = differing(base, child(made_up=3))
    assert only == "made_up is 3, and the base has no such setting"
    assert "without transformers" in why
    assert "pip install" in why


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ()),
        ({"llama.rope.freq_base": 5.0}, ("rope_theta is 5.0, and 10000.0 in the base",)),
        ({"llama.rope.scaling.factor": 64.0}, ("factor is 64.0, and the base has no such setting",)),
        ({"llama.attention.sliding_window": 0}, ()),
        ({"llama.attention.sliding_window": 1}, ("sliding_window is 1, and the base has no such setting",)),
    ],
)
def test_metadata_of_gguf_that_change_positions_are_held_against_the_base(base, tmp_path, said, expected):
    gguf_models.write(base, tmp_path / "gguf/model.gguf", said=said)
    assert differing(base, tmp_path / "gguf") == expected


def test_a_window_of_no_positions_in_metadata_is_that_of_a_base_that_says_it_has_none(base, tmp_path):
    gguf_models.write(base, tmp_path / "gguf/model.gguf", said={"llama.attention.sliding_window": 0})
    edit_json(base / "config.json", sliding_window=None)
    assert differing(base, tmp_path / "gguf") == ()
    edit_json(base / "config.json", sliding_window=64)
    assert differing(base, tmp_path / "gguf") == ("sliding_window is 0, and 64 in the base",)


def test_metadata_that_leave_out_the_base_of_frequencies_mean_that_of_llama_cpp(base, tmp_path):
    gguf_models.write(base, tmp_path / "gguf/model.gguf")
    edit_json(base / "config.json", rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    assert differing(base, tmp_path / "gguf") == ("rope_theta is 10000.0, and 500000.0 in the base",)


def test_a_class_without_rotary_positions_needs_no_base_of_frequencies(tmp_path):
    base = tiny_gpt2(tmp_path / "base")
    gguf_models.write(base, tmp_path / "gguf/model.gguf", "gpt2")
    assert differing(base, tmp_path / "gguf") == ()
