"""A file is replaced in one step: whoever reads it, and whatever ends the process, it is the old one or the new one."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.files import atomic
from hf_lineage.files.atomic import STALE, remove_file, write_atomically, write_output


def test_nothing_is_left_behind_or_written_into_where_a_file_cannot_be_written(tmp_path, monkeypatch):
    """Whoever may write into the folder could lay a link there, if the name could be guessed."""
    (tmp_path / "folder").mkdir()
    for name in ("missing/a", "folder"):
        with pytest.raises(SignatureError, match="cannot be written"):
            write_atomically(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda size: "0" * 2 * size)
    (tmp_path / "theirs").write_bytes(b"old")
    (tmp_path / f"{atomic.TEMPORARY}{'0' * 16}").symlink_to(tmp_path / "theirs")
    with pytest.raises(SignatureError, match="cannot be written"):
        write_atomically(tmp_path / "a", b"new")
    assert ((tmp_path / "theirs").read_bytes(), (tmp_path / "a").exists()) == (b"old", False)


def run(statement, **kwargs):
    """Run a statement about a function in a process of its own."""
    script = f"import os, signal\nfrom pathlib import Path\nfrom hf_lineage.files.atomic import *\n{statement}\n"
    return subprocess.run([sys.executable, "-c", script], check=False, **kwargs)


LEFT = ".hf-lineage-0123456789abcdef"
"""What a process that was killed leaves behind, and what must not be taken for it."""


def aged(file, seconds):
    file.write_bytes(b"half")
    os.utime(file, (time.time() - seconds,) * 2)


@pytest.mark.parametrize(("name", "age", "stays"), [
    (LEFT, 2 * STALE, False), (LEFT, STALE / 2, True), (LEFT.replace("abcdef", "ABCDEF"), 10 * STALE, True),
    *((name, 10 * STALE, True) for name in (".hf-lineage-notes", ".README.md.123", f"{LEFT}0")),
])  # fmt: skip
def test_one_that_was_left_behind_is_removed_by_the_next_write_and_nothing_else(tmp_path, name, age, stays):
    aged(tmp_path / name, age)
    write_atomically(tmp_path / "README.md", b"new")
    assert (tmp_path / name).exists() is stays


def test_what_is_no_plain_file_stays_and_a_pipe_of_that_name_is_replaced(tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "theirs"
    aged(elsewhere, 10 * STALE)
    (tmp_path / LEFT).symlink_to(elsewhere)
    (tmp_path / LEFT.replace("0", "f")).mkdir()
    os.mkfifo(tmp_path / "pipe")
    write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").read_bytes() == b"new"
    assert (len(list(tmp_path.iterdir())), elsewhere.read_bytes()) == (3, b"half")


def test_killed_in_the_middle_it_leaves_the_old_content_and_one_such_file(tmp_path):
    file = tmp_path / "README.md"
    file.write_bytes(b"old")
    killed = "os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)"
    done = run(f"{killed}\nwrite_atomically(Path({str(file)!r}), b'new')")
    assert (done.returncode, file.read_bytes()) == (-signal.SIGKILL, b"old")
    (left,) = (path for path in tmp_path.iterdir() if path != file)
    aged(left, 2 * STALE)
    write_atomically(file, b"new")
    assert list(tmp_path.iterdir()) == [file]


def test_whoever_reads_meanwhile_reads_the_old_file_or_the_new_one(tmp_path):
    file, contents = tmp_path / "a", [bytes([number]) * 2**18 for number in range(6)]
    write_atomically(file, contents[0])
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stack.callback(done.set)
        reads = pool.submit(lambda: [file.read_bytes() for _ in iter(done.is_set, True)])
        for content in contents:
            write_atomically(file, content)
    assert {(len(content), len(set(content))) for content in reads.result()} == {(2**18, 1)}


@pytest.mark.parametrize("by_descriptor", [atomic.BY_DESCRIPTOR, False])
@pytest.mark.parametrize("write", [write_atomically, write_output])
@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_link_is_replaced_and_what_it_names_stays_as_it_is(tmp_path, monkeypatch, write, target, by_descriptor):
    """On a system that cannot name files by an open folder, too."""
    monkeypatch.setattr(atomic, "BY_DESCRIPTOR", by_descriptor)
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "there").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / target)
    for name in ("link", "a", "a"):
        write(tmp_path / name, b"new")
    assert not (tmp_path / "link").is_symlink()
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert contents == {"there": b"old", "link": b"new", "a": b"new"}


def test_permissions_are_kept_and_those_that_are_asked_for_are_there_with_the_name(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")
    modes, renamed = [], os.replace

    def replace(*arguments, **named):
        renamed(*arguments, **named)
        modes.append(stat.S_IMODE((tmp_path / "a").stat().st_mode))

    monkeypatch.setattr(os, "replace", replace)
    for mode in (0o600, 0o644, 0o664, 0o666):
        (tmp_path / "a").chmod(mode)
        write_atomically(tmp_path / "a", b"new")
    write_atomically(tmp_path / "a", b"new", 0o600)
    assert modes == [0o600, 0o644, 0o664, 0o666, 0o600]


def test_what_is_written_stays_in_the_folder_that_was_opened(tmp_path, monkeypatch):
    """Its name may come to mean another folder at any moment."""
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    synced = os.fsync

    def exchange(number):
        synced(number)
        (tmp_path / "here").rename(tmp_path / "moved")
        (tmp_path / "here").symlink_to("elsewhere")

    monkeypatch.setattr(os, "fsync", exchange)
    write_atomically(tmp_path / "here/a", b"new")
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["a"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


class TestOutput:
    """What a user names: a device or a pipe is what they want, and a link on the way there is not."""

    def test_a_device_or_a_pipe_is_written_to_and_never_replaced(self, tmp_path):
        write_output(Path(os.devnull), b"x")
        assert Path(os.devnull).is_char_device()
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(pipe.read_bytes)
            write_output(pipe, b"x")
        assert (read.result(), stat.S_ISFIFO(pipe.stat().st_mode)) == (b"x", True)

    @pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no such file")
    @pytest.mark.parametrize(("name", "before"), [("/dev/stdout", b"before\n"), ("/proc/self/fd/1", b"")])
    def test_standard_output_by_its_name_is_written_to_whatever_it_is(self, tmp_path, name, before):
        write = f"write_output(Path({name!r}), b'x')"
        assert run(write, stdout=subprocess.PIPE).stdout == b"x"
        (tmp_path / "a").write_bytes(before)
        with (tmp_path / "a").open("ab") as stream:
            assert run(write, stdout=stream).returncode == 0
        assert (tmp_path / "a").read_bytes() == before + b"x"
        assert Path("/dev/stdout").is_symlink()

    def test_a_link_of_a_checkout_on_the_way_is_refused_and_one_of_the_machine_not(self, tmp_path, monkeypatch):
        (tmp_path / "outside").mkdir()
        for name in ("git", "here"):
            (tmp_path / name / "inner").mkdir(parents=True)
            (tmp_path / name / "inner/reports").symlink_to(tmp_path / "outside")
        (tmp_path / "git/.git").mkdir()
        here = tmp_path / "here"
        for working, folder in ((tmp_path, tmp_path / "git"), (here, here), (here, Path())):
            monkeypatch.chdir(working)
            with pytest.raises(SignatureError, match="inner/reports is a link and is not followed; name another"):
                write_output(folder / "inner/reports/a", b"x")
        assert list((tmp_path / "outside").iterdir()) == []
        (tmp_path / "there/inner").mkdir(parents=True)
        (tmp_path / "link").symlink_to("there")
        (tmp_path / "there/.git").mkdir()
        for name, here in (("a", tmp_path / "link"), ("b", "/")):
            monkeypatch.chdir(here)
            write_output(tmp_path / "link/inner" / name, b"x")
        assert sorted(path.name for path in (tmp_path / "there/inner").iterdir()) == ["a", "b"]


def test_a_file_is_removed_a_link_alone_and_nothing_behind_a_link(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "there/file")
    (tmp_path / "folder").symlink_to(tmp_path / "there")
    remove_file(tmp_path / "link")
    remove_file(tmp_path / "gone")
    with pytest.raises(SignatureError, match="is a link and is not followed"):
        remove_file(tmp_path / "folder/file")
    assert [path.name for path in tmp_path.rglob("*") if path.name in ("link", "file")] == ["file"]
    remove_file(tmp_path / "there/file")
    assert not (tmp_path / "there/file").exists()


def test_it_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    """A full disk leaves the old file and nothing beside it."""
    synced = []

    def sync(number):
        synced.append((os.fstat(number).st_size, (tmp_path / "a").read_bytes()))
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", sync)
    with (tmp_path / "a").open("rb") as stream:
        write_atomically(tmp_path / "a", b"newer")
        assert stream.read() == b"old"
    with pytest.raises(SignatureError) as error:
        write_atomically(tmp_path / "a", b"newest")
    assert synced == [(5, b"old"), (6, b"newer")]
    assert str(error.value) == f"{tmp_path / 'a'} cannot be written: No space left on device; name another file"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"newer"}
