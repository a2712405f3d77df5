"""Verified is a word about what a model computes: outputs of real modules stand beside the verdict on each folder."""

from functools import partial

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from hf_lineage import Options, compare, extract
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.identify import identify
from hf_lineage.index.store import Catalogue
from tests import forgeries
from tests.decoys import made
from tests.forgeries import LOUD, ROWS, SEEN_BY_RUNNING
from tests.forging.outputs import SAME, moved, run
from tests.gguf_models import KINDS, write
from tests.models import EXAMPLES

BASE, INDEPENDENT = "acme/llama-base", "otter/llama-independent"


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True)


def outputs(folder, name):
    return run(getattr(transformers, name).from_pretrained(folder, local_files_only=True).eval())


def judged(base, folder):
    """The verdicts on a folder, the one of a whole check and the one of a quick check."""
    return [compare(str(base), str(folder), Options(budget=budget)).rows[0].verdict for budget in ("full", "quick")]


def edited(folder, source, attack, other):
    """A trained Llama after an attack, saved, and by how much that moved what it says to text."""
    torch.manual_seed(0)
    model = load(EXAMPLES / source)
    before = forgeries.spoken(model)
    attack(model, load(EXAMPLES / other))
    model.save_pretrained(folder)
    return moved([forgeries.spoken(load(folder))], [before])


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.few(2)
def test_weights_of_the_base_that_do_nothing_verify_nothing_unless_only_running_shows_it(tmp_path, name):
    row = ROWS[name]
    pair = made(row.of, row.wanted, tmp_path)
    forgery = row.made(*pair.tensors())
    without = outputs(pair.write(forgery.noise(), **forgery.settings), row.of)
    folder = pair.write(forgery.tensors, **forgery.settings)
    assert moved(outputs(folder, row.of), without) < SAME
    assert [verdict.verified for verdict in judged(pair.a, folder)] == [name in SEEN_BY_RUNNING] * 2


INSERTED = {
    "one layer behind gates that are all alike": partial(forgeries.inserted, count=1, loud=1.0),
    "one loud layer behind gates that are all alike": partial(forgeries.inserted, count=1),
    "two loud layers behind gates that are all alike": partial(forgeries.inserted, count=2),
    "one layer behind its own gates, moved until they are shut": partial(forgeries.inserted, crude=False, loud=1.0),
    "one loud layer behind its own gates": partial(forgeries.inserted, crude=False),
    "two loud layers behind their own gates": partial(forgeries.inserted, crude=False, count=2),
    "three loud layers behind their own gates": partial(forgeries.inserted, crude=False, count=3),
}


@pytest.mark.parametrize("attack", INSERTED.values(), ids=INSERTED)
@pytest.mark.few(1)
def test_inserted_layers_of_the_base_that_do_nothing_verify_nothing(tmp_path, attack):
    assert edited(tmp_path, INDEPENDENT, attack, BASE) < SAME
    assert [verdict.verified for verdict in judged(EXAMPLES / BASE, tmp_path)] == [False, False]


@pytest.mark.parametrize("crude", [True, False], ids=["gates all alike", "its own gates"])
@pytest.mark.few(1)
def test_one_loud_layer_that_does_nothing_takes_no_word_from_a_copy(tmp_path, crude):
    attack = partial(forgeries.inserted, crude=crude)
    assert edited(tmp_path, BASE, attack, INDEPENDENT) < SAME
    verdicts = judged(EXAMPLES / BASE, tmp_path)
    assert [(verdict.label, verdict.verified) for verdict in verdicts] == [("VERIFIED inherited", True)] * 2


@pytest.mark.long
def test_a_third_of_loud_layers_that_do_nothing_makes_no_copy_unrelated(tmp_path):
    attack = partial(forgeries.inserted, crude=False, count=3)
    assert edited(tmp_path, BASE, attack, INDEPENDENT) < SAME
    assert "unrelated" not in [verdict.code for verdict in judged(EXAMPLES / BASE, tmp_path)]


@pytest.mark.parametrize("factor", [1e4, 1e6])
@pytest.mark.few(1)
def test_layers_that_a_large_stream_drowns_verify_nothing(tmp_path, factor):
    folders = tmp_path / "drowned", tmp_path / "noise"
    for folder, other in zip(folders, (BASE, "moss/llama-continued"), strict=True):
        edited(folder, INDEPENDENT, forgeries.drowned(factor), other)
    said = [forgeries.spoken(load(folder)) for folder in folders]
    assert moved(*said) < 3 * SAME
    file = write(folders[0], tmp_path / "drowned.gguf", kind=KINDS.Q4_0)
    for folder in (folders[0], file):  # the attention that drowns them is not the base's
        assert [verdict.label for verdict in judged(EXAMPLES / BASE, folder)] == ["RELATED part"] * 2


def test_units_that_the_class_does_not_build_hide_no_copy(tmp_path):
    pair = made("Qwen3MoeForCausalLM", {}, tmp_path)
    a, _ = pair.tensors()
    generator = torch.Generator().manual_seed(4)
    shapes = {"gate_proj": (64, 32), "up_proj": (64, 32), "down_proj": (32, 64)}
    extra = {
        f"model.layers.{layer}.mlp.shared_expert.{role}.weight": LOUD * torch.randn(shape, generator=generator)
        for layer in (0, 1)
        for role, shape in shapes.items()
    }
    folder = pair.write({**a, **extra})
    assert moved(outputs(folder, "Qwen3MoeForCausalLM"), outputs(pair.a, "Qwen3MoeForCausalLM")) == 0
    assert [(verdict.label, verdict.verified) for verdict in judged(pair.a, folder)] == [("RELATED unused", False)] * 2


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [1, 3])
def test_an_index_names_no_verified_relative_of_a_model_with_idle_layers_of_the_base(tmp_path, count):
    catalogue = Catalogue(tmp_path / "index")
    catalogue.add(extract(str(EXAMPLES / BASE)))
    attack = partial(forgeries.inserted, count=count, crude=False)
    assert edited(tmp_path / "forged", INDEPENDENT, attack, BASE) < SAME
    result = identify(extract(str(tmp_path / "forged")), "mlp", catalogue, Criteria(permutations=999))
    assert [one.entry.model for one in result.related if one.verdict.verified] == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["GemmaForCausalLM", "T5ForConditionalGeneration", "OPTForCausalLM"])
def test_an_embedding_that_is_large_by_its_class_takes_no_word_from_a_copy(tmp_path, name):
    """Gemma multiplies it with the root of the width, T5 begins with large rows, OPT adds places."""
    pair = made(name, {}, tmp_path)
    a, _ = pair.tensors()
    ten_times = {key: tensor * (10 if "embed" in key or key == "shared.weight" else 1) for key, tensor in a.items()}
    assert [verdict.verified for verdict in judged(pair.a, pair.write(ten_times))] == [True, True]
    assert not any(verdict.verified for verdict in judged(pair.a, pair.b))
