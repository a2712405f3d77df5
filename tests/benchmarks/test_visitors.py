"""What hostile visitors take of the examples, with fewer of them than the benchmark has."""

import json
from itertools import islice

import pytest

from benchmarks import visitors
from tests.examples import spaces

pytestmark = spaces.needed
KINDS = {"receiver": 19, "Space": 13}


@pytest.mark.long
@pytest.mark.parametrize("name", list(KINDS))
def test_they_take_little_memory_and_no_disk_and_are_told_nothing(name):
    example = visitors.examples()[name]
    spaces.gradio()
    row = visitors.measured(example, visitors.ROOT / "examples", 2 * KINDS[name], 32)
    assert sum(row["answers"].values()) == 2 * KINDS[name]
    assert visitors.UNANSWERED not in row["answers"]
    assert row["answers that quote the request"] == 0
    assert row["peak memory, MB"] - row["memory before, MB"] < 100
    assert (row["peak disk, MB"], row["honest request afterwards"]) == (0, "200" if name == "Space" else "202")
    assert row["log, MB"] < 0.1


@pytest.mark.parametrize("name", list(KINDS))
def test_every_kind_of_request_comes_in_turn(name):
    kinds = list(islice(visitors.examples()[name].requests, KINDS[name]))
    assert len({(kind.method, kind.path, kind.headers, kind.length, b"".join(kind.body)) for kind in kinds}) == len(
        kinds
    )


def test_a_body_goes_over_the_wire_whole_in_chunks_or_not_at_all():
    whole, chunks = visitors.Request("/a", [b"xy", b"z"]), visitors.Request("/a", [b"xy"], length=0)
    assert b"".join(whole.sent()).endswith(b"Content-Length: 3\r\n\r\nxyz")
    assert b"".join(chunks.sent()).endswith(b"Transfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n")
    assert b"".join(visitors.Request("/a", method="GET").sent()).endswith(b"Content-Length: 0\r\n\r\n")


def test_the_committed_run_is_of_a_thousand_requests_to_each():
    rows = json.loads(visitors.FILE.read_text("utf-8"))["rows"]
    assert [(row["server"], row["requests"], row["connections"]) for row in rows] == [
        ("Space", 1000, 64), ("receiver", 1000, 64),
    ]  # fmt: skip
