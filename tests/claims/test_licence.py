"""What a card says of its licence is read as it is written, within bounds, and never costs more than the card."""

import json

import pytest

from hf_lineage.claims.licence import CARD, LARGEST, stated
from hf_lineage.hub.reference import RepoRef


@pytest.fixture
def repo(tmp_path):
    return RepoRef("org/model", tmp_path)


def told(repo, metadata, before="---\n", after="---\n# A model\n"):
    repo.path(CARD).write_text(f"{before}{metadata}{after}", encoding="utf-8")
    return stated(RepoRef(repo.name, repo.folder))


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ("license: apache-2.0\n", "apache-2.0"),
        (
            "license: other\nlicense_name: gemma\nlicense_link: https://ai.google.dev/gemma/terms\n",
            "other (gemma, https://ai.google.dev/gemma/terms)",
        ),
        ("license: [mit, cc-by-4.0]\n", "mit, cc-by-4.0"),
        ("license_name: ours\n", "(ours)"),
        ("license: null\n", ""),
        ("license: {a: b}\n", ""),
        ("tags: [x]\n", ""),
        ("license: [\n", ""),
        ("- license\n", ""),
    ],
)
def test_what_a_card_states(repo, metadata, shown):
    assert told(repo, metadata) == shown


def test_without_a_card_or_a_repository_nothing_is_stated(repo):
    assert stated(repo) == ""
    assert stated(object()) == ""
    assert told(repo, "license: mit\n", before="") == ""
    assert told(repo, "license: mit\n", after="") == ""


def test_the_card_is_that_of_the_repository_whatever_folder_the_model_is_in(repo):
    assert told(repo, "license: mit\n") == stated(RepoRef("org/model", repo.folder, subfolder="unet"))


def test_a_card_that_cannot_be_read_states_nothing(repo):
    repo.path(CARD).mkdir()
    assert stated(repo) == ""


def test_a_text_of_somebody_else_is_one_short_line(repo):
    hostile = '\x1b[31m\u202e::error::<script>\n"' + "x" * 1000
    licence = told(repo, f"license: {json.dumps(hostile)}\n")
    assert len(licence) <= 200
    assert licence.isprintable()
    assert "::" not in licence


def test_no_more_than_the_beginning_of_a_card_is_read(repo):
    assert told(repo, f"a: {'x' * LARGEST}\nlicense: mit\n") == ""
    assert len(told(repo, f"license: [{', '.join(['y'] * 1000)}]\n")) < 50
