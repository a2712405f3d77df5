"""A model in another stream is found by the weights of known models; an independent one is not, and p is corrected."""

import pytest

from hf_lineage import Options
from hf_lineage.hub.reference import RepoRef
from hf_lineage.index.search.pairwise_test import by_weights
from tests import streams
from tests.models import EXAMPLES

OPTIONS = Options(local_hub=EXAMPLES, permutations=199, order_seed=0)


def result(source, catalogue, most=3):
    return by_weights(RepoRef(str(source), source), catalogue, OPTIONS, most)


STREAMS = {
    "rotated": (streams.rotated, {}),
    "narrowed": (streams.narrowed(64), {"hidden_size": 64}),
    "widened": (streams.widened(128), {"hidden_size": 128}),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_model_in_another_stream_is_found_and_its_group_is_named(catalogue, tmp_path, stream):
    change, config = STREAMS[stream]
    model = streams.written("fern/llama-finetune-a", tmp_path / "x", change, **config)
    found = result(model, catalogue)
    (related,) = [one for one in found.tested if one.related]
    assert related.group.entry.model == "acme/llama-base"
    assert "fern/llama-finetune-a" in [one.model for one in related.group.near]
    assert found.tests == len(found.tested) == 3
    assert related.verdict.framed.p_value * found.tests <= OPTIONS.alpha


@pytest.mark.parametrize("stream", STREAMS)
def test_an_independent_model_in_another_stream_has_no_relative(catalogue, tmp_path, stream):
    change, config = STREAMS[stream]
    model = streams.written("magpie/llama-liar", tmp_path / "x", change, **config)
    assert not any(one.related for one in result(model, catalogue).tested)


@pytest.mark.parametrize("name", ["otter/llama-independent"])
def test_the_model_itself_is_left_out(catalogue, name):
    found = by_weights(RepoRef(name, EXAMPLES / name), catalogue, OPTIONS, 10)
    held = [one.model for judged in found.tested for one in (judged.group.entry, *judged.group.near)]
    assert name not in held
    assert found.fitting == len(held) + found.untested == 6


def test_a_base_that_is_declared_is_read_first(catalogue):
    name = "magpie/llama-laundered"
    found = by_weights(RepoRef(name, EXAMPLES / name), catalogue, OPTIONS, 1)
    assert [one.group.entry.model for one in found.tested] == ["acme/llama-base"]
    assert found.tested[0].verdict.verified
    assert found.untested > 0
