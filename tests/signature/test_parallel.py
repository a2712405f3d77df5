"""Work on one layer is shared among threads that each compute alone."""

import threading

import pytest
import torch

from hf_lineage.signature.parallel import workers


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_every_item_is_done_once_by_one_of_the_workers():
    done, threads = [], set()
    together = threading.Barrier(3)

    def task(items):
        together.wait(timeout=60)
        threads.add((threading.get_ident(), torch.get_num_threads()))
        done.extend(items)

    with workers() as share:
        share(task, range(1000))
        assert sorted(done) == list(range(1000))
    assert len(threads) == 3
    assert {count for _, count in threads} == {1}


def test_torch_has_its_threads_back_afterwards_whatever_happened():
    def fail():
        with workers() as share:
            assert torch.get_num_threads() == 1
            share(lambda items: [1 / item for item in items], [1, 0])

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_num_threads() == 3
