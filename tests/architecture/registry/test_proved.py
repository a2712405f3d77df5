"""Which factorizations were proved on this machine is known from the user's own configuration alone."""

import msgspec
import pytest

from hf_lineage.architecture.registry import proved
from hf_lineage.architecture.registry.lookups import factorizations
from hf_lineage.errors import OptionError

LLAMA = next(one for one in factorizations() if one.name == "llama")


def test_what_was_proved_is_known_afterwards_for_that_class_alone():
    assert not proved.is_proved(LLAMA, "YiForCausalLM")
    proved.record(LLAMA, "YiForCausalLM", "5.23.0")
    assert proved.is_proved(LLAMA, "YiForCausalLM")
    assert not proved.is_proved(LLAMA, "XiForCausalLM")


@pytest.mark.parametrize("change", [{"ignores": ("mlp.*",)}, {"exchangeable": False}, {"name": "other"}])
def test_a_file_that_changed_is_not_proved_any_more(change):
    proved.record(LLAMA, "YiForCausalLM", "5.23.0")
    assert not proved.is_proved(msgspec.structs.replace(LLAMA, **change), "YiForCausalLM")


def test_a_note_that_others_may_write_does_not_count():
    file = proved.record(LLAMA, "YiForCausalLM", "5.23.0")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o666)
    assert not proved.is_proved(LLAMA, "YiForCausalLM")


def test_a_link_is_no_note():
    file = proved.record(LLAMA, "YiForCausalLM", "5.23.0")
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")
    assert not proved.is_proved(LLAMA, "YiForCausalLM")


def test_a_configuration_that_cannot_be_written_is_told(own_files, monkeypatch):
    own_files.mkdir()
    (own_files / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_files / "file"))
    with pytest.raises(OptionError, match="cannot be written"):
        proved.record(LLAMA, "YiForCausalLM", "5.23.0")
