"""The parts of the paper's GPT-2 experiments on cases whose answer is known."""

import copy
import json

import numpy as np
import pytest
import torch

from benchmarks.paper.experiment import Bench
from benchmarks.paper.items import gpt2_centering, gpt2_latency
from benchmarks.paper.parts import language
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.gpt2 import SMOKE, Benchmark, load
from benchmarks.paper.parts.judges import Readers, lineage, lineage_signature, tensors
from benchmarks.paper.parts.laundering import FunctionError
from benchmarks.paper.parts.metrics import paired
from benchmarks.paper.parts.pairing import trace_scores
from benchmarks.paper.parts.text import documentation
from benchmarks.paper.parts.transformations import pruned


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    scratch = tmp_path_factory.mktemp("paper")
    yield Bench("smoke", Cache(scratch), scratch / "figures")
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def benchmark(bench):
    return Benchmark.of(bench)


def test_held_out_text_shares_no_paragraph_with_the_training_text():
    corpus = documentation()
    training, held_out = (bytes(text.tolist()).decode().split("\n\n") for text in (corpus.training, corpus.held_out))
    long = {part for part in held_out if len(part) > 60}
    assert long
    assert not long & set(training)


def test_a_model_that_was_made_is_found_again(benchmark):
    first = benchmark.root(0)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert benchmark.root(0) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp


def test_training_learns_something(benchmark):
    windows = benchmark.corpus.windows(8, SMOKE.shape.context)
    with torch.no_grad():
        before, after = (
            float(language.next_token(load(folder), windows)) for folder in (benchmark.untrained(0), benchmark.root(0))
        )
    assert after < before - 1


def test_a_merged_adapter_moves_every_matrix_of_the_blocks_by_a_product_of_its_rank(benchmark):
    before, after = (load(folder) for folder in (benchmark.root(1), benchmark.descendants(1)["LoRA merged"]))
    ours, theirs = (dict(model.named_parameters()) for model in (before, after))
    moved = {name: (theirs[name] - matrix).detach() for name, matrix in ours.items() if matrix.ndim == 2}
    ranks = {name: int(torch.linalg.matrix_rank(change, rtol=1e-4)) for name, change in moved.items()}
    assert {name: rank for name, rank in ranks.items() if ".h." in name} == {name: 8 for name in ranks if ".h." in name}
    assert all(rank == 0 for name, rank in ranks.items() if ".h." not in name)


def test_pruning_reaches_every_matrix_and_spares_the_original(benchmark):
    model = load(benchmark.root(0))
    found = language.edited(model, lambda matrix: pruned(matrix, 0.5))
    for name, matrix in found.named_parameters():
        if matrix.ndim == 2:
            assert float((matrix == 0).float().mean()) == pytest.approx(0.5, abs=0.01), name
    assert all((matrix == 0).sum() == 0 for _, matrix in model.named_parameters() if matrix.ndim == 2)


def test_a_permuted_model_has_the_same_score_and_other_weights(benchmark, tmp_path):
    model = load(benchmark.root(0))
    windows = benchmark.corpus.windows(2, SMOKE.shape.context)
    changed = language.permuted(model, 0, windows)
    changed.save_pretrained(tmp_path)
    assert not torch.equal(changed.transformer.h[0].mlp.c_fc.weight, model.transformer.h[0].mlp.c_fc.weight)
    assert lineage(benchmark.root(0), tmp_path) == pytest.approx(1, abs=1e-6)


def test_an_edit_that_changes_the_function_is_refused(benchmark, monkeypatch):
    model = load(benchmark.root(0))
    monkeypatch.setattr(language, "rearranged", lambda w_in, b_in, w_out, order, scale: (w_in[order], b_in, w_out))
    with pytest.raises(FunctionError):
        language.permuted(model, 0, benchmark.corpus.windows(2, SMOKE.shape.context))


def test_a_model_is_like_itself(benchmark):
    model = load(benchmark.root(0))
    found = language.likeness(model, copy.deepcopy(model), benchmark.corpus.windows(2, SMOKE.shape.context))
    assert (found.agreement, found.perplexity) == (1, pytest.approx(1))
    assert found.divergence == pytest.approx(0, abs=1e-6)


def test_methods_that_run_models_give_a_model_and_itself_one(benchmark):
    readers = Readers(benchmark.corpus.windows(4, SMOKE.shape.context)).by_name
    root = benchmark.root(0)
    assert {name: pytest.approx(method(root, root), abs=1e-6) for name, method in readers.items()} == dict.fromkeys(
        readers, 1
    )


def test_matrices_come_as_they_multiply(benchmark):
    root = benchmark.root(0)
    products = [out @ inn for inn, out in tensors(root)]
    assert [float(product.trace()) for product in products] == pytest.approx(
        lineage_signature(root).trace.tolist(), abs=1e-4
    )


def test_the_plain_equations_and_the_library_agree(benchmark):
    one, other = (tensors(benchmark.root(number)) for number in (0, 1))
    assert gpt2_latency.plain(one, other) == pytest.approx(lineage(benchmark.root(0), benchmark.root(1)), abs=1e-5)


def test_trace_scores_of_orthogonal_matrices_lie_on_the_diagonal():
    turns = [torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))).Q for seed in range(3)]
    scores = trace_scores(turns, [turn.T for turn in turns])
    assert np.diagonal(scores) == pytest.approx(8**0.5)
    assert paired(scores).accuracy == paired(scores).auc == 1


def test_the_pairs_of_the_paper_are_counted(benchmark):
    pairs = list(benchmark.pairs())
    test, others = len(SMOKE.test), SMOKE.roots - 1
    assert sum(pair.related for pair in pairs) == 7 * test
    assert [pair.kind for pair in pairs].count("independent") == others * test
    kinds = [pair.kind for pair in gpt2_centering.pairs(benchmark)]
    assert kinds.count("independent") == test * (test - 1) // 2


def test_untrained_models_keep_their_configuration(benchmark):
    ours, theirs = (json.loads((benchmark.root(0) / "config.json").read_text()), SMOKE.shape)
    assert (ours["n_layer"], ours["n_embd"]) == (theirs.layers, theirs.width)
