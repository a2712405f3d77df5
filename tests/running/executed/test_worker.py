"""The process answers three requests: to load a model, to measure it, and to hold some of its parts at their mean."""

from dataclasses import asdict, replace

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


def test_it_measures_every_kind_of_input_and_holds_parts_on_the_first(server, tmp_path):
    answer = server.answer({"action": "measure", "given": {"seed": 4}})
    kinds = answer["values"]["kinds"]
    assert {kind: each["shape"] for kind, each in kinds.items()} == {"text": [64, 10], "random": [2, 256]}
    arrays = load_file(tmp_path / server.write(answer["arrays"]))
    assert arrays["text mlp 1 0"].shape == (40,)
    assert arrays["random value_output 0 0"].shape == (4,)
    held = server.answer({"action": "hold", "given": {"parts": {"mlp 0 0": list(range(40))}}})
    assert (held["values"]["unit"], held["values"]["kind"], held["arrays"]["moved"].shape) == ("nats", "text", (64,))


def test_it_tells_what_was_written_to_disk_before_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "bounded", lambda limit: None)
    name = "MixtralForCausalLM"
    on_disk = replace(asked(saved(tmp_path / "model", name), name), offload=True, memory={"cpu": 0}, disk=2**20)
    values = Server(tmp_path).answer({"action": "load", "given": asdict(on_disk)})["values"]
    assert 50_000 < values["written"] < values["on_disk"]
    assert (values["passes"], values["seconds"] > 0) == (10, True)


def test_it_answers_nothing_else(server):
    with pytest.raises(KeyError):
        server.answer({"action": "eval", "given": {}})
