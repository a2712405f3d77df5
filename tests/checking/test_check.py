"""From names to verdicts, on the really trained models of the example Hub; no cause is named as the only one."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, DistilBertConfig, DistilBertForMaskedLM

from hf_lineage import Options, check, compare, extract
from hf_lineage.errors import OptionError
from hf_lineage.report import text
from hf_lineage.signature.recipe import RECIPES
from tests import models
from tests.adapters import teach
from tests.blends import blended
from tests.checking.conftest import BASE, OTHER, TUNED, compared
from tests.models import WEIGHTS, card, edit_json, fine_tuned, spoil, tiny_llama
from tests.published.steps import torch_file

HUB = Path(__file__).parents[2] / "examples" / "hub"
ALL_PATHS = ("mlp", "mlp_gate", "value_output", "query_key")
MERGED = ("README.md", "mergekit_config.yml")
OPTIONS = Options(local_hub=HUB)
ALL, FEW, AGAIN = range(6), range(5), (0, 1, 2, 3, 4, 1, 2, 3, 4, 5)
SIZES = {"vocab_size": 256, "dim": 64, "hidden_dim": 128, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 48}
STEPS = 600


def only_row(report):
    (row,) = report.rows
    return row


def test_pickles_are_read_of_every_model_where_the_options_allow_it(tmp_path):
    names = (BASE, TUNED, "fern/llama-lora")
    base, tuned, _ = (tmp_path / name for name in names)
    for name in names:
        shutil.copytree(HUB / name, tmp_path / name)
    for folder in (base, tuned):
        torch_file(folder)
    assert compared(base, tuned).verdict.code == "unsupported"
    allowed = Options(allow_pickle=True, local_hub=tmp_path)
    for report in (compare(str(base), str(tuned), allowed), check(TUNED, options=allowed)):
        assert (only_row(report).verdict.code, report.exit_code) == ("inherited", 0)
    assert only_row(check(names[2], options=allowed)).verdict.code == "adapter"
    assert only_row(check(names[2], options=replace(allowed, allow_pickle=False))).verdict.code == "unsupported"
    assert extract(str(tuned), allowed).layers == 6


@pytest.mark.parametrize(
    ("model", "rows", "code"),
    [
        (TUNED, [(BASE, "finetune", ("README.md",), "inherited")], 0),
        ("magpie/llama-liar", [(BASE, "finetune", ("README.md",), "unrelated")], 1),
        (BASE, [], 3),
        ("fern/llama-merge-a-b", [(f"fern/llama-finetune-{one}", "merge", MERGED, "merge") for one in "ab"], 0),
    ],
)
def test_each_claim_has_a_row_that_names_where_it_stands(model, rows, code):
    report = check(model, options=OPTIONS)
    assert [(row.claim.base, row.claim.relation, row.claim.sources, row.verdict.code) for row in report.rows] == rows
    assert report.exit_code == code
    assert [row.verdict.verified for row in report.rows] == [code == 0] * len(rows)
    if model == TUNED:
        assert report.rows[0].verdict.evidence["mlp"].p_value == 0.003


@pytest.mark.parametrize(
    ("copied", "layers", "label"),
    [(False, (0, 0, 0, 1, 1, 1, None, None), "VERIFIED merge"), (True, (0, 0, 0, *[None] * 5), "RELATED part")],
)
def test_two_parents_of_three_layers_verify_a_merge_and_one_with_its_copy_does_not(tmp_path, copied, layers, label):
    """Neither gave more than half, and some layers are nobody's."""
    folder, random = tmp_path / "hub/acme", torch.Generator().manual_seed(9)
    parents = [tiny_llama(folder / f"parent{seed}", seed=seed, layers=8) for seed in (0, 1)]
    if copied:
        parents[1] = shutil.copytree(parents[0], folder / "copy")
    weights = [load_file(parent / WEIGHTS) for parent in parents]

    def mix(tensors):
        for name, tensor in tensors.items():
            if ".layers." in name and tensor.ndim > 1:
                place = layers[int(name.split(".")[2])]
                nobodys = torch.randn(tensor.shape, generator=random) / tensor.shape[1] ** 0.5
                tensors[name] = nobodys if place is None else weights[place][name]

    merge = spoil(shutil.copytree(parents[0], tmp_path / "merge"), mix)
    card(merge, [f"acme/{parent.name}" for parent in parents], "merge")
    report = check(merge, options=Options(seed=0, local_hub=tmp_path / "hub"))
    assert [row.verdict.label for row in report.rows] == [label] * 2
    assert report.exit_code == (3 if copied else 0)
    for row in report.rows:
        assert row.claim.relation == "merge"
        assert row.verdict.reason.startswith("one of 2 parents of a merge") is not copied
        assert 0.3 < row.verdict.evidence["mlp"].inherited.share < 0.45
    alone = check(merge, parents[0], Options(seed=0))
    assert (only_row(alone).verdict.label, alone.exit_code) == ("RELATED part", 3)
    assert only_row(alone).verdict.reason.startswith("38% of what its units write is inherited, in layers 0-2; ")


