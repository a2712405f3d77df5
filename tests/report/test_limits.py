from hf_lineage.report import limits, wording


def test_limits_are_sentences_that_every_format_can_print():
    assert wording.LIMITS is limits.LIMITS
    assert all(limit.endswith(".") for limit in limits.LIMITS)
