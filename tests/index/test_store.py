"""The index on disk and on the Hub: a killed run loses one model, writers disturb nobody, the foreign is checked."""

import multiprocessing
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.errors import LineageError, OptionError, RepositoryError, SignatureError
from hf_lineage.hub import commits
from hf_lineage.index import store
from hf_lineage.index.shard import key_of
from hf_lineage.index.store import Catalogue, entry_of, signature_file
from hf_lineage.signature.store import save_signature

INDEX = "wren/index"


@pytest.fixture
def few(signatures):
    return [replace(signatures["acme/llama-base"], model=f"org/model-{number}") for number in range(4)]


def adding(folder, signatures):
    catalogue = Catalogue(folder)
    for signature in signatures:
        catalogue.add(signature)
    return catalogue


@pytest.fixture
def filled(few, tmp_path):
    return adding(tmp_path, few)


def named(catalogue):
    return sorted({entry.model for entry in catalogue.entries()})


def content(folder):
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.*")}


def test_what_was_added_is_read_back_and_a_signature_of_another_model_is_refused(few, filled):
    assert sorted(filled.entries()) == [entry_of(signature, "mlp") for signature in few]
    corner, key = few[0].paths["mlp"].corner, key_of(few[0].paths["mlp"])
    assert all(np.array_equal(filled.signature(entry).paths["mlp"].corner, corner) for entry in filled.entries())
    assert all(np.array_equal(shard.keys(), key[None]) for shard in filled.shards())
    one, other, *_ = sorted(filled.entries())
    filled.signature_path(one).write_bytes(filled.signature_path(other).read_bytes())
    with pytest.raises(SignatureError, match="is not the signature of org/model-0"):
        filled.signature(one)


