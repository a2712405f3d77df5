"""Ancestors stand in the order in which they are read, and with the confidence that the test gives."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hf_lineage.report.findings.ancestry import ancestors, confidence

from hf_lineage.evidence.derivation.contributions import Parent
from tests.pages import measured, report, row


def near(base, share, **more):
    return replace(row(base, mlp=measured(share=share)), **more)


def names(*rows):
    return [one.claim.base for one in ancestors(report(*rows))]


def test_the_nearest_is_the_first_and_the_upstream_of_all_the_last():
    assert names(near("org/far", 0.6), near("org/near", 0.99), near("org/part", 0.3)) == ["org/near", "org/far"]


def test_the_base_of_a_merge_is_behind_its_parents():
    base = Parent(method="ties", declared={}, shares={}, is_base=True)
    assert names(near("org/base", 0.99, parent=base), near("org/parent", 0.7)) == ["org/parent", "org/base"]


def test_a_base_of_several_parts_is_named_once():
    assert names(near("org/base", 0.9, part="unet"), near("org/base", 0.9, part="text_encoder")) == ["org/base"]


@pytest.mark.parametrize(("p", "level"), [(0.001, "0.999"), (0.003, "0.997"), (1e-9, "0.9999"), (0.5, "0.5")])
def test_confidence_is_the_level_at_which_independence_is_rejected_and_never_certain(p, level):
    assert confidence(row(mlp=measured(p=p))) == Decimal(level)


def test_it_is_not_the_score():
    low = row(mlp=measured(score=0.2, p=0.001))
    assert confidence(low) == confidence(row(mlp=measured(score=0.99, p=0.001))) == Decimal("0.999")
