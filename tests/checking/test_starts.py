"""Two models of one initialisation that were trained apart: what is measured is said, and no cause that was not."""

import pytest

from hf_lineage import Options, compare
from tests import models
from tests.models import fine_tuned, tiny_llama

EVEN = (
    "about alike in all layers, as one initialisation leaves it, or much training since; the weights do not tell which"
)
BASIS = (
    "the coordinates of both have one meaning, by an embedding that was copied, one initialisation, or training on "
    "hidden states of the base; the weights do not tell which"
)


@pytest.mark.parametrize(
    ("noise", "words", "said"),
    [
        (6.0, "RELATED", ""),
        (7.7, "RELATED in part", EVEN),
        (8.0, "RELATED in part", EVEN),
        (8.3, "RELATED in part", EVEN),
        (10.0, "RELATED by the basis only", BASIS),
        (12.0, "RELATED by the basis only", BASIS),
        (15.0, "RELATED by the basis only", BASIS),
    ],
)
def test_of_models_that_began_alike_no_cause_is_named_as_the_only_one(tmp_path, monkeypatch, noise, words, said):
    """What training adds to a start is drawn, for the one and the other."""
    monkeypatch.setattr(models, "HIDDEN", 256)
    start = tiny_llama(tmp_path / "start", layers=6, width=96)
    one, other = (fine_tuned(start, tmp_path / str(seed), noise, seed) for seed in (1, 2))
    verdict = compare(str(one), str(other), Options(order_seed=1, permutations=999)).rows[0].verdict
    assert verdict.words == words
    assert verdict.reason.endswith(said)
