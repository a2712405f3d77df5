"""What others quote of two models is read from local weights where it is asked for, and explained where it is high."""

import json
import shutil
from dataclasses import replace

from hf_lineage import Options, check
from hf_lineage.report import FORMATS
from tests.models import EXAMPLES
from tests.pages import report as report_of

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


def test_tokens_that_both_have_are_counted_by_their_texts(tmp_path):
    for name, tokens in (("acme/llama-base", "abc"), ("otter/llama-independent", "bcd")):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
        vocabulary = {token: number for number, token in enumerate(tokens)}
        (tmp_path / name / "vocab.json").write_text(json.dumps(vocabulary))
    options = replace(OPTIONS, local_hub=tmp_path)
    (row,) = check("otter/llama-independent", "acme/llama-base", options).rows
    assert row.quoted["tokens"] == 0.5
    assert "not measured decides nothing" in " ".join(FORMATS["text"](report_of(row), explain=True).split())
    (tmp_path / "otter/llama-independent/vocab.json").write_text("[" * 100)
    assert "tokens" not in check("otter/llama-independent", "acme/llama-base", options).rows[0].quoted
