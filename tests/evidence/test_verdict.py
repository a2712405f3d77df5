"""A verdict says in words, and in an exit code, how strong a statement it is."""

import pytest

from hf_lineage.evidence.verdict import ExitCode, Code, Verdict

RELATED = [kind for kind in Code if kind.word == "RELATED"]
OTHERS = [kind for kind in Code if kind.word != "RELATED"]


def test_the_exit_codes_are_the_documented_ones():
    assert {kind.word: Verdict(kind).exit_code for kind in (Code.INHERITED, *OTHERS)} == {
        "RELATED": ExitCode.VERIFIED,
        "UNRELATED": ExitCode.UNRELATED,
        "UNDECIDED": ExitCode.UNDECIDED,
        "UNDECIDED": ExitCode.UNDECIDED,
        "UNDECIDED": ExitCode.UNDECIDED,
        "UNDECIDED": ExitCode.ERROR,
    }
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3]


def test_only_related_models_of_which_enough_is_inherited_are_verified():
    assert Verdict(Code.INHERITED).verified
    assert Verdict(Code.ADAPTER).verified, "an adapter inherits no units, its own exact test verifies it"
    weaker = [Verdict(kind, accepted=True) for kind in RELATED if kind not in (Code.INHERITED, Code.ADAPTER)]
    assert not any(each.verified for each in [*weaker, *map(Verdict, OTHERS)])
    assert all(Verdict(kind).is_related for kind in RELATED)
    assert not any(Verdict(kind).is_related for kind in OTHERS)


def test_the_words_of_every_verdict():
    assert [Verdict(kind).words for kind in RELATED] == [
        "RELATED",
        "VERIFIED adapter",
        "RELATED listed",
        "RELATED calibrated",
        "RELATED weak",
        "RELATED part",
        "RELATED embedding",
        "RELATED unlisted-class",
    ]
    assert {Verdict(kind).name for kind in RELATED} == {"RELATED"}
    assert (Verdict(Code.UNRELATED).words, Verdict(Code.INCONCLUSIVE).words) == ("UNRELATED", "UNDECIDED")


@pytest.mark.parametrize("kind", RELATED, ids=[kind.name for kind in RELATED])
def test_a_kind_that_is_accepted_passes_and_one_that_is_not_leaves_the_claim_undecided(kind):
    assert Verdict(kind, accepted=True).exit_code == ExitCode.VERIFIED
    verified = kind in (Code.INHERITED, Code.ADAPTER)
    assert Verdict(kind).exit_code == (ExitCode.VERIFIED if verified else ExitCode.UNDECIDED)


def test_every_verdict_is_known_by_its_identifier_and_every_word_stands_for_one():
    assert all(Code.parse(kind.identifier, kind.word) is kind for kind in Code)
    assert Code.parse(None, "RELATED") is Code.INHERITED
    assert Code.parse("of a later version", "UNRELATED") is Code.UNRELATED
    assert Code.parse(None, "SOMETHING") is None
    assert Code.parse("related", "SOMETHING") is None
    assert Code.parse("related", "UNRELATED") is Code.UNRELATED, "an identifier does not outrank the verdict"
