"""Claim result: what a row says of itself in one line, and which of several rows decides the exit code."""

import datetime

import pytest

from hf_lineage.checking.result import NAMED, VERDICTS, ClaimResult, Finding, catch_as_verdict, worst
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import CheckpointError, NetworkError, NoWeights, RepositoryError
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict
from hf_lineage.policy import Waiver
from tests.pages import measured, row


def result(kind, base="acme/base", **changes):
    return ClaimResult(Claim(base, None, NAMED), Verdict(kind), **changes)


def test_a_row_is_one_line_and_sentences_or_else_the_details_are_stated():
    assert str(result(Code.UNRELATED)) == "acme/base is UNRELATED"
    assert repr(result(Code.UNRELATED, part="vision")) == "<ClaimResult: acme/base (vision) is UNRELATED>"
    assert str(row(mlp=measured())).endswith("is VERIFIED inherited")
    assert "\n" not in str(result(Code.UNRELATED, base="acme/\nbase", part="a\nb"))
    assert list(Finding("T", "org/base", ("one", "two"), ("more",)).statements) == ["org/base: one", "org/base: two"]
    assert list(Finding("T", details=("more",)).statements) == ["more"]


def test_the_most_severe_row_decides_the_exit_code_unless_a_waiver_counts():
    both = [result(Code.UNRELATED), result(Code.INCONCLUSIVE)]
    codes = [worst(rows) for rows in ([], both, both[1:])]
    assert codes == [ExitCode.UNDECIDED, ExitCode.UNRELATED, ExitCode.UNDECIDED]
    waived = result(Code.UNRELATED, waiver=Waiver("acme/base", Code.UNRELATED, "known", datetime.date.max))
    assert (worst([waived]), worst([waived], accepted=True)) == (ExitCode.UNRELATED, ExitCode.VERIFIED)


def test_an_error_of_a_base_is_a_verdict_of_its_kind_and_any_other_is_raised():
    def action():
        raise error

    for error, code in (
        (NoWeights("org/base holds no weights"), Code.NO_WEIGHTS),
        (RepositoryError("org/base is gated"), Code.NO_BASE),
        (CheckpointError("org/base is truncated"), Code.DAMAGED),
    ):
        assert catch_as_verdict(action, *VERDICTS) == Verdict(code, str(error))
    for error in (NetworkError("cut"), ValueError("ours")):
        with pytest.raises(type(error)):
            catch_as_verdict(action, *VERDICTS)
