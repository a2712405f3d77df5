import json
import os
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hf_lineage.errors import LedgerError
from hf_lineage.watch import ledger
from hf_lineage.watch.ledger import Claim, Entry
from tests import goldens

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def entry(model="fern/child", commit="a", hour=0, watched="fern", **rest):
    changed = NOON + timedelta(hours=hour)
    return Entry(model=model, commit=commit * 40, watched=watched, changed=changed, checked_at=NOON, **rest)


def claim(**changes):
    values = {
        "base": "acme/base", "base_commit": "b" * 40, "relation": None, "sources": ("README.md",), "verdict": "RELATED",
        "reason": "", "score": 0.9, "p_value_adjusted": 0.001, "command": "hf-lineage check fern/child",
    }  # fmt: skip
    return Claim(**values | changes)


@pytest.fixture
def file(tmp_path):
    """A ledger of two models, the first of which was checked at two commits."""
    file = tmp_path / "ledger.jsonl"
    with ledger.writing(file) as book:
        book.append(entry(claims=(claim(),)))
        book.append(entry("fern/other", hour=2))
        book.append(entry(commit="c", hour=1, error="gone"))
    return file


def test_what_was_appended_is_read_back(file):
    book = ledger.read(file)
    assert book.known == {("fern/child", "a" * 40), ("fern/other", "a" * 40), ("fern/child", "c" * 40)}
    assert book.latest["fern/child"] == entry(commit="c", hour=1, error="gone")
    assert book.latest["fern/other"] == entry("fern/other", hour=2)
    assert (book.lines, book.size) == (3, file.stat().st_size)


def test_the_mark_is_the_latest_change_of_what_was_watched_by_the_same_name(file):
    with ledger.writing(file) as book:
        book.append(entry("fern/single", hour=9, watched="fern/single"))
    assert ledger.read(file).marks == {"fern": NOON + timedelta(hours=2), "fern/single": NOON + timedelta(hours=9)}


def test_every_line_is_one_versioned_object(file):
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["schema_version"] for line in lines] == [2, 2, 2]
    assert lines[0]["claims"][0]["base_commit"] == "b" * 40


def test_an_entry_is_on_the_disk_before_anything_else_happens(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    with ledger.writing(tmp_path / "l") as book:
        book.append(entry())
        assert synced == [(tmp_path / "l").stat().st_size] != [0]


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_last_line_without_its_end_is_dropped_and_said(file, cut, caplog):
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with ledger.writing(file) as book:
        assert book.lines == 2
        book.append(entry(commit="d"))
    assert f"{file}: its last line is not complete and is dropped (" in caplog.text
    lines = whole.splitlines(keepends=True)
    assert file.read_bytes() == b"".join(lines[:2]) + msgspec.json.encode(entry(commit="d")) + b"\n"


def test_reading_changes_nothing(file):
    file.write_bytes(file.read_bytes()[:-5])
    before = file.read_bytes()
    assert ledger.read(file).lines == 2
    assert file.read_bytes() == before


def test_there_may_be_no_ledger_yet(tmp_path):
    assert ledger.read(tmp_path / "l").lines == 0
    with ledger.writing(tmp_path / "l") as book:
        assert book.lines == 0


def test_new_keys_of_a_later_version_are_no_harm_and_a_new_meaning_is(file):
    first, *rest = (json.loads(line) for line in file.read_text().splitlines())
    file.write_text("".join(f"{json.dumps(line)}\n" for line in (first | {"more": [1]}, *rest)))
    assert ledger.read(file).lines == 3
    file.write_text("".join(f"{json.dumps(line)}\n" for line in (first, rest[0] | {"schema_version": 3})))
    with pytest.raises(LedgerError, match="line 2 was written by a later hf-lineage; update hf-lineage"):
        ledger.read(file)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"{}", b"[]", b"\xff", b"<<<<<<< HEAD", b"[" * 10**5,
        msgspec.json.encode(entry()).replace(b"fern/child", b"../../child"),
        msgspec.json.encode(entry()).replace(b"a" * 40, b"a/../../b"),
        msgspec.json.encode(entry()).replace(b'"schema_version":2', b'"schema_version":1'),
        b'{"schema_version": 2}',
        msgspec.json.encode(entry()).replace(b"12:00:00Z", b"12:00:00"),
    ],
    ids=lambda line: ascii(line[:12]),
)  # fmt: skip
def test_a_line_that_is_none_is_refused_with_its_number(file, line):
    file.write_bytes(msgspec.json.encode(entry()) + b"\n" + line + b"\n")
    before = file.read_bytes()
    with (
        pytest.raises(LedgerError, match=r"line 2 is not a ledger entry \(.+\); correct or remove it"),
        ledger.writing(file),
    ):
        pass
    assert file.read_bytes() == before


