"""Numbers that are the base's, bit for bit, keep a model from being called unrelated, whatever happened to the rest."""

from dataclasses import replace

import pytest
from safetensors.torch import load_file

from hf_lineage import Options, compare
from hf_lineage.checking import stages
from hf_lineage.checking.stages import EQUAL
from hf_lineage.evidence.inherited import Inherited
from hf_lineage.evidence.verdict import Code
from tests.blends import BASE, OTHER, dare, dare_ties, few_loud, half_foreign, other_mlps
from tests.models import EXAMPLES, WEIGHTS, spoil, tiny_llama

OPTIONS = Options(seed=0, permutations=199)
MLP = replace(OPTIONS, paths=("mlp",))


def judged(model, base=EXAMPLES / BASE, options=OPTIONS):
    (row,) = compare(str(base), str(model), options).rows
    return row.verdict


MADE = {
    "DARE of a far descendant, a tenth": (lambda folder: dare(folder, 0.1), 0.90, 0.17, Code.EMBEDDING),
    "DARE of a far descendant, three tenths": (lambda folder: dare(folder, 0.3), 0.70, 0.32, Code.EMBEDDING),
    "DARE-TIES with a foreign model": (dare_ties, 0.26, 0.10, Code.UNRELATED),
    "other MLPs": (other_mlps, 0.27, 0.26, Code.UNRELATED),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("made", MADE)
def test_what_keeps_numbers_of_the_base_is_related_in_part(tmp_path, monkeypatch, made):
    build, equal, least, before = MADE[made]
    model = build(tmp_path / "model")
    found = judged(model, options=MLP)
    assert (found.code, found.exit_code) == (Code.PART, 3)
    assert found.equal.p_value <= 0.01
    assert float(found.equal.equal.mean()) == pytest.approx(equal, abs=0.01)
    assert found.equal.share == pytest.approx(least, abs=0.03)
    assert "bit for bit" in found.reason
    monkeypatch.setattr(stages, "STAGES", tuple(one for one in stages.STAGES if one is not EQUAL))
    assert judged(model, options=MLP).code is before


def test_a_graft_keeps_what_its_paths_show_and_has_its_layers_by_number():
    found = judged(EXAMPLES / "magpie/llama-grafted")
    assert found.code is Code.PART
    assert found.reason.startswith("33% of what its units write is inherited, in layers 1, 4; 33.4% of the numbers")
    assert found.equal.at_least.round(2).tolist() == [0, 1, 0, 0, 1, 0]


def test_where_half_of_the_layers_are_foreign_nothing_is_verified(tmp_path, monkeypatch):
    model = half_foreign(tmp_path / "model")
    report = compare(str(EXAMPLES / BASE), str(model), OPTIONS)
    found = report.rows[0].verdict
    assert (found.code, found.exit_code) == (Code.PART, 3)
    assert [one.inherited.share for one in found.evidence.values()] == pytest.approx([0.5, 0.5])
    assert "How it was made: in the layers that are inherited, weights unchanged" in " ".join(report.to_text().split())
    monkeypatch.setattr(Inherited, "least", property(lambda self: self.share + 1e-9))
    assert judged(model).verified


@pytest.mark.few(1)
@pytest.mark.parametrize("model", [OTHER, "heron/llama-distilled", "magpie/llama-liar"])
def test_independent_models_have_no_more_equal_numbers_than_chance_gives(model):
    found = judged(EXAMPLES / model)
    assert (found.code, found.equal) == (Code.UNRELATED, None)


def test_small_numbers_of_the_base_beside_large_ones_buy_nothing(tmp_path):
    found = judged(few_loud(tmp_path / "model"))
    assert (found.code, found.exit_code) == (Code.INCONCLUSIVE, 3)
    assert float(found.equal.equal.mean()) == pytest.approx(0.1, abs=0.01)
    assert found.equal.share < 0.001


def test_numbers_of_another_format_say_nothing(tmp_path):
    model = other_mlps(tmp_path / "model")
    spoil(model, lambda tensors: tensors.update({name: one.float() for name, one in tensors.items()}))
    assert judged(model, options=MLP).code is Code.UNRELATED


def test_nothing_is_read_of_what_is_verified(monkeypatch):
    monkeypatch.setattr("hf_lineage.checking.by_units.weights_of", None)
    assert judged(EXAMPLES / "fern/llama-finetune-a").verified


def test_over_the_network_a_few_rows_are_enough(online, tmp_path):
    base = tiny_llama(tmp_path / "base", layers=8, width=64)
    other = tiny_llama(tmp_path / "other", seed=1, layers=8, width=64)
    kept = {name: one for name, one in load_file(base / WEIGHTS).items() if ".mlp." not in name}
    online.publish("org/base", base)
    online.publish("org/child", spoil(other, lambda tensors: tensors.update(kept)))
    found = judged("org/child", "org/base", Options(seed=0, permutations=199))
    assert found.code is Code.PART
