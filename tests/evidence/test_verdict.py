"""A verdict says by a word, a code and an exit code how strong a statement it is."""

import pytest

from hf_lineage.evidence.verdict import RELATING, UNJUDGED, VERIFYING, Code, ExitCode, Verdict, Word

BY_WORD = {
    Word.VERIFIED: VERIFYING,
    Word.RELATED: RELATING,
    Word.UNRELATED: {Code.UNRELATED},
    Word.UNDECIDED: {Code.INCONCLUSIVE, Code.INCOMPATIBLE, Code.DAMAGED, *UNJUDGED},
}


def test_every_code_belongs_to_one_of_four_words_and_has_the_documented_exit_code():
    assert {word: {code for code in Code if code.word is word} for word in Word} == BY_WORD
    assert sum(map(len, BY_WORD.values())) == len(Code) == 20
    assert {*RELATING} == {"listed", "calibrated", "weak", "part", "embedding", "unlisted-class", "unused", "changed"}
    assert {code: int(code.exit_code) for code in Code if code is not Code.DAMAGED} == {
        code: {Word.VERIFIED: 0, Word.UNRELATED: 1}.get(code.word, 3) for code in Code if code is not Code.DAMAGED
    }
    assert Code.DAMAGED.exit_code is ExitCode.ERROR
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("code", Code)
def test_word_exit_code_and_verified_agree_for_every_code(code):
    verdict = Verdict(code)
    assert verdict.verified is (verdict.word == "VERIFIED") is (verdict.exit_code == 0)
    assert verdict.is_related is (verdict.word in ("VERIFIED", "RELATED"))
    assert verdict.label == ("UNRELATED" if code is Code.UNRELATED else f"{verdict.word} {code}")
    accepted = Verdict(code, accepted=True)
    assert (accepted.exit_code, accepted.word, accepted.verified) == (0, verdict.word, verdict.verified)
