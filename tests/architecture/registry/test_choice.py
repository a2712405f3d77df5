"""A class that the registry does not list is read as the user says, and the notes say that nobody has proved it."""

import os
import shutil

import pytest

from hf_lineage.architecture.registry.choice import LISTED, Choice, choose
from hf_lineage.architecture.registry.tables import registry_root
from hf_lineage.errors import RegistryError, UnlistedClass

LLAMA, YI = {"architectures": ["LlamaForCausalLM"]}, {"architectures": ["YiForCausalLM"], "auto_map": {}}


@pytest.fixture
def own(tmp_path):
    """A folder with a factorization of one's own for a class that is not listed."""
    _, rest = (registry_root() / "gpt2.yaml").read_text().split("\nlayers:", 1)
    (tmp_path / "mine.yaml").write_text(f"classes: [YiForCausalLM]\nlayers:{rest}")
    return tmp_path


def test_a_listed_class_is_read_as_the_registry_says_whatever_is_chosen(own):
    for asked in (LISTED, Choice("GPT2LMHeadModel"), Choice(registry=own)):
        chosen = choose(LLAMA, asked)
        assert (chosen.architecture, chosen.factorization.name, chosen.notes) == ("LlamaForCausalLM", "llama", ())


def test_without_a_choice_an_unlisted_class_is_refused():
    with pytest.raises(UnlistedClass, match="YiForCausalLM is not in the registry"):
        choose(YI, LISTED)


def test_an_unlisted_class_is_read_as_a_listed_one():
    chosen = choose(YI, Choice("LlamaForCausalLM"))
    assert (chosen.architecture, chosen.factorization.name) == ("YiForCausalLM", "llama")
    assert chosen.notes == (
        "read as LlamaForCausalLM (--as) in place of YiForCausalLM; it is not proved that both compute the same",
    )


@pytest.mark.parametrize("named", [None, [], "YiForCausalLM", [7]])
def test_a_configuration_that_names_no_class_can_be_read_as_one(named):
    chosen = choose({"architectures": named}, Choice("LlamaForCausalLM"))
    assert (chosen.architecture, chosen.factorization.name) == ("LlamaForCausalLM", "llama")
    assert "in place of a class that config.json does not name" in chosen.notes[0]


def test_a_folder_of_ones_own_lists_more_classes(own):
    chosen = choose(YI, Choice(registry=own))
    assert (chosen.architecture, chosen.factorization.name) == ("YiForCausalLM", "mine")
    assert chosen.notes == ("read by mine.yaml of --registry, an unproved factorization",)
    both = choose({"architectures": ["ZiForCausalLM"]}, Choice("YiForCausalLM", own))
    assert (both.factorization.name, len(both.notes)) == ("mine", 2)


def test_what_neither_lists_is_refused(own):
    with pytest.raises(UnlistedClass, match="ZiForCausalLM is not in the registry"):
        choose({"architectures": ["ZiForCausalLM"]}, Choice(registry=own))
    with pytest.raises(UnlistedClass, match="names no class"):
        choose({}, Choice(registry=own))


def test_a_file_that_changes_is_read_anew(own):
    assert choose(YI, Choice(registry=own)).factorization.exchangeable
    shutil.copy(registry_root() / "gpt2.yaml", own / "mine.yaml")
    with pytest.raises(UnlistedClass):
        choose(YI, Choice(registry=own))


def test_a_folder_without_factorizations_is_an_error(tmp_path):
    with pytest.raises(RegistryError, match="holds no factorization"):
        choose(YI, Choice(registry=tmp_path))
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(RegistryError, match="cannot be read"):
        choose(YI, Choice(registry=tmp_path))


def test_a_pipe_among_the_factorizations_is_not_waited_for(own):
    os.mkfifo(own / "pipe.yaml")
    with pytest.raises(RegistryError, match=r"cannot be read: .* is a pipe or a device, not a regular file"):
        choose(YI, Choice(registry=own))
