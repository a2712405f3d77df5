"""Coverage is counted over the classes that the installed transformers itself names."""

import json
from pathlib import Path

import pytest
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hf_lineage.architecture.drafting import class_coverage as module
from hf_lineage.architecture.drafting.class_coverage import coverage
from hf_lineage.errors import OptionError
from tests.invoking import lineage

ROOT = Path(__file__).parents[3]
ENOUGH = 0.95


def test_every_class_of_the_mapping_is_counted_once():
    found = coverage()
    named = {
        name
        for each in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        for name in ([each] if isinstance(each, str) else each)
    }
    assert sorted((*found.listed, *found.unsupported, *found.unknown)) == sorted(named)
    assert found.version == transformers.__version__


def test_nearly_all_causal_language_models_are_covered():
    found = coverage()
    assert len(found.listed) / (len(found.listed) + len(found.unsupported)) >= ENOUGH


def test_every_class_has_been_looked_at():
    found = coverage()
    if found.version not in (ROOT / "constraints.txt").read_text():
        pytest.skip(f"transformers {found.version} is not the one of constraints.txt; new: {', '.join(found.unknown)}")
    assert found.unknown == ()


def test_a_class_of_a_newer_release_is_listed_as_new(tmp_path, monkeypatch):
    folder = tmp_path / "models" / "auto"
    folder.mkdir(parents=True)
    (folder / "modeling_auto.py").write_text(
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict("
        '[("llama", "LlamaForCausalLM"), ("next", ("NextForCausalLM", "NextOther")), ("mamba", "MambaForCausalLM")])'
    )
    monkeypatch.setattr(module, "_installed", lambda: ("9.0", tmp_path))
    found = coverage()
    assert (found.version, found.listed, found.unknown) == (
        "9.0",
        ("LlamaForCausalLM",),
        ("NextForCausalLM", "NextOther"),
    )
    assert found.unsupported.keys() == {"MambaForCausalLM"}


@pytest.mark.parametrize("source", [None, "OTHER = 1", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([(", "\0"])
def test_a_release_that_cannot_be_read_is_a_clear_error(tmp_path, monkeypatch, source):
    monkeypatch.setattr(module, "_installed", lambda: ("9.0", tmp_path))
    if source is not None:
        (tmp_path / "models" / "auto").mkdir(parents=True)
        (tmp_path / "models" / "auto" / "modeling_auto.py").write_text(source)
    with pytest.raises(
        OptionError, match=r"modeling_auto\.py has no MODEL_FOR_CAUSAL_LM_MAPPING_NAMES that can be read"
    ):
        coverage()


def test_without_transformers_there_is_nothing_to_cover(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="class can be counted; pip install transformers"):
        coverage()


def test_the_command_prints_it_for_people_and_for_programs():
    found = coverage()
    assert f"covers {len(found.listed)} of the" in lineage("registry", "--coverage").out
    assert json.loads(lineage("registry", "--coverage", "--format", "json").out)["listed"] == list(found.listed)
