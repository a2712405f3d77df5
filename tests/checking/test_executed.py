"""Verified is a word about what a model computes: outputs of real modules stand beside the verdict on each folder."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from hf_lineage import Options, extract
from hf_lineage.evidence import permutation
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.identify import identify
from hf_lineage.index.store import Catalogue
from tests import attacks, forgeries, unseen
from tests.checking.conftest import BASE, OTHER, TUNED, compared
from tests.decoys import made
from tests.forgeries import ROWS, SEEN_BY_RUNNING, turn_off
from tests.forging.outputs import SAME, moved, run
from tests.gguf_models import KINDS, write
from tests.laundering import outputs
from tests.models import EXAMPLES
from tests.streams import rotated, written

STORED = Options(seed=3, permutations=199)
MLP = replace(STORED, paths=("mlp",))
NOT_BUILT = {name for name in ROWS if re.search("turns off|no experts", name)}
"""Switches by which the class does not build what was judged, so that there is nothing to run: that is what is told."""
NO_TEXT = {"a projection of WavLM that drowns the layers"}
FEWER = {name for name in ROWS if re.search("shared|V4|Kolibri|LongCat", name)}
"""Switches of which the idle units are not more than half, so that nothing is verified without a run: not run here."""


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True)


def ran(folder, name):
    return run(getattr(transformers, name).from_pretrained(folder, local_files_only=True).eval())


def judged(folder, base=EXAMPLES / BASE, **options):
    return compared(base, folder, **options).verdict


def judged_twice(folder, base=EXAMPLES / BASE):
    """The label of a whole check and that of a quick check."""
    return [judged(folder, base, budget=budget).label for budget in ("full", "quick")]


def attacked(folder, source, attack, other=BASE):
    """Save a trained Llama after an attack, and return by how much that moved what it says to text."""
    torch.manual_seed(0)
    model = load(EXAMPLES / source)
    before = forgeries.spoken(model)
    attack(model, load(EXAMPLES / other))
    model.save_pretrained(folder)
    return moved([forgeries.spoken(load(folder))], [before])


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.few(2)
def test_idle_weights_of_the_base_verify_nothing_unless_only_running_shows_it(tmp_path, name):
    row = ROWS[name]
    pair = made(row.of, row.wanted, tmp_path)
    forgery = row.made(*pair.tensors())
    without = ran(pair.write(forgery.noise(), **forgery.settings), row.of)
    folder = pair.write(forgery.tensors, **forgery.settings)
    assert moved(ran(folder, row.of), without) < SAME
    assert ["VERIFIED" in label for label in judged_twice(folder, pair.a)] == [name in SEEN_BY_RUNNING] * 2


@pytest.mark.parametrize(("crude", "count"), [(True, 1), (False, 1), (False, 3)])
@pytest.mark.few(1)
def test_loud_layers_that_do_nothing_take_no_word_from_a_copy_or_make_it_unrelated(tmp_path, crude, count):
    assert attacked(tmp_path, BASE, partial(forgeries.inserted, crude=crude, count=count), OTHER) < SAME
    labels = judged_twice(tmp_path)
    assert "UNRELATED" not in labels
    assert count == 3 or labels == ["VERIFIED inherited"] * 2


@pytest.mark.parametrize("factor", [1e4, 1e6])
@pytest.mark.few(1)
def test_layers_that_a_large_stream_drowns_verify_nothing(tmp_path, factor):
    folders = tmp_path / "drowned", tmp_path / "noise"
    for folder, other in zip(folders, (BASE, "moss/llama-continued"), strict=True):
        attacked(folder, OTHER, forgeries.drowned(factor), other)
    assert moved(*([forgeries.spoken(load(folder))] for folder in folders)) < 3 * SAME
    assert judged_twice(folders[0]) == ["RELATED part"] * 2, "the attention that drowns them is not the base's"
    assert judged(write(folders[0], tmp_path / "drowned.gguf", kind=KINDS.Q4_0)).label == "RELATED part"


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [1, 3])
def test_an_index_names_no_verified_relative_of_a_model_with_idle_layers_of_the_base(tmp_path, count):
    catalogue = Catalogue(tmp_path / "index")
    catalogue.add(extract(str(EXAMPLES / BASE)))
    attack = partial(forgeries.inserted, count=count, crude=False)
    assert attacked(tmp_path / "forged", OTHER, attack) < SAME
    result = identify(extract(str(tmp_path / "forged")), "mlp", catalogue, Criteria(permutations=999))
    assert [one.entry.model for one in result.related if one.verdict.verified] == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["GemmaForCausalLM", "T5ForConditionalGeneration", "OPTForCausalLM"])
def test_an_embedding_that_is_large_by_its_class_takes_no_word_from_a_copy(tmp_path, name):
    """Gemma multiplies it with the root of the width, T5 begins with large rows, OPT adds places."""
    pair = made(name, {}, tmp_path)
    a, _ = pair.tensors()
    ten_times = {key: tensor * (10 if "embed" in key or key == "shared.weight" else 1) for key, tensor in a.items()}
    assert judged_twice(pair.write(ten_times), pair.a) == ["VERIFIED inherited"] * 2
    assert not any("VERIFIED" in label for label in judged_twice(pair.b, pair.a))


HIDING = {
    "one unit whose norms overflow": (attacks.overflow, True),
    "64 dead units, thirty times as large": (attacks.dead_noise(64, 30), True),
    "one dead unit, a million times as large": (attacks.dead_noise(1, 1e3), True),
    "one unit split into 350": (attacks.split(350), True),
    "more dead units than the model has": (attacks.dead_noise(352, 10), False),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("attack", "verified"), HIDING.values(), ids=HIDING)
def test_dead_weight_hides_no_copy_and_leaves_what_heads_show_where_it_is_too_much(tmp_path, attack, verified):
    assert attacked(tmp_path, BASE, attack) < 1e-4
    verdict = judged(tmp_path)
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited" if verified else "RELATED part", verified)
    assert (verdict.evidence["mlp"].inherited.share > 0.7) is verified


FORGING = {
    "one layer behind gates that are all alike": partial(forgeries.inserted, count=1, loud=1.0),
    "the first singular direction of the base, overflowing": attacks.singular,
    "one loud layer behind gates that are all alike": partial(forgeries.inserted, count=1),
    "two loud layers behind gates that are all alike": partial(forgeries.inserted, count=2),
    "one layer behind its own gates, moved until they are shut": partial(forgeries.inserted, crude=False, loud=1.0),
    "one loud layer behind its own gates": partial(forgeries.inserted, crude=False),
    "two loud layers behind their own gates": partial(forgeries.inserted, crude=False, count=2),
    "three loud layers behind their own gates": partial(forgeries.inserted, crude=False, count=3),
    "the base's units behind closed gates, three times as large": attacks.carried(0.0, 3**0.5),
    "the base's units behind gates that hardly open": attacks.carried(1e-5, 3**0.5),
    "a copy of the base's units that writes a millionth": attacks.carried(1.0, 1.0, down=1e-6),
    "two copies of the base's units that write a millionth": attacks.carried(1.0, 1.0, copies=2, down=1e-6),
    "the base's units, each beside its opposite": attacks.cancelling,
    "the base's layers, their outputs times 1e-15": attacks.faint_layers,
}


@pytest.mark.parametrize("attack", FORGING.values(), ids=FORGING)
@pytest.mark.few(2)
def test_dead_layers_and_units_of_the_base_do_not_forge_descent(tmp_path, attack):
    """As many units as the model has show in its MLPs; its heads show nothing."""
    assert attacked(tmp_path, OTHER, attack) < 1e-3
    assert not any("VERIFIED" in label for label in judged_twice(tmp_path))


def loud_opposites(tensors):
    """Random units behind those there are, twenty times as loud, each beside its opposite: together they do nothing."""
    torch.manual_seed(0)
    changed = dict(tensors)
    for name in [name for name in tensors if name.endswith("mlp.down_proj.weight")]:
        more = torch.randn(96, 512)
        changed[name] = torch.cat([tensors[name], 20 * more, -20 * more], dim=1)
        for reader in (name.replace("down_proj", "gate_proj"), name.replace("down_proj", "up_proj")):
            rows = torch.randn(512, 96)
            changed[reader] = torch.cat([tensors[reader], rows, rows])
    return changed


@pytest.mark.long
def test_loud_units_beside_their_opposites_do_not_make_a_rotated_copy_unrelated(tmp_path):
    config = {"intermediate_size": 256 + 1024, "dtype": "float32"}
    folder = written(BASE, tmp_path / "copy", rotated, loud_opposites, **config)
    before, after = outputs(load(EXAMPLES / BASE)), outputs(load(folder))
    assert float((after - before).abs().max() / before.std()) < 0.2
    verdict = judged(folder)
    assert (verdict.code, int(verdict.exit_code)) == ("inconclusive", 3)
    said = "most of what its hidden units write is cancelled by other units of the same layer"
    assert verdict.reason.startswith(said)


def test_a_constant_on_the_stream_that_layer_norm_takes_out_hides_nobody(tmp_path, monkeypatch):
    """Every writer of a fine-tuned GPT-2 adds one number to all residual coordinates, far larger than its weights."""
    model = load(EXAMPLES / "fern/gpt2-finetune-a")
    before = outputs(model)
    for name, weight in model.named_parameters():
        if name.endswith("c_proj.weight"):
            weight.data += 100 * weight.std() * torch.randn(len(weight), 1, generator=torch.Generator().manual_seed(0))
    assert (outputs(model) - before).abs().max() < 1e-3 * before.std()
    model.save_pretrained(tmp_path)
    found = judged(tmp_path, EXAMPLES / "acme/gpt2-base")
    assert (found.verified, found.by_path["mlp"].code) == (True, "inherited")
    monkeypatch.setattr(permutation, "_over", lambda inner, norms: inner)
    found = judged(tmp_path, EXAMPLES / "acme/gpt2-base")
    assert found.by_path["mlp"].code == "unrelated", "flips move the means, which have to leave the norm as well"


def test_a_product_that_was_blended_in_without_its_units_verifies_nothing(tmp_path):
    attacked(tmp_path, OTHER, attacks.blended)
    verdict = judged(tmp_path)
    assert verdict.evidence["mlp"].p_value == 0.003
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED embedding", False, 3)


def executed(folder, base=EXAMPLES / BASE, options=STORED, run=True):
    return compared(base, folder, options, run=run).verdict


def test_a_descendant_loses_much_without_what_it_inherits_and_another_model_nothing():
    verdict = executed(EXAMPLES / "moss/llama-continued")
    found = verdict.executed
    assert (verdict.label, verdict.is_executed, found.complete) == ("VERIFIED inherited", True, True)
    assert found.ablation.inherited.mean > 1
    assert found.ablation.others.mean < 0.5
    assert found.ablation.equal.parts == found.ablation.others.parts
    assert found.ran.model == str(EXAMPLES / "moss/llama-continued")
    assert 0.8 < verdict.evidence["mlp"].inherited.share < 1
    verdict = executed(EXAMPLES / OTHER)
    assert (verdict.label, verdict.executed.ran, verdict.executed.problem) == ("UNRELATED", None, "")
    assert verdict.evidence["mlp"].p_value > 0.01


@pytest.mark.long
def test_a_copy_around_a_few_units_that_do_the_work_is_not_verified_by_running(tmp_path):
    """Units count alike: of 256 in a layer 24 are of another model, and write nearly everything."""
    model = load(EXAMPLES / BASE)
    for layer, source in zip(model.model.layers, load(EXAMPLES / OTHER).model.layers, strict=True):
        for own, other in ((layer.mlp.gate_proj, source.mlp.gate_proj), (layer.mlp.up_proj, source.mlp.up_proj)):
            own.weight.data[:24] = 9 * other.weight.data[:24]
        layer.mlp.down_proj.weight.data[:, :24] = source.mlp.down_proj.weight.data[:, :24]
    model.save_pretrained(tmp_path)
    assert executed(tmp_path, run=False).verified
    verdict = executed(tmp_path)
    assert (verdict.label, verdict.executed.problem) == ("RELATED unused", "")


@pytest.mark.long
@pytest.mark.parametrize("name", unseen.ACTING)
def test_layers_that_act_on_some_positions_alone_verify_nothing(tmp_path, name):
    unseen.on_positions(name, tmp_path)
    within, beyond = unseen.moved_on_positions(tmp_path)
    assert (within < 0.01) != (beyond < 0.01)
    verdict = executed(tmp_path / "forged", tmp_path / "base", MLP)
    assert (verdict.verified, verdict.executed.problem) == (False, "")


@pytest.mark.parametrize(("tokenizer", "seed"), [("own", 3), ("base", 4)])
@pytest.mark.few(1)
def test_units_that_only_tokens_open_which_no_text_holds_verify_nothing(tmp_path, tokenizer, seed):
    """Where the model wrote its own text and read random tokens, it was verified by running."""
    unseen.on_tokens(tmp_path)
    text = Path("README.md").read_text("utf-8")[:2000]
    tokens = [unseen.tokens_of_bytes().encode(text).ids]
    assert unseen.moved_on_tokens(tmp_path, torch.tensor(tokens)) < 1e-3
    assert unseen.moved_on_tokens(tmp_path, torch.randint(unseen.TOKENS, (2, 256))) > 0.1
    if tokenizer == "base":
        (tmp_path / "forged/tokenizer.json").unlink()
    options = replace(MLP, seed=seed)
    assert executed(tmp_path / "forged", tmp_path / "base", options, run=False).verified
    verdict = executed(tmp_path / "forged", tmp_path / "base", options)
    assert (verdict.verified, verdict.executed.problem) == (False, "")
    assert verdict.executed.ran.tokens_of == tokenizer


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ROWS.keys() - FEWER, reverse=True))
def test_each_switch_is_found_by_running_with_the_rules_turned_off(tmp_path, monkeypatch, name):
    turn_off(monkeypatch)
    row = ROWS[name]
    pair = made(row.of, row.wanted, tmp_path)
    forgery = row.made(*pair.tensors())
    verdict = executed(pair.write(forgery.tensors, **forgery.settings), pair.a, MLP)
    assert not verdict.verified
    if name in (*NOT_BUILT, *NO_TEXT):
        why = "it is run on text alone, and" if name in NO_TEXT else "the class does not build .*, which was judged"
        assert re.search(f"could not be run: {why}", verdict.executed.problem)
    else:
        assert (verdict.executed.problem, verdict.executed.ran.model) == ("", str(pair.folder))
    assert executed(pair.folder, pair.a, MLP, run=False).verified


def test_what_cannot_be_run_is_not_verified_and_the_reason_is_told(tmp_path):
    file = write(EXAMPLES / TUNED, tmp_path / "model.gguf", kind=KINDS.F16)
    verdict = executed(file)
    assert (verdict.label, verdict.verified, verdict.exit_code) == ("RELATED unused", False, 3)
    assert executed(file, run=False).verified
    assert "could not be run: transformers is given safetensors files and a whole config" in verdict.executed.problem
    verdict = executed(EXAMPLES / "fern/llama-lora")
    assert (verdict.is_related, verdict.is_executed) == (True, False)
    assert verdict.executed.problem.startswith("an adapter is judged by the factors that it stores; to run it, merge")
