"""What a card says of its licence is read as it is written, within bounds, and never costs more than the card."""

import json

import pytest

from hf_lineage.claims.licence import CARD, LARGEST, Licence, stated
from hf_lineage.hub.reference import RepoRef


@pytest.fixture
def repo(tmp_path):
    return RepoRef("org/model", tmp_path)


def told(repo, metadata, before="---\n", after="---\n# A model\n"):
    repo.path(CARD).write_text(f"{before}{metadata}{after}", encoding="utf-8")
    return stated(RepoRef(repo.name, repo.folder))


@pytest.mark.parametrize(
    ("metadata", "licence", "shown"),
    [
        ("license: apache-2.0\n", Licence("apache-2.0"), "apache-2.0"),
        (
            "license: other\nlicense_name: gemma\nlicense_link: https://ai.google.dev/gemma/terms\n",
            Licence("other", "gemma", "https://ai.google.dev/gemma/terms"),
            "other (gemma, https://ai.google.dev/gemma/terms)",
        ),
        ("license: [mit, cc-by-4.0]\n", Licence("mit, cc-by-4.0"), "mit, cc-by-4.0"),
        ("license_name: ours\n", Licence("", "ours"), "(ours)"),
        ("license: null\n", None, ""),
        ("license: {a: b}\n", None, ""),
        ("tags: [x]\n", None, ""),
        ("license: [\n", None, ""),
        ("- license\n", None, ""),
    ],
)
def test_what_a_card_states(repo, metadata, licence, shown):
    assert told(repo, metadata) == licence
    assert licence is None or str(licence) == shown


def test_without_a_card_or_a_repository_nothing_is_stated(repo):
    assert stated(repo) is None
    assert stated(object()) is None
    assert told(repo, "license: mit\n", before="") is None
    assert told(repo, "license: mit\n", after="") is None


def test_the_card_is_that_of_the_repository_whatever_folder_the_model_is_in(repo):
    assert told(repo, "license: mit\n") == stated(RepoRef("org/model", repo.folder, subfolder="unet"))


def test_a_card_that_cannot_be_read_states_nothing(repo):
    repo.path(CARD).mkdir()
    assert stated(repo) is None


def test_a_text_of_somebody_else_is_one_short_line(repo):
    hostile = '\x1b[31m\u202e::error::<script>\n"' + "x" * 1000
    licence = told(repo, f"license: {json.dumps(hostile)}\n")
    assert len(licence.identifier) <= 200
    assert str(licence).isprintable()
    assert "::" not in str(licence)


def test_no_more_than_the_beginning_of_a_card_is_read(repo):
    assert told(repo, f"a: {'x' * LARGEST}\nlicense: mit\n") is None
    assert len(told(repo, f"license: [{', '.join(['y'] * 1000)}]\n").identifier) < 50


def test_a_licence_differs_by_its_words_and_not_by_where_its_text_is():
    assert not Licence("MIT").differs(Licence("mit", link="https://example.org"))
    assert Licence("other", "gemma").differs(Licence("other", "llama"))
