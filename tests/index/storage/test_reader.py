"""Shards are read in a process of its own: what ends it, holds it up or fills it is one error, and the next is read."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.index.storage import reader as module
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.decoding import GROUP, HEAD
from hf_lineage.index.storage.known import entries_of
from hf_lineage.index.storage.reader import OWN, RECEIVED, Reader, checked
from tests.index.foreign import ENTRY, aborting, keys, three


@pytest.fixture(scope="module")
def reader():
    with Reader() as running:
        yield running


@pytest.fixture
def put(tmp_path):
    def written(content):
        (tmp_path / "shard.parquet").write_bytes(content)
        return tmp_path / "shard.parquet"

    return written


def test_rows_come_back_as_they_were_written(reader, put):
    (rows,) = reader.groups(put(three()))
    assert [entry.model for entry in entries_of(rows)] == ["org/0", "org/1", "org/2"]
    assert np.array_equal(shards.keys_of(rows), keys(3))
    (names,) = reader.groups(put(three()), columns=("model",))
    assert names.schema.names == ["model"]


def test_a_shard_that_aborts_pyarrow_does_abort_it(put):
    """Otherwise the tests that follow would show nothing."""
    code = "import pyarrow.parquet, sys; print(pyarrow.parquet.read_metadata(sys.argv[1]).row_group(0).column(0))"
    done = subprocess.run([sys.executable, "-c", code, put(aborting())], capture_output=True, check=False)
    assert done.returncode == -signal.SIGABRT


def test_a_shard_that_ends_the_process_is_one_error_and_the_next_one_is_read(reader, put):
    for _ in range(2):
        with pytest.raises(
            SignatureError, match=r"is not a file of an index: the process that read it ended \(SIGABRT\)"
        ):
            list(reader.groups(put(aborting())))
        assert len(list(reader.groups(put(three())))) == 1


def test_a_process_that_ended_meanwhile_is_replaced(reader, put):
    list(reader.groups(put(three())))
    reader._process.kill()
    reader._process.wait()
    assert len(list(reader.groups(put(three())))) == 1


def test_an_answer_that_was_not_taken_to_its_end_is_not_taken_for_the_next(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "ROWS", 1)
    several = tmp_path / "several.parquet"
    several.write_bytes(three())
    first = reader.groups(tmp_path / "several.parquet")
    with pytest.raises(SignatureError):
        next(first)  # groups of one row are none of an index
    monkeypatch.undo()
    several.write_bytes(three())
    next(reader.groups(several))
    (names,) = reader.groups(several, columns=("commit",))
    assert names["commit"].to_pylist() == ["c" * 40] * 3


def test_what_takes_too_long_is_one_error(put, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "SECONDS", 0.2)
    monkeypatch.setattr(module, "COMMAND", "import time; time.sleep(60)")
    with Reader() as slow, pytest.raises(SignatureError, match="it was not read within 0 s"):
        list(slow.groups(put(three())))


def test_a_frame_that_is_too_large_is_not_waited_for(put, monkeypatch):
    frame = HEAD.pack(GROUP, 2**40)
    monkeypatch.setattr(
        module, "COMMAND", f"import sys; sys.stdout.buffer.write({frame!r}); sys.stdout.flush(); input()"
    )
    with Reader() as large, pytest.raises(SignatureError, match=f"a group of its rows takes {2**40} bytes"):
        list(large.groups(put(three())))


def test_a_process_that_cannot_begin_is_one_error(put, monkeypatch):
    monkeypatch.setattr(module, "COMMAND", "import no_such_module")
    with Reader() as none, pytest.raises(SignatureError, match="is not a file of an index:"):
        list(none.groups(put(three())))


def test_no_variable_and_no_module_of_the_working_directory_reaches_it(put, tmp_path, monkeypatch):
    (tmp_path / "pyarrow.py").write_text("raise SystemExit('ran')")
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    monkeypatch.chdir(tmp_path)
    with Reader() as running:
        assert len(list(running.groups(put(three())))) == 1
        variables = Path(f"/proc/{running._process.pid}/environ")
        assert not variables.exists() or b"secret" not in variables.read_bytes()


def test_what_is_no_plain_file_is_refused_and_what_is_gone_is_told(reader, tmp_path):
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "device.parquet").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(SignatureError, match="it is not a plain file"):
            list(reader.groups(tmp_path / f"{name}.parquet"))
    with pytest.raises(FileNotFoundError):
        list(reader.groups(tmp_path / "none.parquet"))


def test_pages_that_say_they_are_huge_take_no_memory(reader, put):
    """Of three names, one is a text of 3 GiB by its page, and the process may hold 1 GiB."""
    rows = shards.rows([ENTRY] * 3, keys(3))
    stream = io.BytesIO()
    pyarrow.parquet.write_table(
        rows.replace_schema_metadata(shards.STAMP), stream, compression="none", use_dictionary=False
    )
    content = bytearray(stream.getvalue())
    content[content.index(b"org/model") - 4 : content.index(b"org/model")] = (3 * 2**30).to_bytes(4, "little")
    with pytest.raises(SignatureError):
        list(reader.groups(put(bytes(content))))


def batch(**changes):
    """One row of an index, as Arrow writes it, with columns that are other ones."""
    rows = shards.rows([ENTRY], keys(1))
    for name, column in changes.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows.to_batches()[0].serialize().to_pybytes()


BYTES = batch(model=pyarrow.array(["org/model"]).cast("binary")).replace(b"org/model", b"org/\xff\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not rows:"),
        (b"\xff" * 100, "is not rows:"),
        (batch()[:-300], "is not rows:"),
        (BYTES, "is not rows:"),
        (batch(model=pyarrow.array([None], pyarrow.string())), "or some without a value"),
        (batch(model=pyarrow.array(["o" * 401])), "a model is longer than 400 bytes"),
        (batch(width=pyarrow.array([0], pyarrow.int32())), "a width lies outside"),
        (batch(source=pyarrow.array(["eve/index@" + "0" * 40])), "is not a source"),
    ],
)
def test_what_the_process_hands_back_is_checked(content, problem):
    assert len(checked(batch(), shards.schema(), RECEIVED)) == 1
    with pytest.raises(ValueError, match=problem):
        checked(content, shards.schema(), RECEIVED)


@pytest.mark.parametrize("source", ["", "wren/index@" + "0" * 40])
def test_a_folder_may_hold_what_was_pulled(source):
    assert len(checked(batch(source=pyarrow.array([source])), shards.schema(), OWN)) == 1


@pytest.mark.parametrize("source", ["wren/index", "../index@" + "0" * 40, "https://evil/x@" + "0" * 40])
def test_a_folder_leads_nowhere_but_to_an_index_on_the_hub(source):
    with pytest.raises(ValueError, match="is not a source"):
        checked(batch(source=pyarrow.array([source])), shards.schema(), OWN)


def test_without_pyarrow_no_process_is_left(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    reader = Reader()
    with pytest.raises(OptionError, match=r"hf-lineage\[index\] @ git"):
        reader.__enter__()
    assert reader._process is None
