"""Texts of verdicts: every code has all of them, in short sentences."""

from hf_lineage.evidence.verdict import Code, ExitCode, Word
from hf_lineage.report.page.templates import SIGNS
from hf_lineage.report.words.verdicts import CODES, texts


def test_every_code_has_its_texts_and_a_rule():
    assert list(texts()) == list(CODES) == list(Code)
    assert {text.tone for text in texts().values()} == set(SIGNS)


def test_a_contradiction_looks_bad_and_only_a_verified_claim_looks_good():
    assert [code for code in Code if texts()[code].tone == "good"] == [
        code for code in Code if code.word is Word.VERIFIED
    ]
    assert [code for code in Code if texts()[code].tone == "bad"] == [Code.UNRELATED, Code.DAMAGED]
    assert {texts()[code].level for code in Code if code.exit_code in (ExitCode.UNRELATED, ExitCode.ERROR)} == {"error"}
    assert {texts()[code].level for code in Code if code.exit_code is ExitCode.VERIFIED} == {"none"}


def test_there_is_advice_for_every_code_in_sentences_of_at_most_25_words():
    for text in texts().values():
        cases = [sentence for case in text.cases for sentence in (case.title or text.title, case.meaning, *case.next)]
        parts = [text.title, text.meaning, *text.next, *filter(None, cases)]
        sentences = [sentence for part in parts for sentence in part.replace(". ", ".\n").splitlines()]
        assert text.next
        assert all(sentence.endswith(".") and len(sentence.split()) <= 25 for sentence in sentences), sentences
        assert not text.headline.endswith(".")
