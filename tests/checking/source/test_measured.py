"""What parts wrote takes the place of what weights let expect, and leaves the p-value exact."""

import itertools
from dataclasses import replace

import numpy as np
import torch

from hf_lineage import Options
from hf_lineage.checking.source.measured import with_measured
from hf_lineage.checking.source.model import FromWeights
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.evaluation import evaluate
from hf_lineage.running.executed.recording import Running, sizes_by_writer
from tests.running.executed.models import inputs, loaded, opened, saved


def independent(folder, seed):
    """The signature of a random model that was run in this process."""

    def anew(model):
        torch.manual_seed(seed)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.3)

    model = loaded(saved(folder / str(seed), "LlamaForCausalLM", anew), "LlamaForCausalLM")
    each = inputs(model, seed=seed)[0]
    run = Running(model, each.first)
    run.go(each.given)
    sizes = {key: size.double().numpy() for key, size in sizes_by_writer(model, run.record).items()}
    by_weights = opened(folder / str(seed))
    measured = replace(by_weights, layout=with_measured(by_weights.layout, sizes, {}), ran=True)
    return FromWeights.from_opened(measured, Options(), False).signature()


def test_p_of_independent_models_that_ran_is_uniform(tmp_path):
    signatures = [independent(tmp_path, seed) for seed in range(10)]
    p_values = [evaluate(a, b, Criteria()).evidence["mlp"].p_value for a, b in itertools.combinations(signatures, 2)]
    assert len(p_values) == 45
    assert 0.4 < np.mean(p_values) < 0.6
    assert sum(p <= 0.1 for p in p_values) <= 10
    assert sum(p <= 0.01 for p in p_values) <= 2
