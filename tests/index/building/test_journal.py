"""The journal of a build: what failed, how often a model was begun, and lines that were cut off."""

import os

import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.index.building import journal as module
from hf_lineage.index.building.journal import TRIES, Journal, Trouble


def test_a_model_that_is_done_is_forgotten(tmp_path):
    journal = Journal(tmp_path / "index")
    journal.begun("org/a")
    assert journal.read() == {"org/a": Trouble(begun=1)}
    journal.done("org/a")
    assert journal.read() == {}


def test_a_failure_for_good_is_not_tried_again_and_a_passing_one_some_times(tmp_path):
    journal = Journal(tmp_path)
    journal.failed("org/gone", "it is not on the Hub", True)
    for _ in range(TRIES - 1):
        journal.begun("org/slow")
        journal.failed("org/slow", "the Hub cannot be reached", False)
    assert journal.read()["org/gone"].given_up == "it is not on the Hub"
    assert journal.read()["org/slow"].given_up == ""
    journal.begun("org/slow")
    assert journal.read()["org/slow"].given_up == "the Hub cannot be reached; 3 times, so it is not tried again"


def test_a_model_that_takes_its_worker_down_is_given_up(tmp_path):
    journal = Journal(tmp_path)
    for _ in range(TRIES):
        journal.begun("org/large")
    assert journal.read()["org/large"].given_up.startswith("its worker ended while it was read; 3 times")


def test_lines_that_were_cut_off_or_are_none_of_ours_are_left_out(tmp_path):
    journal = Journal(tmp_path)
    journal.failed("org/a", "why\x1b[2J", True)
    with journal.file.open("ab") as stream:
        stream.write(b'[1]\n{"model": 7}\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"model": "org/b", "ev')
    assert list(journal.read()) == ["org/a"]
    assert journal.read()["org/a"].problem == "why\\x1b[2J"


def test_tidying_leaves_what_is_not_done(tmp_path):
    journal = Journal(tmp_path)
    journal.tidy()
    assert not journal.file.exists()
    for number in range(50):
        journal.begun(f"org/{number}")
        journal.done(f"org/{number}")
    journal.begun("org/slow")
    journal.failed("org/slow", "slow", False)
    before = journal.read()
    journal.tidy()
    assert journal.read() == before
    assert len(journal.file.read_text().splitlines()) == 2


def test_one_that_is_too_large_is_refused(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.begun("org/a")
    monkeypatch.setattr(module, "LARGEST", 4)
    with pytest.raises(SignatureError, match=r"build\.jsonl is larger than"):
        journal.read()


def test_a_pipe_or_a_link_in_its_place_is_an_error_and_not_waited_for_or_followed(tmp_path):
    (tmp_path / "outside").write_text("secret")
    journal = Journal(tmp_path)
    for make in (os.mkfifo, lambda path: path.symlink_to("outside")):
        journal.file.unlink(missing_ok=True)
        make(journal.file)
        with pytest.raises(SignatureError, match="cannot be written"):
            journal.begun("org/a")
    assert (tmp_path / "outside").read_text() == "secret"
    journal.file.unlink()
    os.mkfifo(journal.file)
    with pytest.raises(SignatureError, match="cannot be read: it is a pipe or a device"):
        journal.read()
