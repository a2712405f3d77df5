"""The index on disk: adding is repeatable, a killed run loses one model, writers do not disturb each other."""

import multiprocessing
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.index.key import key_of
from hf_lineage.index.storage import catalogue as module
from hf_lineage.index.storage.catalogue import Catalogue, entry_of
from hf_lineage.signature.sources.store import save_signature
from tests.index.foreign import aborting


@pytest.fixture
def few(signatures):
    return [replace(signatures["acme/llama-base"], model=f"org/model-{number}") for number in range(4)]


def named(catalogue):
    return sorted({entry.model for entry in catalogue.read().entries()})


def test_what_was_added_is_read_back(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    for signature in few:
        (entry,) = catalogue.add(signature)
        assert entry == entry_of(signature, "mlp")
        assert np.array_equal(catalogue.signature(entry).paths["mlp"].corner, signature.paths["mlp"].corner)
    known = catalogue.read()
    assert named(catalogue) == [signature.model for signature in few]
    assert len(known) == 4
    assert all(np.array_equal(key, key_of(few[0].paths["mlp"])) for key in known.keys)


def test_an_index_without_models_is_empty(tmp_path):
    known = Catalogue(tmp_path / "none").read()
    assert (known.entries(), known.keys.shape) == ([], (0, 256))


def test_adding_again_changes_nothing(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    catalogue.add(few[0])
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    catalogue.add(few[0])
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


def test_a_model_is_known_by_its_commit_path_and_recipe(few, tmp_path):
    catalogue, at_commit = Catalogue(tmp_path), replace(few[0], commit="c0ffee")
    (entry,) = catalogue.add(at_commit)
    assert catalogue.commits({"mlp": entry.recipe}) == {entry.model: {"c0ffee"}}
    assert catalogue.own_commits({"mlp": entry.recipe}) == {entry.model: {"c0ffee"}}
    assert catalogue.commits({"mlp": entry.recipe, "value_output": entry.recipe}) == {}
    catalogue.add(few[0])
    assert len(catalogue.read()) == 2


def test_a_model_whose_signature_is_gone_is_passed_over_and_does_not_count_as_added(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    (entry,) = catalogue.add(replace(few[0], commit="c0ffee"))
    next((tmp_path / "signatures").rglob("*.safetensors")).unlink()
    assert catalogue.own_commits({"mlp": entry.recipe}) == {}
    assert catalogue.tested(entry) is None
    assert "1 models of the index could not be read and were left out; the first:" in catalogue.passed.notes[0]
    with pytest.raises(SignatureError):
        catalogue.signature(entry)
    catalogue.add(replace(few[0], commit="c0ffee"))
    assert catalogue.tested(entry) is not None


KILLED = """
import os, signal, sys
from hf_lineage.index.storage import catalogue
from hf_lineage.signature.sources.store import load_signature
write, written = catalogue.write_atomically, []

def once(*arguments):
    if written:
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(write(*arguments))

catalogue.write_atomically = once
catalogue.Catalogue(catalogue.Path(sys.argv[1])).add(load_signature(sys.argv[2]))
"""


def test_who_is_killed_between_two_files_leaves_no_row_without_a_signature(few, tmp_path):
    save_signature(few[0], tmp_path / "signature")
    command = [sys.executable, "-c", KILLED, tmp_path / "index", tmp_path / "signature"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    catalogue = Catalogue(tmp_path / "index")
    assert all(catalogue.tested(entry) for entry in catalogue.read().entries())
    assert len(list((tmp_path / "index").rglob("*.*"))) == 1
    (entry,) = catalogue.add(few[0])
    assert catalogue.tested(entry) is not None
    assert catalogue.passed.notes == []


def test_many_files_are_joined_and_hold_the_same(few, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MANY", 2)
    catalogue = Catalogue(tmp_path)
    for signature in few:
        catalogue.add(signature)
    assert named(catalogue) == [signature.model for signature in few]
    assert len(list((tmp_path / "keys").iterdir())) < 3
    content = {file.name for file in (tmp_path / "keys").iterdir()}
    catalogue.compact()
    catalogue.compact()
    assert named(catalogue) == [signature.model for signature in few]
    assert len({file.name for file in (tmp_path / "keys").iterdir()}) == 1 <= len(content)


def test_indexes_joined_in_any_order_are_equal_to_the_byte(few, tmp_path):
    one, other = Catalogue(tmp_path / "one"), Catalogue(tmp_path / "other")
    for signature in few:
        one.add(signature)
    for signature in reversed(few):
        other.add(signature)
    one.compact()
    other.compact()
    contents = [{file.name: file.read_bytes() for file in (each.folder / "keys").iterdir()} for each in (one, other)]
    assert contents[0] == contents[1]


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


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000, b"PAR1" + bytes(64) + b"PAR1", aborting()])
def test_a_file_of_keys_that_is_damaged_is_passed_over_with_one_note(few, tmp_path, content):
    catalogue = Catalogue(tmp_path)
    catalogue.add(few[0])
    (tmp_path / "keys" / "bad.parquet").write_bytes(content)
    for _ in range(2):
        assert named(catalogue) == ["org/model-0"]
    (note,) = catalogue.passed.notes
    assert note.startswith("1 files of the index could not be read and were left out; the first: ")
    assert "bad.parquet is not a file of an index: " in note
    assert note.endswith("remove it and add its models again")


def test_joining_keeps_what_cannot_be_read(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    for signature in few:
        catalogue.add(signature)
    (tmp_path / "keys" / "bad.parquet").write_bytes(aborting())
    catalogue.compact()
    assert len(list((tmp_path / "keys").iterdir())) == 2
    assert (tmp_path / "keys" / "bad.parquet").read_bytes() == aborting()
    assert named(catalogue) == [signature.model for signature in few]


def test_an_index_of_more_rows_than_are_read_is_read_so_far(few, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    catalogue = Catalogue(tmp_path)
    for signature in few:
        catalogue.add(signature)
    assert len(catalogue.read()) == 2
    assert "is left out: an index may have 2 rows" in catalogue.passed.notes[0]


def test_a_table_with_other_columns_is_passed_over(tmp_path):
    (tmp_path / "keys").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"model": ["org/x"]}), tmp_path / "keys" / "bad.parquet")
    catalogue = Catalogue(tmp_path)
    assert len(catalogue.read()) == 0
    assert "it has the columns model" in catalogue.passed.notes[0]


def test_a_name_that_could_not_be_read_back_is_not_written(few, tmp_path):
    """One such row would make every model unreadable that is joined to it."""
    with pytest.raises(SignatureError, match="cannot be in an index: a model is longer than 4096 bytes"):
        Catalogue(tmp_path).add(replace(few[0], model="./" + "a" * 5000))
    assert not list(tmp_path.iterdir())


def test_a_signature_under_the_name_of_another_model_is_refused(few, tmp_path):
    catalogue = Catalogue(tmp_path)
    (one,), (other,) = catalogue.add(few[0]), catalogue.add(few[1])
    catalogue.signature_path(one).write_bytes(catalogue.signature_path(other).read_bytes())
    with pytest.raises(SignatureError, match="is not the signature of org/model-0"):
        catalogue.signature(one)


def test_without_pyarrow_the_error_says_what_to_install(few, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"hf-lineage\[index\] @ git"):
        Catalogue(tmp_path).add(few[0])
