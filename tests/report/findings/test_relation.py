"""The relation that is seen stands beside the one that is declared, and says of which layers it is."""

import pytest

from hf_lineage import Options, check
from hf_lineage.report.findings import relation
from tests.models import EXAMPLES

HUB = Options(local_hub=EXAMPLES, order_seed=1, permutations=199)


@pytest.fixture(scope="module")
def rows():
    models = ("heron/llama-int8-rounded", "magpie/llama-grafted", "heron/llama-distilled")
    return {model.partition("-")[2]: check(model, options=HUB).rows[0] for model in models}


def test_both_relations_are_in_one_sentence(rows):
    (sentence,) = relation.seen(rows["int8-rounded"], "the base")
    assert sentence == "the base: relation seen: quantized to 8 bits; declared: quantized"


def test_of_a_graft_only_the_inherited_layers_are_meant(rows):
    (sentence,) = relation.seen(rows["grafted"], "the base")
    assert sentence.startswith("the base: relation seen: in the layers that are inherited, weights unchanged")


def test_nothing_is_said_of_a_model_that_is_not_related(rows):
    assert list(relation.seen(rows["distilled"], "the base")) == []


def test_programs_get_the_same_as_values(rows):
    values = relation.values(rows["int8-rounded"].derivation)
    assert {key: values[key] for key in ("means", "bits", "zeros", "rank")} == {
        "means": ["quantized"],
        "bits": 8,
        "zeros": None,
        "rank": None,
    }
    assert values["changed"] == values["matrices"] == 9
