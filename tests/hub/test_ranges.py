"""Ranges: what is fetched of a file on the Hub covers what is asked for, and no byte is asked for twice."""

from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.checkpoint import remote
from hf_lineage.checkpoint.remote import RangedFiles, RemoteCheckpoint
from hf_lineage.checkpoint.tensor import StoredTensor, TensorInfo
from hf_lineage.errors import CheckpointError
from hf_lineage.hub import ranges
from hf_lineage.hub.ranges import Downloads, RangedFile
from hf_lineage.hub.repo import resolve
from tests.models import WEIGHTS, raw_safetensors, tiny_llama
from tests.properties import cases

FILE = Path("there.safetensors")
SIZES = st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40]), min_size=1, max_size=12)


class Recorded:
    """A file of which it is noted what is asked for; `head` bytes came with its header."""

    def __init__(self, head):
        self.head, self.parts = head, []

    def fetch(self, start, stop):
        self.parts.append(range(start, stop))


def stored(sizes, header):
    """Tensors of so many bytes, one after the other behind a header, as safetensors has them."""
    starts = [header + sum(sizes[:number]) for number in range(len(sizes))]
    places = enumerate(zip(sizes, starts, strict=True))
    return {f"t{number}": StoredTensor(FILE, "U8", (size,), start) for number, (size, start) in places}


def fetched(tensors, file, asked):
    """The ranges that are asked for where some names are prefetched together, one set of them after the other."""
    logical = {name: TensorInfo(each.shape, (name,)) for name, each in tensors.items()}
    with ThreadPoolExecutor(1) as pool:
        checkpoint = RemoteCheckpoint(tensors, logical, RangedFiles({FILE: file}, pool, Downloads()))
        for names in asked:
            checkpoint.prefetch(*names)
    return file.parts


@cases(150)
@given(st.data(), SIZES, st.integers(8, 30), st.integers(0, 30), st.integers(0, 20), st.integers(1, 50))
def test_the_ranges_cover_what_is_wanted_and_no_byte_comes_twice(data, sizes, header, more, gap, largest):
    tensors, file = stored(sizes, header), Recorded(header + more)
    asked = data.draw(st.lists(st.lists(st.sampled_from(list(tensors)), unique=True, min_size=1), max_size=4))
    with patch.object(remote, "GAP", gap), patch.object(remote, "LARGEST_RANGE", largest):
        came = [byte for part in fetched(tensors, file, asked) for byte in part]
    places = (tensors[name] for names in asked for name in names)
    wanted = {byte for one in places for byte in range(one.start, one.start + one.size) if byte >= file.head}
    assert wanted <= set(came)
    assert len(came) == len(set(came))
    assert max(map(len, file.parts), default=0) <= largest
    assert min(came, default=file.head) >= file.head
    assert set(came) == wanted or gap
    more = enumerate(sorted(set(came) - wanted))
    stretches = [len(list(run)) for _, run in groupby(more, lambda place: place[1] - place[0])]
    assert (all(file.parts), max(stretches, default=0) <= gap) == (True, True)


def test_tensors_that_are_asked_for_one_by_one_come_one_by_one_and_together_as_one():
    tensors, one_by_one = stored([4, 4, 4], 8), [range(8, 12), range(16, 20), range(12, 16)]
    assert fetched(tensors, Recorded(8), [["t0"], ["t2"], ["t1"]]) == one_by_one
    assert fetched(tensors, Recorded(8), [["t0", "t2"]]) == [range(8, 20)]


@pytest.fixture
def opened(online, tmp_path, monkeypatch):
    """A file of the served Hub, and where its bytes really are."""
    monkeypatch.setattr(ranges, "HEAD", 16)
    folder = tiny_llama(tmp_path / "model")
    online.publish("acme/tiny", folder)
    return RangedFile(resolve("acme/tiny"), WEIGHTS, Downloads()), folder / WEIGHTS


def test_what_is_fetched_is_counted_and_lies_where_it_belongs_unless_it_changes(opened):
    file, real = opened
    before = file._downloads.requests
    file.fetch(100, 140)
    file.fetch(50, 50)
    assert (file._downloads.requests - before, file._downloads.downloaded) == (1, 40)
    content = file.path.read_bytes()
    assert len(content) == file.size == real.stat().st_size
    assert content[100:140] == real.read_bytes()[100:140]
    assert not any(content[:100] + content[140:])
    raw_safetensors(real, b"{}", b"other")
    with pytest.raises(CheckpointError, match="changed after it was opened, because the branch moved; run again"):
        file.fetch(10, 20)


def test_the_header_is_read_on_as_far_as_it_says_unless_it_is_longer_than_the_limit(opened):
    file, real = opened
    file.read_head(100)
    assert file.head == 16
    file.read_head(2**20)
    length = int.from_bytes(real.read_bytes()[:8], "little")
    assert (file.head, file.path.read_bytes()[: file.head]) == (8 + length, real.read_bytes()[: file.head])
    assert not any(file.path.read_bytes()[file.head :])
