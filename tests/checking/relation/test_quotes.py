"""What others quote of two models is read from local weights where it is asked for, and explained where it is high."""

from hf_lineage import Options, check
from hf_lineage.report import FORMATS
from tests.models import EXAMPLES

OPTIONS = Options(local_hub=EXAMPLES, order_seed=0, quoted=True)


def numbers(model):
    (row,) = check(model, "acme/llama-base", OPTIONS).rows
    return row.quoted


def test_gains_of_norms_are_alike_whatever_the_descent_and_their_differences_are_not():
    child, other = numbers("moss/llama-continued"), numbers("otter/llama-independent")
    assert other["gains"] > child["gains"] > 0.99
    assert child["gains_centred"] > 0.8
    assert abs(other["gains_centred"]) < 0.06
    assert child["embedding"] > 0.8
    assert abs(other["embedding"]) < 0.01
    assert (child["configuration"], "biases" in child) == (1.0, False)


def test_biases_are_read_where_there_are_any():
    (row,) = check("fern/gpt2-finetune-a", options=OPTIONS).rows
    assert row.quoted["biases"] > 0.9


def test_nobody_gets_them_unasked():
    assert check("magpie/llama-liar", options=Options(local_hub=EXAMPLES)).rows[0].quoted == {}


def test_a_high_number_of_unrelated_models_is_explained_in_every_report():
    report = check("magpie/llama-liar", options=OPTIONS)
    text = " ".join(FORMATS["text"](report, explain=False).split())
    assert "independent models have 0.984 to 0.997, so that the number decides nothing" in text
    table = FORMATS["text"](report, explain=True)
    assert "separates here" not in table
    assert "decides nothing" in table
