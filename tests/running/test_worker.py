"""The process answers three requests: to load a model, to run it, and to hold some of its parts."""

from dataclasses import asdict

import pytest
import torch

from hf_lineage.running import worker
from hf_lineage.running.load import CannotRunError
from tests.running.models import asked, saved


def test_what_is_not_finite_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "limit_memory", lambda limit: None)
    server = worker.Server(tmp_path)
    request = asdict(asked(saved(tmp_path / "model", "LlamaForCausalLM"), "LlamaForCausalLM"))
    assert server.answer({"action": "load", "given": request})["unexpected"] == []
    server._loaded.model.lm_head.weight.data[:] = torch.inf
    with pytest.raises(CannotRunError, match="what it says is not finite"):
        server.answer({"action": "run", "given": {"seed": 4}})
