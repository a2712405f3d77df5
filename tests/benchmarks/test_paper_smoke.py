"""Every experiment at the smallest size: it runs, and what the paper claims of it holds."""

import pytest
import torch

from benchmarks.paper.__main__ import reproduced
from benchmarks.paper.experiment import Bench, Results, file_name
from benchmarks.paper.items import found
from benchmarks.paper.parts.cache import Cache
from tests.long import LONG

TIMED = {"tab:gpt2-latency"}
"""What it claims is about times, which say nothing on a machine with other work: here they are only taken."""

QUICK = ("tab:survival",)
"""What `make test` runs."""
ITEMS = [
    pytest.param(item, several, id=item, marks=[] if item in QUICK else [LONG]) for item, several in found().items()
]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


@pytest.mark.parametrize(("item", "experiments"), ITEMS)
def test_the_claim_of_an_item_holds_on_a_small_scale(item, experiments, scratch):
    torch.set_num_threads(1)
    bench = Bench("smoke", Cache(scratch), scratch / "figures")
    assert reproduced(item, experiments, bench, scratch) or item in TIMED
    assert Results.read(scratch / file_name(item)).rows
