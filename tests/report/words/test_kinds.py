"""Kinds: every verdict is shown everywhere."""

from hf_lineage.report.words.kinds import KINDS, NUMBERED, TONES

from hf_lineage.evidence.verdict import Code, ExitCode


def test_every_verdict_is_in_every_table():
    assert list(KINDS) == list(Code)
    assert sorted(NUMBERED, key=list(Code).index) == list(Code)
    assert {shown.tone for shown in KINDS.values()} == set(TONES)


def test_a_contradiction_looks_bad_and_only_a_verified_claim_looks_good():
    assert [kind for kind in Code if KINDS[kind].tone == "good"] == [Code.INHERITED, Code.ADAPTER]
    assert [kind for kind in Code if KINDS[kind].tone == "bad"] == [Code.UNRELATED]
    assert {KINDS[kind].rule.level for kind in Code if kind.exit_code in (ExitCode.UNRELATED, ExitCode.ERROR)} == {
        "error"
    }
