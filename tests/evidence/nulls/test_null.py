"""Nulls: another one is another entry of the table."""

import json
from dataclasses import dataclass

import pytest

from hf_lineage import Options, compare
from hf_lineage.evidence.judging.measurement import NULLS
from hf_lineage.evidence.nulls.null import deciding
from hf_lineage.report import FORMATS
from tests.models import spoil, tiny_llama


@dataclass(frozen=True)
class Coin:
    """A null that says nothing about models."""

    objection: str = ""
    admits: bool = True
    name: str = "coin"
    p_value: float = 0.5
    correction: str = "none"

    @property
    def p_over_paths(self):
        return self.p_value

    def describe(self):
        return "a coin was thrown"


def judged(model, other):
    return compare(str(model), str(other), Options(seed=0))


@pytest.fixture
def models(tmp_path):
    """Copies, but that they are stored in two formats: no number of theirs is compared with another."""
    return tiny_llama(tmp_path / "a"), _in_float64(tiny_llama(tmp_path / "b"))


def _in_float64(model):
    return spoil(model, lambda tensors: tensors.update({name: one.double() for name, one in tensors.items()}))


def test_the_first_null_that_holds_decides():
    assert deciding([Coin("it is bent"), Coin(name="fair"), Coin()]).name == "fair"
    assert deciding([Coin("it is bent")]) is None


def test_a_null_that_is_added_to_the_table_is_measured_and_reported(models, monkeypatch):
    monkeypatch.setitem(NULLS, "coin", lambda pairs, scores, criteria: dict.fromkeys(scores, Coin()))
    report = judged(*models)
    (row,) = report.rows
    assert (row.verdict.word, [null.name for null in row.verdict.evidence["mlp"].nulls]) == (
        "VERIFIED", ["permutation", "coin"]
    )  # fmt: skip
    document = json.loads(FORMATS["json"](report, False))
    assert document["claims"][0]["paths"][0]["nulls"][1] == {
        "name": "coin", "p_value": 0.5, "decides": False, "objection": ""
    }  # fmt: skip
    assert "coin null: a coin was thrown, p = 0.5; another null decides" in FORMATS["text"](report, True)


def test_one_that_stands_first_decides_by_its_own_p_value(models, monkeypatch):
    monkeypatch.setitem(NULLS, "permutation", lambda pairs, scores, criteria: dict.fromkeys(scores, Coin()))
    (row,) = judged(*models).rows
    # Corrected for the comparison unit by unit, which there may be.
    assert (row.verdict.word, row.verdict.evidence["mlp"].p_value) == ("UNRELATED", 1.0)


def test_a_null_that_does_not_admit_it_prevents_related(models, monkeypatch):
    monkeypatch.setitem(NULLS, "coin", lambda pairs, scores, criteria: dict.fromkeys(scores, Coin(admits=False)))
    assert judged(*models).rows[0].verdict.word == "UNRELATED"
