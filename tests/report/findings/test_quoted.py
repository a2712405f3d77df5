"""Each number stands beside that of independent models, with one word on what it is worth."""

from dataclasses import replace

from hf_lineage.evidence.verdict import Kind
from hf_lineage.report.findings import quoted
from tests.pages import measured, report, row

ROW = replace(row(mlp=measured()), quoted={"gains": 0.996, "embedding": 0.9})


def test_the_table_has_the_number_the_range_and_a_word():
    finding = quoted.describe(report(), ROW)
    assert finding.tables[0].rows == (
        ("gains of norms, cosine", "0.996", "0.984 to 0.997", "decides nothing"),
        ("rows of the embedding, cosine", "0.900", "-0.004 to 0.010", "separates here"),
    )
    assert finding.sentences == ()
    assert finding.values["embedding"]["worth"] == "separates here"


def test_of_unrelated_models_high_numbers_are_explained():
    unrelated = replace(ROW, verdict=replace(ROW.verdict, kind=Kind.UNRELATED))
    (sentence,) = quoted.describe(report(), unrelated).sentences
    assert sentence == (
        "gains of norms, cosine: 0.996; independent models have 0.984 to 0.997, so that the number decides nothing"
    )
