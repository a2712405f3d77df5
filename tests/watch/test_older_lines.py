"""Ledgers of the first schema are read as those of today, and continued as they are."""

import msgspec
import pytest

from hf_lineage.errors import LedgerError
from hf_lineage.watch import ledger
from tests import goldens
from tests.watch.test_ledger import entry

FIRST = goldens.read("ledger-v1.jsonl").splitlines()[0]


def test_a_ledger_of_the_first_schema_is_read_as_if_it_were_of_todays_and_continued(tmp_path):
    old, today = goldens.read("ledger-v1.jsonl"), goldens.read("ledger-v2.jsonl")
    for name, lines in (("old", old), ("today", today)):
        (tmp_path / name).write_bytes(lines)
    assert ledger.read(tmp_path / "old").latest == ledger.read(tmp_path / "today").latest
    with ledger.writing(tmp_path / "old") as book:
        book.append(entry("fern/new"))
    assert (tmp_path / "old").read_bytes() == old + msgspec.json.encode(entry("fern/new")) + b"\n"
    assert set(ledger.read(tmp_path / "old").latest) == {*book.latest}


@pytest.mark.parametrize(
    "line",
    [
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "version": "0.1.0", "claims": [7]}',
        msgspec.json.encode(entry()).replace(b'"schema_version":2', b'"schema_version":1'),
        FIRST.replace(b"0.34", b'"much"'),
        FIRST.replace(b"fern/child", b"../../child", 1),
        FIRST.replace(b'"p_value"', b'"p"'),
    ],
    ids=lambda line: ascii(line[:12]),
)
def test_a_line_that_says_it_is_of_the_first_schema_and_is_none_is_refused(tmp_path, line):
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(msgspec.json.encode(entry()) + b"\n" + line + b"\n")
    with pytest.raises(LedgerError, match=r"line 2 is not a ledger entry \(.+\); correct or remove it"):
        ledger.read(file)
