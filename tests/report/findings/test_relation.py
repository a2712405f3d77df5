"""The relation that is seen stands beside the one that is declared, and says of which layers it is."""

import pytest

from hf_lineage import Options, check
from hf_lineage.report.findings import relation
from tests.models import EXAMPLES
from tests.pages import report

HUB = Options(local_hub=EXAMPLES, order_seed=1, permutations=199)


@pytest.fixture(scope="module")
def rows():
    models = ("heron/llama-int8-rounded", "magpie/llama-grafted", "heron/llama-distilled")
    return {model.partition("-")[2]: check(model, options=HUB).rows[0] for model in models}


def test_both_relations_are_in_one_sentence(rows):
    (sentence,) = relation.describe(report(), rows["int8-rounded"]).sentences
    assert sentence == "relation seen: quantized to 8 bits; declared: quantized"


def test_of_a_graft_only_the_inherited_layers_are_meant(rows):
    (sentence,) = relation.describe(report(), rows["grafted"]).sentences
    assert sentence.startswith("relation seen: in the layers that are inherited, weights unchanged")


def test_nothing_is_said_of_a_model_that_is_not_related(rows):
    assert relation.describe(report(), rows["distilled"]) is None


def test_programs_get_the_same_as_values(rows):
    values = relation.describe(report(), rows["int8-rounded"]).values
    assert {key: values[key] for key in ("means", "bits", "zeros", "rank")} == {
        "means": ["quantized"],
        "bits": 8,
        "zeros": None,
        "rank": None,
    }
    assert values["changed"] == values["matrices"] == 9