@pytest.mark.parametrize(("recipe", "tests"), [("paper", 1), ("robust", 3)])
def test_every_path_tells_descendants_from_independent_models(recipe, tests):
    options = replace(OPTIONS, paths=ALL_PATHS, recipe=RECIPES[recipe])
    related = only_row(check(TUNED, options=options)).verdict
    assert {path: single.code for path, single in related.by_path.items()} == dict.fromkeys(ALL_PATHS, "inherited")
    assert related.evidence["mlp"].p_value == pytest.approx(tests / 1000), "four paths do not cost resolution"
    row = only_row(check(OTHER, [BASE], options))  # which is checked instead of what a card declares
    unrelated = row.verdict
    assert row.claim.base == BASE
    assert {path: single.code for path, single in unrelated.by_path.items()} == dict.fromkeys(ALL_PATHS, "unrelated")


def test_an_empirical_null_is_of_a_named_model_or_published_for_a_folder_too():
    row = only_row(check(TUNED, options=replace(OPTIONS, nulls=(OTHER,), paths=("mlp",))))
    null = row.verdict.evidence["mlp"].empirical
    assert (row.verdict.code, list(null.scores), null.p_value) == ("inherited", [OTHER], 0.5)
    assert abs(null.threshold) < 0.1
    published = Options(nulls=("llama-2-7b",), recipe=RECIPES["paper"])
    assert compared(HUB / BASE, HUB / TUNED, published).verdict.evidence["mlp"].empirical.threshold == 4e-4
    for options, message in (
        ({}, "was measured with recipe=paper --paths mlp"),
        ({"recipe": RECIPES["paper"], "paths": ("query_key",)}, "was measured with"),
        ({"recipe": RECIPES["paper"]}, "holds scores of meta-llama/Llama-2-7b-hf, not of"),
    ):
        with pytest.raises(OptionError, match=message):
            check(TUNED, options=Options(nulls=("llama-2-7b",), local_hub=HUB, **options))


def of_layers(folder, layers):
    """A model of these layers of the base, one after another."""
    weights = load_file(HUB / BASE / WEIGHTS)
    kept = {name: tensor for name, tensor in weights.items() if ".layers." not in name}
    for number, layer in enumerate(layers):
        there, here = f".layers.{layer}.", f".layers.{number}."
        kept |= {name.replace(there, here): tensor.clone() for name, tensor in weights.items() if there in name}
    folder.mkdir()
    save_file(kept, folder / WEIGHTS)
    shutil.copy(HUB / BASE / "config.json", folder)
    edit_json(folder / "config.json", num_hidden_layers=len(layers))
    return folder


@pytest.mark.few(1)
@pytest.mark.parametrize(("base", "model"), [(ALL, AGAIN), (ALL, FEW), (FEW, ALL)])
def test_a_model_with_repeated_layers_or_without_some_is_related_either_way(tmp_path, base, model):
    verdict = compared(of_layers(tmp_path / "base", base), of_layers(tmp_path / "model", model)).verdict
    comparison = verdict.evidence["mlp"].comparison
    assert (verdict.code, comparison.similarity.shape) == ("inherited", (len(base), len(model)))
    assert comparison.score == pytest.approx(1)


