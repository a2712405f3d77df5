"""The process answers three requests: to load a model, to measure it, and to hold some of its parts at their mean."""

from dataclasses import asdict

import pytest
from safetensors.numpy import load_file

from hf_lineage.running.executed import worker
from hf_lineage.running.executed.worker import Server
from tests.running.executed.models import asked, saved


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "bounded", lambda limit: None)
    served = Server(tmp_path)
    request = asdict(asked(saved(tmp_path / "model", "LlamaForCausalLM"), "LlamaForCausalLM"))
    assert served.answer({"action": "load", "given": request})["values"]["unexpected"] == []
    return served


def test_it_measures_every_kind_of_input_and_holds_parts_on_the_short_one(server, tmp_path):
    answer = server.answer({"action": "measure", "given": {"seed": 4}})
    kinds = answer["values"]["kinds"]
    assert {kind: each["shape"] for kind, each in kinds.items()} == {"short": [32, 16], "long": [1, 1024]}
    arrays = load_file(tmp_path / server.write(answer["arrays"]))
    assert arrays["short mlp 1 0"].shape == (40,)
    assert arrays["long value_output 0 0"].shape == (4,)
    held = server.answer({"action": "hold", "given": {"parts": {"mlp 0 0": list(range(40))}}})
    assert (held["values"]["unit"], held["values"]["kind"], held["arrays"]["moved"].shape) == ("nats", "short", (32,))


def test_it_answers_nothing_else(server):
    with pytest.raises(KeyError):
        server.answer({"action": "eval", "given": {}})
