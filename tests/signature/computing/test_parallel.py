"""Work on one layer is shared among threads that each compute alone."""

import threading

import numpy as np
import pytest

from hf_lineage.signature.computing.parallel import alone, linear_algebra, workers


def threads():
    """How many threads each library of linear algebra uses."""
    return [library["num_threads"] for library in linear_algebra().info()]


@pytest.fixture(autouse=True)
def three_threads():
    with linear_algebra().limit(limits=3):
        yield


def test_every_item_is_done_once_by_one_of_the_workers():
    done, seen = [], set()
    together = threading.Barrier(3)

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

    assert threads()
    assert set(threads()) == {3}
    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(threads()) == {3}
    with workers():
        pass
    assert set(threads()) == {3}


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_there_are_as_many_workers_as_the_linear_algebra_has_threads(limit):
    together = threading.Barrier(limit)
    with linear_algebra().limit(limits=limit), workers() as share:
        share(lambda items: together.wait(timeout=60), [])
    assert not together.broken


def test_numbers_that_leave_their_range_are_no_errors_in_a_worker_and_are_afterwards():
    huge = np.full(2, 1e30, np.float32)
    with workers() as share:
        share(lambda items: [huge * huge for _ in items], range(8))
        assert np.isinf(huge * huge).all()
    with np.errstate(over="raise"), workers():
        pass
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        huge * huge


def test_what_is_done_alone_is_done_in_this_thread():
    done = []
    alone(lambda items: done.extend((threading.get_ident(), item) for item in items), range(3))
    assert done == [(threading.get_ident(), item) for item in range(3)]