def test_a_line_too_long_or_too_many_are_refused(file, monkeypatch):
    monkeypatch.setattr(ledger, "LONGEST_LINE", 300)
    with pytest.raises(LedgerError, match="line 1 is longer than"):
        ledger.read(file)
    monkeypatch.setattr(ledger, "LONGEST_LINE", 2**20)
    monkeypatch.setattr(ledger, "MOST_LINES", 2)
    with pytest.raises(LedgerError, match="has 2 lines, the most that are read; start another ledger"):
        ledger.read(file)


def test_a_hundred_claims_with_everything_as_long_as_it_may_be_fit_into_a_line():
    long = claim(base="\U0001f426" * 500, reason="\U0001f426" * 500, command="\U0001f426" * 2000, relation="x" * 500)
    assert len(msgspec.json.encode(entry(claims=(long,) * 100))) < ledger.LONGEST_LINE


def test_who_holds_a_ledger_holds_it_alone(file):
    with ledger.writing(file):
        with pytest.raises(LedgerError, match="is in use by another run of watch"), ledger.writing(file):
            pass
        assert ledger.read(file).lines == 3
    with ledger.writing(file) as book:
        assert book.lines == 3


def test_nothing_but_the_ledger_is_left_behind_and_who_waited_at_its_lock_makes_another(file):
    assert list(file.parent.iterdir()) == [file]
    with ledger.writing(file):
        waiting = os.open(f"{file}.lock", os.O_RDWR)
    assert os.fstat(waiting).st_nlink == 0
    os.close(waiting)
    file.write_bytes(b"damaged\n")
    with pytest.raises(LedgerError), ledger.writing(file):
        pass
    assert list(file.parent.iterdir()) == [file]


def test_what_is_not_a_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(LedgerError, match="is not a regular file, so it cannot be a ledger"),
        ledger.writing(tmp_path / "pipe"),
    ):
        pass


def test_a_link_is_not_written_through(file, tmp_path):
    (tmp_path / "link").symlink_to(file)
    before = file.read_bytes()
    with (
        pytest.raises(
            LedgerError,
            match="link cannot be written: it is a link, and hf-lineage does not write through links; name an",
        ),
        ledger.writing(tmp_path / "link"),
    ):
        pass
    assert file.read_bytes() == before


def test_a_full_disk_is_said(file, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    with ledger.writing(file) as book:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError, match="cannot be written: No space left on device; make room for it"):
            book.append(entry(commit="d"))


def test_a_line_that_is_no_utf_8_is_an_error_that_names_it(file):
    file.write_bytes(file.read_bytes().replace(b"fern/other", b"fern/o\xffher"))
    with pytest.raises(LedgerError, match=r"line 2 is not a ledger entry \(.*\); correct or remove it"):
        ledger.read(file)


def test_the_committed_ledger_is_read_and_appended_as_the_same_bytes(tmp_path):
    golden = goldens.read("ledger-v2.jsonl")
    assert goldens.lines() == golden
    (tmp_path / "old").write_bytes(golden)
    book = ledger.read(tmp_path / "old")
    assert {model: len(entry.claims) for model, entry in book.latest.items()} == {
        "fern/child": 1, "fern/silent": 0, "fern/other": 1, "fern/broken": 0,
    }  # fmt: skip
    assert book.latest["fern/child"].claims[0].inherited.share == 0.34
    with ledger.writing(tmp_path / "new") as copy:
        for line in book.latest.values():
            copy.append(line)
    assert (tmp_path / "new").read_bytes() == golden
