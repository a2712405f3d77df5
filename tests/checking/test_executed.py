"""Where a model loses nothing without what it inherits, nothing is verified; else running changes no verdict."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hf_lineage import Options
from tests import positions, unspoken
from tests.checking.conftest import compared
from tests.checking.test_used_weights import load
from tests.decoys import made
from tests.forgeries import ROWS
from tests.gguf_models import KINDS, write
from tests.models import EXAMPLES
from tests.rules_off import turn_off

BASE, INDEPENDENT = EXAMPLES / "acme/llama-base", EXAMPLES / "otter/llama-independent"
STORED = Options(seed=3, permutations=199)
MLP = replace(STORED, paths=("mlp",))


def judged(folder, base=BASE, options=STORED, run=True):
    return compared(base, folder, options, run=run).verdict


def test_a_descendant_is_executed_and_loses_much_without_what_it_inherits():
    verdict = judged(EXAMPLES / "moss/llama-continued")
    executed = verdict.executed
    assert (verdict.label, verdict.is_executed, executed.complete) == ("VERIFIED inherited", True, True)
    assert executed.ablation.inherited.mean > 1
    assert executed.ablation.others.mean < 0.5
    assert executed.ablation.equal.parts == executed.ablation.others.parts
    assert executed.ran.model == str(EXAMPLES / "moss/llama-continued")
    assert 0.8 < verdict.evidence["mlp"].inherited.share < 1


def test_an_independent_model_stays_unrelated_and_nothing_is_taken_out():
    verdict = judged(INDEPENDENT)
    assert (verdict.label, verdict.executed.ran, verdict.executed.problem) == ("UNRELATED", None, "")
    assert verdict.evidence["mlp"].p_value > 0.01


@pytest.mark.long
def test_a_copy_around_a_few_units_that_do_the_work_is_verified_by_what_it_stores_and_not_by_running(tmp_path):
    """Units count alike: of 256 in a layer 24 are of another model, and write nearly everything."""
    model = load(BASE)
    for layer, source in zip(model.model.layers, load(INDEPENDENT).model.layers, strict=True):
        for own, other in ((layer.mlp.gate_proj, source.mlp.gate_proj), (layer.mlp.up_proj, source.mlp.up_proj)):
            own.weight.data[:24] = 9 * other.weight.data[:24]
        layer.mlp.down_proj.weight.data[:, :24] = source.mlp.down_proj.weight.data[:, :24]
    model.save_pretrained(tmp_path)
    assert judged(tmp_path, run=False).verified
    verdict = judged(tmp_path)
    assert (verdict.label, verdict.executed.problem) == ("RELATED unused", "")


@pytest.mark.long
@pytest.mark.parametrize("name", positions.ACTING)
def test_layers_that_act_on_some_positions_alone_verify_nothing(tmp_path, name):
    positions.made(name, tmp_path)
    within, beyond = positions.moved(tmp_path).values()
    assert (within < 0.01) != (beyond < 0.01)
    verdict = judged(tmp_path / "forged", tmp_path / "base", MLP)
    assert (verdict.verified, verdict.executed.problem) == (False, "")


@pytest.mark.parametrize(("tokenizer", "seed"), [("own", 3), ("base", 4)])
@pytest.mark.few(1)
def test_units_that_only_tokens_open_which_no_text_holds_verify_nothing(tmp_path, tokenizer, seed):
    """Where the model wrote its own text and read random tokens, it was verified by running."""
    unspoken.made(tmp_path)
    text = Path("README.md").read_text("utf-8")[:2000]
    tokens = [unspoken.tokens_of_bytes().encode(text).ids]
    assert unspoken.moved(tmp_path, torch.tensor(tokens)) < 1e-3
    assert unspoken.moved(tmp_path, torch.randint(unspoken.TOKENS, (2, 256))) > 0.1
    if tokenizer == "base":
        (tmp_path / "forged/tokenizer.json").unlink()
    options = replace(MLP, seed=seed)
    assert judged(tmp_path / "forged", tmp_path / "base", options, run=False).verified
    verdict = judged(tmp_path / "forged", tmp_path / "base", options)
    assert (verdict.verified, verdict.executed.problem) == (False, "")
    assert verdict.executed.ran.tokens_of == tokenizer


NOT_BUILT = {name for name in ROWS if re.search("turns off|no experts", name)}
"""Switches by which the class does not build what was judged, so that there is nothing to run: that is what is told."""
NO_TEXT = {"a projection of WavLM that drowns the layers"}
FEWER = {name for name in ROWS if re.search("shared|V4|Kolibri|LongCat", name)}
"""Switches of which the idle units are not more than half, so that nothing is verified without a run: not run here."""


@pytest.mark.parametrize("name", sorted(ROWS.keys() - FEWER, reverse=True))
@pytest.mark.few(1)
def test_each_switch_is_found_by_running_with_the_rules_turned_off_without_which_it_would_be_verified(
    tmp_path, monkeypatch, name
):
    turn_off(monkeypatch)
    row = ROWS[name]
    pair = made(row.of, row.wanted, tmp_path)
    forgery = row.made(*pair.tensors())
    verdict = judged(pair.write(forgery.tensors, **forgery.settings), pair.a, MLP)
    assert not verdict.verified
    if name in (*NOT_BUILT, *NO_TEXT):
        why = "it is run on text alone, and" if name in NO_TEXT else "the class does not build .*, which was judged"
        assert re.search(f"could not be run: {why}", verdict.executed.problem)
    else:
        assert (verdict.executed.problem, verdict.executed.ran.model) == ("", str(pair.folder))
    assert judged(pair.folder, pair.a, MLP, run=False).verified


def test_what_cannot_be_run_is_not_verified_and_the_reason_is_told(tmp_path):
    file = write(EXAMPLES / "fern/llama-finetune-a", tmp_path / "model.gguf", kind=KINDS.F16)
    verdict = judged(file)
    assert (verdict.label, verdict.verified, verdict.exit_code) == ("RELATED unused", False, 3)
    assert judged(file, run=False).verified
    assert "could not be run: transformers is given safetensors files and a whole config" in verdict.executed.problem
    verdict = judged(EXAMPLES / "fern/llama-lora")
    assert (verdict.is_related, verdict.is_executed) == (True, False)
    assert verdict.executed.problem.startswith("an adapter is judged by the factors that it stores; to run it, merge")
