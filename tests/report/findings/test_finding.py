"""A finding states its sentences with the name of what it is about."""

from hf_lineage.report.findings.finding import Finding


def test_sentences_are_stated_with_the_name_in_front():
    assert list(Finding("T", "org/base", ("one", "two"), ("more",)).statements) == ["org/base: one", "org/base: two"]


def test_of_a_finding_without_sentences_the_details_are_stated():
    assert list(Finding("T", details=("more",)).statements) == ["more"]
