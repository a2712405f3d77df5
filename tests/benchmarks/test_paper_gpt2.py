"""The parts of the paper's GPT-2 experiments on cases whose answer is known."""

import numpy as np
import pytest
import torch

from benchmarks.paper.parts.language import documentation
from benchmarks.paper.parts.pairing import trace_scores
from benchmarks.paper.parts.scores import paired


def test_held_out_text_shares_no_paragraph_with_the_training_text():
    corpus = documentation()
    training, held_out = (bytes(text.tolist()).decode().split("\n\n") for text in (corpus.training, corpus.held_out))
    long = {part for part in held_out if len(part) > 60}
    assert long
    assert not long & set(training)


def test_trace_scores_of_orthogonal_matrices_lie_on_the_diagonal():
    turns = [torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))).Q for seed in range(3)]
    scores = trace_scores(turns, [turn.T for turn in turns])
    assert np.diagonal(scores) == pytest.approx(8**0.5)
    assert paired(scores).accuracy == paired(scores).auc == 1
