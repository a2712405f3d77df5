"""Which layers come from the base, in words that need no explanation, and the relation that is seen in them."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options, check
from hf_lineage.report.findings import descent
from hf_lineage.report.findings.descent import describe
from tests.models import EXAMPLES
from tests.pages import measured, report, row


def sentences(claim):
    finding = describe(report(), claim)
    return [] if finding is None else list(finding.details)


def words(count, shares, depth=None, **more):
    evidence = measured(count, count, **more)
    evidence = replace(evidence, inherited=replace(evidence.inherited, by_layer=np.array(shares, dtype=float)))
    return sentences(row(layers=depth, mlp=evidence))


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([1, 1, 1], "All 3 layers come from it"),
        ([0, 1, 0], "Layer 1 of 3 comes from it; the other 2 do not"),
        ([1, 1, 0], "Layers 0 and 1 of 3 come from it; the other one does not"),
        ([0.5, 0.5, 0.5], "None of the 3 layers comes from it by more than half"),
    ],
)
def test_layers_are_counted_and_named(shares, said):
    assert words(3, shares) == [said]


def test_layers_that_were_not_read_are_not_said_to_come_from_anywhere():
    early = {"analyses": 3, "layers": ((0, 9, 31),) * 2}
    assert words(3, [1, 1, 1], 32, **early) == ["All 3 layers that were read, of 32, come from it"]
    assert words(3, [1, 0, 1], 32, **early) == [
        "Of the 3 layers that were read, of 32, layers 0 and 31 come from it"
    ]  # fmt: skip
    assert words(3, [0, 0, 0], 32, **early) == [
        "None of the 3 layers that were read, of 32, comes from it by more than half"
    ]  # fmt: skip


def test_where_nothing_is_known_or_nothing_shared_nothing_is_said():
    assert sentences(row(mlp=measured(share=None))) == []
    assert sentences(row(mlp=measured(score=0.0, p=0.5))) == []


HUB = Options(local_hub=EXAMPLES, seed=1, permutations=199)


@pytest.fixture(scope="module")
def rows():
    models = ("heron/llama-int8-rounded", "magpie/llama-grafted", "heron/llama-distilled")
    return {model.partition("-")[2]: check(model, options=HUB).rows[0] for model in models}


@pytest.mark.long
def test_of_a_graft_only_the_inherited_layers_are_meant(rows):
    (sentence,) = descent.describe_relation(report(), rows["grafted"]).sentences
    assert sentence.startswith("relation seen: in the layers that are inherited, weights unchanged")


def test_nothing_is_said_of_a_model_that_is_not_related(rows):
    assert descent.describe_relation(report(), rows["distilled"]) is None


def test_programs_get_the_same_as_values(rows):
    values = descent.describe_relation(report(), rows["int8-rounded"]).values
    expected = {"means": ["quantized"], "bits": 8, "zeros": None, "rank": None, "changed": 12, "matrices": 12}
    assert {key: values[key] for key in expected} == expected
