"""The index on disk: adding is repeatable, a killed run loses one model, writers do not disturb each other."""

import multiprocessing
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.index import store as module
from hf_lineage.index.shard import key_of
from hf_lineage.index.store import Catalogue, entry_of
from hf_lineage.signature.store import save_signature


@pytest.fixture
def few(signatures):
    return [replace(signatures["acme/llama-base"], model=f"org/model-{number}") for number in range(4)]


def named(catalogue):
    return sorted({entry.model for entry in catalogue.entries()})


def content(folder):
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.*")}


def test_what_was_added_is_read_back(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    for signature in few:
        (entry,) = catalogue.add(signature)
        assert entry == entry_of(signature, "mlp")
        assert np.array_equal(catalogue.signature(entry).paths["mlp"].corner, signature.paths["mlp"].corner)
    assert named(catalogue) == [signature.model for signature in few]
    key = key_of(few[0].paths["mlp"])
    assert all(np.array_equal(shard.keys(), key[None]) for shard in catalogue.shards())


def test_a_model_whose_signature_is_gone_is_passed_over_and_does_not_count_as_added(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    (entry,) = catalogue.add(replace(few[0], commit="c0ffee"))
    next((tmp_path / "signatures").rglob("*.safetensors")).unlink()
    assert catalogue.commits({"mlp": entry.recipe}) == {}
    assert catalogue.tested(entry) is None
    assert "1 models of the index could not be read and were left out; the first:" in catalogue.notes[0]
    with pytest.raises(SignatureError):
        catalogue.signature(entry)
    catalogue.add(replace(few[0], commit="c0ffee"))
    assert catalogue.tested(entry) is not None


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
def test_who_is_killed_between_two_files_leaves_no_key_without_its_model_and_signature(few, tmp_path, written):
    save_signature(few[0], tmp_path / "signature")
    command = [sys.executable, "-c", KILLED, tmp_path / "index", tmp_path / "signature", str(written)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    catalogue = Catalogue(tmp_path / "index")
    assert (catalogue.entries(), len(content(tmp_path / "index"))) == ([], written)
    (entry,) = catalogue.add(few[0])
    assert catalogue.tested(entry) is not None
    assert catalogue.notes == []


def test_many_files_are_joined_and_hold_the_same(few, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MANY", 2)
    catalogue = Catalogue(tmp_path)
    for signature in few:
        catalogue.add(signature)
    assert named(catalogue) == [signature.model for signature in few]
    assert len(catalogue.shards()) < 3
    catalogue.compact()
    catalogue.compact()
    assert named(catalogue) == [signature.model for signature in few]
    assert len(list((tmp_path / "keys").iterdir())) == 2


def test_indexes_joined_in_any_order_are_equal_to_the_byte(few, tmp_path):
    one, other = Catalogue(tmp_path / "one"), Catalogue(tmp_path / "other")
    for signature in few:
        one.add(signature)
    for signature in reversed(few):
        other.add(signature)
    one.compact()
    other.compact()
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
    assert sorted(named(Catalogue(tmp_path))) == sorted(f"org/model-{number}" for number in range(20))


def test_a_damaged_shard_is_an_error_and_nothing_is_joined_to_it_or_lost(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    for signature in few:
        catalogue.add(signature)
    (tmp_path / "keys" / "bad.safetensors").write_bytes(b"x" * 1000)
    before = content(tmp_path)
    for read in (catalogue.entries, catalogue.compact):
        with pytest.raises(SignatureError, match=r"bad.safetensors is not a file of an index: .*; remove it and add"):
            read()
    assert content(tmp_path) == before


def test_an_index_in_parquet_is_told_to_be_of_an_earlier_form(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(SignatureError, match=r"a.parquet is of an earlier hf-lineage; remove it and add the models"):
        Catalogue(tmp_path).entries()


@pytest.mark.parametrize("name", ["./" + "a" * 5000, "./a\nb", "./\udc80", ""])
def test_a_name_that_could_not_be_read_back_is_not_written(few, tmp_path, name):
    with pytest.raises(SignatureError, match="this model cannot be in an index: the name"):
        Catalogue(tmp_path).add(replace(few[0], model=name))
    assert not list(tmp_path.iterdir())


def test_a_signature_under_the_name_of_another_model_is_refused(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    (one,), (other,) = catalogue.add(few[0]), catalogue.add(few[1])
    catalogue.signature_path(one).write_bytes(catalogue.signature_path(other).read_bytes())
    with pytest.raises(SignatureError, match="is not the signature of org/model-0"):
        catalogue.signature(one)