def test_of_unlike_depths_the_report_says_so_and_there_is_no_empirical_null(tmp_path):
    few = of_layers(tmp_path / "few", FEW)
    sentences = " ".join(text.render(compare(HUB / BASE, few), True).split())
    assert "the base has 6 layers and the model 5; the score counts the 5 layers that are paired" in sentences
    verdict = compared(HUB / BASE, few, OPTIONS, nulls=(str(HUB / OTHER),)).verdict
    assert (verdict.code, verdict.reason.endswith("in 5 layers; leave --null out")) == ("incompatible", True)


MANY = Options(seed=1, permutations=999)
BASIS = (
    "the coordinates of both models mean the same; the cause may be a copied embedding, a common initialisation, "
    "much training since, a blend with another model or training on hidden states of the base"
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("noise", "words", "said"),
    [
        (4.0, "VERIFIED inherited", ""),
        (6.0, "RELATED part", "is inherited, in layers 1, 3, 5"),
        *((noise, "RELATED embedding", BASIS) for noise in (8.0, 12.0)),
    ],
)
def test_of_models_that_began_alike_no_cause_is_named_as_the_only_one(tmp_path, monkeypatch, noise, words, said):
    monkeypatch.setattr(models, "HIDDEN", 256)
    start = tiny_llama(tmp_path / "start", layers=6, width=96)
    verdict = compared(*(fine_tuned(start, tmp_path / str(seed), noise, seed) for seed in (1, 2)), MANY).verdict
    assert (verdict.label, verdict.reason.endswith(said)) == (words, True)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("share", "words", "said"), [(0.5, "RELATED part", "is inherited, in layer 2"), (0.4, "RELATED embedding", BASIS)]
)
def test_of_a_blend_with_another_model_it_is_said_that_it_may_be_one(tmp_path, share, words, said):
    verdict = compared(HUB / BASE, blended(tmp_path / "blend", {BASE: share, OTHER: 1 - share}), MANY).verdict
    assert (verdict.label, verdict.reason.endswith(said)) == (words, True)


def test_models_that_began_with_the_same_sinusoids_are_not_related_and_a_copy_is(tmp_path):
    """What all models of a class begin with is no evidence of a common ancestor."""
    one, other = tmp_path / "1", tmp_path / "2"
    for seed, folder in enumerate((one, other), 1):
        torch.manual_seed(seed)
        config = DistilBertConfig(**SIZES, sinusoidal_pos_embds=True, dropout=0.0, attention_dropout=0.0)
        teach(DistilBertForMaskedLM(config), 20, 3e-3).save_pretrained(folder)
    verdict = compared(one, other).verdict
    assert verdict.code == "unrelated"
    assert all(measured.permutation.objection for measured in verdict.evidence.values())
    assert compared(one, one).verdict.code == "inherited"


@pytest.mark.long
def test_of_a_student_of_hidden_states_it_is_said_that_it_may_be_one(tmp_path):
    """Its hidden states are held to those of the teacher, on texts of any tokens."""
    torch.manual_seed(11)
    config = AutoConfig.from_pretrained(HUB / BASE, initializer_range=0.02)
    teacher = AutoModelForCausalLM.from_pretrained(HUB / BASE, dtype=torch.float32).eval()
    student = AutoModelForCausalLM.from_config(config).float()
    optimizer = torch.optim.AdamW(student.parameters(), lr=0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
    for _ in range(STEPS):
        texts = torch.randint(0, config.vocab_size, (32, 8))
        with torch.no_grad():
            goals = teacher(texts, output_hidden_states=True).hidden_states
        states = student(texts, output_hidden_states=True).hidden_states
        pairs = zip(states, goals, strict=True)
        loss = sum(((state - goal).square().mean() / goal.square().mean() for state, goal in pairs), torch.zeros(()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    student.save_pretrained(tmp_path)
    verdict = compared(HUB / BASE, tmp_path, MANY).verdict
    assert (verdict.label, int(verdict.exit_code)) == ("RELATED embedding", 3)
    assert verdict.reason.endswith(BASIS)
    assert verdict.evidence["mlp"].inherited.share < 0.05
