"""Factorizations of the user's own, in Python; tests/cli/test_custom_classes.py shows the commands."""

import pytest

from hf_lineage.architecture.registry import choice
from hf_lineage.architecture.registry.lookups import factorizations
from hf_lineage.checking.single.user_registry import prove, suggest, write_draft
from hf_lineage.errors import OptionError, RegistryError
from tests.conformance import tiny_model
from tests.models import tiny_llama


def test_a_draft_is_written_once_and_proved(tmp_path):
    tiny_model("XGLMModel", {}).save_pretrained(tmp_path / "model")
    file = write_draft(suggest(str(tmp_path / "model")), tmp_path / "drafts")
    assert file.name == "xglmmodel.yaml"
    assert prove(tmp_path / "drafts", str(tmp_path / "model")).holds
    assert choice.is_proved(factorizations(tmp_path / "drafts")[0], "XGLMModel")
    with pytest.raises(OptionError, match="exists and may have been edited"):
        write_draft(suggest(str(tmp_path / "model")), tmp_path / "drafts")


def test_a_class_that_is_listed_needs_no_draft(tmp_path):
    tiny_llama(tmp_path / "model")
    with pytest.raises(OptionError, match="there is no draft"):
        write_draft(suggest(str(tmp_path / "model")), tmp_path / "drafts")
    with pytest.raises(RegistryError, match="holds no factorization"):
        prove(tmp_path, str(tmp_path / "model"))
