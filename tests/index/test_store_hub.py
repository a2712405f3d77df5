"""An index on the Hub, as `hf upload` puts it there: it is read by name and commit, and foreign whatever it holds."""

import shutil
from dataclasses import replace

import pytest

from hf_lineage.errors import LineageError, OptionError, RepositoryError, SignatureError
from hf_lineage.hub import commits
from hf_lineage.index import store
from hf_lineage.index import store as module
from hf_lineage.index.store import Catalogue, signature_file

INDEX = "wren/index"


@pytest.fixture
def folder(online, signatures, tmp_path):
    """The folder of an index on the Hub, with a model of the Hub and a folder."""
    made = Catalogue(tmp_path / "repo")
    made.add(replace(signatures["acme/llama-base"], commit="c" * 40))
    made.add(replace(signatures["acme/gpt2-base"], model="./gpt2"))
    (made.folder / "README.md").write_text("---\n")
    online.publish(INDEX, made.folder)
    commits.tree.cache_clear()
    return made.folder


def test_its_keys_are_fetched_and_signatures_when_they_are_needed(folder, online):
    opened = store.opened(INDEX)
    assert opened.source == f"{INDEX}@{online.commit(INDEX, 'main')}"
    assert [entry.model for entry in sorted(opened.entries())] == ["./gpt2", "acme/llama-base"]
    assert not [one for one in online.requests if "signatures" in one or "README" in one]
    assert all(opened.tested(entry) for entry in opened.entries())


def test_at_a_commit_it_is_there_without_the_network_once_it_was_read(folder, online, monkeypatch):
    at = f"{INDEX}@{online.commit(INDEX, 'main')}"
    before = store.opened(at).entries()
    online.forget()
    assert store.opened(at).entries() == before
    assert not [one for one in online.requests if "resolve" in one]


@pytest.mark.parametrize("name", ["nowhere", "a b/c", "../x/y", "wren/index/keys"])
def test_what_is_neither_is_one_line(name):
    with pytest.raises(OptionError, match="does not exist, and no index on the Hub has this name;"):
        store.opened(name)


def test_what_is_not_there_or_no_index_is_one_line(folder, online, tmp_path):
    with pytest.raises(RepositoryError, match="no/where is not on the Hub"):
        store.opened("no/where")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("")
    online.publish("wren/other", tmp_path / "other")
    with pytest.raises(RepositoryError, match=r"wren/other holds no index: it has no keys/\*\.safetensors"):
        store.opened("wren/other")


@pytest.mark.parametrize("bound", ["MOST_FILES", "LARGEST_INDEX"])
def test_one_that_is_too_large_is_refused_before_any_file_is_fetched(folder, online, monkeypatch, bound):
    monkeypatch.setattr(store, bound, 1)
    with pytest.raises(RepositoryError, match=r"wren/index has 4 files of keys of \d+ bytes, and hf-lineage reads"):
        store.opened(INDEX)
    assert not [one for one in online.requests if "resolve" in one]


def test_a_damaged_file_is_one_line(folder):
    (folder / "keys" / "bad.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(SignatureError, match=r"bad.safetensors is not a file of an index: the header claims"):
        store.opened(INDEX).entries()


def test_a_signature_that_is_too_large_gone_or_of_another_model_is_refused(folder, monkeypatch):
    opened = store.opened(INDEX)
    one, other = sorted(opened.entries())
    with monkeypatch.context() as patched:
        patched.setattr(module, "LARGEST_SIGNATURE", 99)
        with pytest.raises(RepositoryError, match="bytes, and at most 99 are read"):
            opened.signature(one)
    shutil.copy(folder / signature_file(other), folder / signature_file(one))
    with pytest.raises(LineageError):
        opened.signature(one)
    (folder / signature_file(other)).unlink()
    with pytest.raises(RepositoryError, match=r"wren/index has no signatures/.*\.safetensors at commit"):
        opened.signature(other)