def test_a_model_whose_signature_is_gone_is_passed_over_and_does_not_count_as_added(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    (entry,) = catalogue.add(replace(few[0], commit="c0ffee"))
    next((tmp_path / "signatures").rglob("*.safetensors")).unlink()
    assert catalogue.commits({"mlp": entry.recipe}) == {}
    assert catalogue.find_signature(entry) is None
    assert "1 models of the index could not be read and were left out; the first:" in catalogue.notes[0]
    with pytest.raises(SignatureError):
        catalogue.signature(entry)
    catalogue.add(replace(few[0], commit="c0ffee"))
    assert catalogue.find_signature(entry) is not None


KILLED = """
import os, signal, sys
from hf_lineage.index import shard, store as catalogue
from hf_lineage.signature.store import load_signature
write, left = shard.write_atomically, [int(sys.argv[3])]

def some(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    write(*arguments)

catalogue.write_atomically = shard.write_atomically = some
catalogue.Catalogue(catalogue.Path(sys.argv[1])).add(load_signature(sys.argv[2]))
"""


@pytest.mark.parametrize("written", [1, 2])
def test_who_is_killed_between_two_files_leaves_no_key_without_its_model(few, tmp_path, written):
    save_signature(few[0], tmp_path / "signature")
    command = [sys.executable, "-c", KILLED, tmp_path / "index", tmp_path / "signature", str(written)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    catalogue = Catalogue(tmp_path / "index")
    assert (catalogue.entries(), len(content(tmp_path / "index"))) == ([], written)
    (entry,) = catalogue.add(few[0])
    assert catalogue.find_signature(entry) is not None
    assert catalogue.notes == []


def test_many_files_are_joined_and_hold_the_same_and_indexes_in_any_order_are_equal(few, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MANY", 2)
    catalogue = adding(tmp_path, few)
    assert named(catalogue) == [signature.model for signature in few]
    assert len(catalogue.shards()) < 3
    catalogue.compact()
    catalogue.compact()
    assert named(catalogue) == [signature.model for signature in few]
    assert len(list((tmp_path / "keys").iterdir())) == 2
    for name, order in (("one", few), ("other", reversed(few))):
        adding(tmp_path / name, order).compact()
    assert content(tmp_path / "one") == content(tmp_path / "other")


def write(folder, signature, numbers):
    for number in numbers:
        Catalogue(folder).add(replace(signature, model=f"org/model-{number}"))
        if number % 5 == 0:
            Catalogue(folder).compact()


def test_two_writers_lose_nothing(few, tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(tmp_path, few[0], range(start, start + 10))) for start in (0, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert {writer.exitcode for writer in writers} == {0}
    assert named(Catalogue(tmp_path)) == sorted(f"org/model-{number}" for number in range(20))


def test_a_damaged_shard_or_one_of_an_earlier_form_is_an_error_and_nothing_is_lost(filled, tmp_path):
    (tmp_path / "keys" / "bad.safetensors").write_bytes(b"x" * 1000)
    before = content(tmp_path)
    for read in (filled.entries, filled.compact):
        with pytest.raises(SignatureError, match=r"bad.safetensors is not a file of an index: .*; remove it and add"):
            read()
    assert content(tmp_path) == before
    (tmp_path / "keys" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(SignatureError, match=r"a.parquet is of an earlier hf-lineage; remove it and add the models"):
        filled.entries()


def test_a_name_that_could_not_be_read_back_is_not_written(few, tmp_path):
    for name in ("./" + "a" * 5000, "./a\nb", "./\udc80", ""):
        with pytest.raises(SignatureError, match="this model cannot be in an index: the name"):
            Catalogue(tmp_path).add(replace(few[0], model=name))
        assert not list(tmp_path.iterdir())


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
    opened = store.open_catalogue(INDEX)
    assert opened.source == f"{INDEX}@{online.commit(INDEX, 'main')}"
    assert [entry.model for entry in sorted(opened.entries())] == ["./gpt2", "acme/llama-base"]
    assert not [one for one in online.requests if "signatures" in one or "README" in one]
    assert all(opened.find_signature(entry) for entry in opened.entries())
    online.forget()
    assert store.open_catalogue(opened.source).entries() == opened.entries()
    assert not [one for one in online.requests if "resolve" in one]


def test_what_is_not_there_or_no_index_is_one_line(folder, online, tmp_path):
    for name in ("nowhere", "a b/c", "../x/y", "wren/index/keys"):
        with pytest.raises(OptionError, match="does not exist, and no index on the Hub has this name;"):
            store.open_catalogue(name)
    with pytest.raises(RepositoryError, match="no/where is not on the Hub"):
        store.open_catalogue("no/where")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("")
    online.publish("wren/other", tmp_path / "other")
    with pytest.raises(RepositoryError, match=r"wren/other holds no index: it has no keys/\*\.safetensors"):
        store.open_catalogue("wren/other")


def test_one_that_is_too_large_is_refused_unfetched_and_a_damaged_one_is_one_line(folder, online, monkeypatch):
    for bound in ("MOST_FILES", "LARGEST_INDEX"):
        with monkeypatch.context() as patched:
            patched.setattr(store, bound, 1)
            with pytest.raises(
                RepositoryError, match=r"wren/index has 4 files of keys of \d+ bytes, and hf-lineage reads"
            ):
                store.open_catalogue(INDEX)
    assert not [one for one in online.requests if "resolve" in one]
    (folder / "keys" / "bad.safetensors").write_bytes(b"x" * 100)
    commits.tree.cache_clear()
    with pytest.raises(SignatureError, match=r"bad.safetensors is not a file of an index: the header claims"):
        store.open_catalogue(INDEX).entries()


def test_a_signature_that_is_too_large_gone_or_of_another_model_is_refused(folder, monkeypatch):
    opened = store.open_catalogue(INDEX)
    one, other = sorted(opened.entries())
    with monkeypatch.context() as patched:
        patched.setattr(store, "LARGEST_SIGNATURE", 99)
        with pytest.raises(RepositoryError, match="bytes, and at most 99 are read"):
            opened.signature(one)
    shutil.copy(folder / signature_file(other), folder / signature_file(one))
    with pytest.raises(LineageError):
        opened.signature(one)
    (folder / signature_file(other)).unlink()
    with pytest.raises(RepositoryError, match=r"wren/index has no signatures/.*\.safetensors at commit"):
        opened.signature(other)
