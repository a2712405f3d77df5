"""Every experiment at the smallest size: it runs, and what the paper claims of it holds."""

import pytest
import torch

from benchmarks.paper.__main__ import reproduced
from benchmarks.paper.experiment import Bench
from benchmarks.paper.items import found
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.results import Results, file_name
from tests.long import LONG

TIMED = {"tab:gpt2-latency"}
"""What it claims is about times, which say nothing on a machine with other work: here they are only taken."""

SLOW = {
    *("app:cifar-resnet", "fig:gpt2-benchmark", "fig:gpt2-methods", "fig:gpt2-pairing", "fig:gpt2-trace"),
    *("fig:mechanism-triad", "ours:adapters", "ours:disguises", "ours:experts", "ours:merges", "ours:power"),
    *("ours:reshaped", "ours:rivals", "ours:robust", "ours:sketch", "ours:verdict", "tab:baselines"),
    *("tab:centering-ablation", "tab:factorization", "tab:gpt2-survival", "tab:laundering"),
    *("tab:laundering-gapz", "tab:vision-speech"),
}
"""What takes more than five seconds, and what is made of the same models."""
ITEMS = [
    pytest.param(item, several, id=item, marks=[LONG] if item in SLOW else []) for item, several in found().items()
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
