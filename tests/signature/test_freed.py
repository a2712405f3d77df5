"""What was freed goes back to the system, and a system that cannot take it is left as it is."""

import ctypes
import sys
from pathlib import Path

import pytest

from hf_lineage.signature.devices import return_freed_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process has in /proc")
def test_many_small_arrays_that_were_freed_go_back():
    def resident():
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096

    kept = [bytearray(100_000) for _ in range(1000)]
    barrier = bytearray(1000)
    full = resident()
    kept.clear()
    return_freed_memory()
    assert resident() < full - 50_000_000
    assert len(barrier) == 1000


def test_another_c_library_is_left_alone(monkeypatch):
    class Other:
        """A library without this function."""

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Other())
    assert return_freed_memory() is None
