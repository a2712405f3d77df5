"""What the process that reads shards answers, called here without it: its frames, and its limits."""

import io
import json
import subprocess
import sys

import pytest

from hf_lineage.index.storage import decoding, shards
from hf_lineage.index.storage.decoding import END, GONE, GROUP, HEAD, PROBLEM, answer, groups
from tests.index.foreign import ENTRY, keys, three
from tests.invoking import environment

COLUMNS = [*shards.NAMES, "key"]


def frames(file):
    stream = io.BytesIO()
    answer(stream, file, COLUMNS, 400)
    stream.seek(0)
    while head := stream.read(HEAD.size):
        kind, size = HEAD.unpack(head)
        yield kind, stream.read(size)


def test_a_file_is_answered_by_its_groups_and_an_end(tmp_path):
    (tmp_path / "shard").write_bytes(three())
    assert [kind for kind, _ in frames(tmp_path / "shard")] == [GROUP, END]
    assert list(frames(tmp_path / "none")) == [(GONE, b"")]
    (tmp_path / "bad").write_bytes(b"PAR1")
    ((kind, problem),) = frames(tmp_path / "bad")
    assert (kind, bool(problem)) == (PROBLEM, True)


def test_rows_that_are_too_long_in_the_mean_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MOST_BYTES", 500)
    (tmp_path / "shard").write_bytes(three())
    with pytest.raises(ValueError, match="its rows are longer than"):
        list(groups(tmp_path / "shard", COLUMNS, 400))


def test_a_text_is_measured_before_it_is_repeated(tmp_path):
    (tmp_path / "shard").write_bytes(shards.encoded([ENTRY] * 3, keys(3)))
    with pytest.raises(ValueError, match="a recipe is longer than 12 bytes"):
        list(groups(tmp_path / "shard", ["recipe"], 12))


def test_the_process_has_limits_and_keeps_what_is_printed_out_of_its_frames(tmp_path):
    (tmp_path / "shard").write_bytes(three())
    request = json.dumps({"file": str(tmp_path / "shard"), "columns": COLUMNS, "longest": 400}).encode()
    code = (
        "import os, resource\nfrom hf_lineage.index.storage import decoding\nplain = decoding.answer\n"
        "def answer(*arguments):\n    plain(*arguments)\n    os.write(1, b'printed')\n"
        "    limits = [resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0] for name in ('AS', 'CORE')]\n"
        "    os.write(2, repr(limits).encode())\n"
        "decoding.answer = answer\ndecoding.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=request, capture_output=True, env=environment(), check=True
    )
    assert b"printed" not in done.stdout
    assert done.stderr.endswith(f"printed[{2**30}, 0]".encode())
