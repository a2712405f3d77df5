"""Layers are shared out over devices that can hold them, work on a layer over threads that each compute alone."""

import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hf_lineage.errors import OptionError
from hf_lineage.signature import devices
from hf_lineage.signature.devices import budgets, linear_algebra, place, workers

GIB = 2**30
CPU = {"cpu": 64 * GIB}
SIZES = ["8GiB", "8gib", "0.5MiB", "3KiB", "500MB", "1.5GB", "2KB", "8 GiB", "+1e3MB", "1_000KB"]


def threads():
    return [library["num_threads"] for library in linear_algebra().info()]


@pytest.fixture(autouse=True)
def three_threads():
    with linear_algebra().limit(limits=3):
        yield


def test_every_item_is_done_once_by_one_of_the_workers():
    done, seen, together = [], set(), threading.Barrier(3)

    def task(items):
        together.wait(timeout=60)
        seen.add((threading.get_ident(), *threads()))
        done.extend(items)

    with workers() as share:
        share(task, range(1000))
        assert sorted(done) == list(range(1000))
    assert len(seen) == 3
    assert {count for _, *counts in seen for count in counts} == {1}


def test_the_linear_algebra_has_its_threads_back_afterwards_whatever_happened():
    def fail():
        with workers() as share:
            assert set(threads()) == {1}
            share(lambda items: [1 / item for item in items], [1, 0])

    assert set(threads()) == {3}
    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(threads()) == {3}
    with workers():
        pass
    assert set(threads()) == {3}


def test_numbers_that_leave_their_range_are_no_errors_in_a_worker_and_are_afterwards():
    huge = np.full(2, 1e30, np.float32)
    with workers() as share:
        share(lambda items: [huge * huge for _ in items], range(8))
        assert np.isinf(huge * huge).all()
    with np.errstate(over="raise"), workers():
        pass
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        huge * huge


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """The file of a driver of a GPU."""
    monkeypatch.setattr(devices, "DRIVERS", [str(tmp_path / "driver")])
    (tmp_path / "driver").touch()


PLACES = {
    "no GPU": (GIB, {"cpu": 2 * GIB}, "cpu"),
    "one GPU, however large the model": (GIB, CPU | {0: 2 * GIB}, 0),
    "a GPU too small for one layer": (3 * GIB, CPU | {0: 2 * GIB, 1: 4 * GIB}, 1),
    "no GPU that holds a layer": (3 * GIB, CPU | {0: 2 * GIB, 1: GIB}, "cpu"),
}


def test_layers_go_to_gpus_in_proportion_and_what_nothing_can_hold_is_an_error():
    for case, (size, budget, expected) in PLACES.items():
        assert place([size] * 60, budget) == [expected] * 60, case
    placed = place([GIB] * 60, CPU | {0: 10 * GIB, 1: 20 * GIB})
    assert set(placed) == {0, 1}
    assert abs(placed.count(0) - 20) <= 3
    assert sum(a != b for a, b in pairwise(placed)) == 1
    with pytest.raises(OptionError, match="one layer needs 3072 MiB and no device has that much"):
        place([3 * GIB], {"cpu": 2 * GIB})


NO_SIZES = ["much", "-1GiB", "0GB", "0.1e-9GB", "GiB", "12", "8G", "8B", "8TB", "8GiB ", "8\u0130B", "8\u212aB"]
NO_SIZES += ["infGB", "nanGB", "1e999GB"]


@pytest.mark.parametrize("missing", devices.EXTRA)
def test_on_apples_gpu_or_without_the_extra_gpu_the_cpu_does_everything(driver, monkeypatch, missing):
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {"mps": 8 * GIB})
    assert budgets() == {"cpu": 8 * GIB}
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {0: 4 * GIB})
    monkeypatch.setitem(sys.modules, missing, None)
    assert budgets().keys() == {"cpu"}
    assert budgets("1GiB") == {"cpu": GIB}


ASKED = """
import sys
from hf_lineage.signature import devices

devices.DRIVERS = sys.argv[1:2]
free = devices.budgets(*sys.argv[2:])
print(sorted(free.keys()), *sorted({"accelerate", "torch"} & sys.modules.keys()))
"""


def test_torch_is_imported_where_there_is_a_driver_and_nowhere_else(tmp_path, monkeypatch):
    def asked(*limit):
        """The devices of a process with a driver and perhaps a limit, and what it imported."""
        command = [sys.executable, "-c", ASKED, str(tmp_path / "driver"), *limit]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert asked() == asked("1GiB") == "['cpu']"
    (tmp_path / "driver").touch()
    assert asked("1GiB") == "['cpu'] accelerate torch"


def test_a_size_is_what_accelerate_takes_it_for_and_others_are_refused(driver, monkeypatch):
    from accelerate.utils import convert_file_size_to_int

    assert (budgets("1GiB"), budgets("500MB"), budgets()["cpu"] > GIB) == ({"cpu": GIB}, {"cpu": 500 * 10**6}, True)
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {"cpu": 2**60})
    assert {size: budgets(size)["cpu"] for size in SIZES} == {size: convert_file_size_to_int(size) for size in SIZES}
    for size in NO_SIZES:
        with pytest.raises(OptionError, match="is not a size; write a size such as 8GiB or"):
            budgets(size)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process has in /proc")
def test_many_small_arrays_that_were_freed_go_back_to_the_system():
    def resident():
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096

    many = [bytearray(100_000) for _ in range(1000)]
    barrier, full = bytearray(1000), resident()
    many.clear()
    devices.return_freed_memory()
    assert resident() < full - 50_000_000
    assert len(barrier) == 1000
