"""Links to the Hub: only where there is a commit to show, and only to the public Hub.

A local hub is a folder of folders, whose case does not count.
"""

import pytest

from hf_lineage.hub.addresses import files_at, spelled

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_commit_of_a_model_is_linked():
    assert files_at("org/name", COMMIT) == f"https://huggingface.co/org/name/tree/{COMMIT}"
    assert files_at("gpt2", COMMIT) == f"https://huggingface.co/gpt2/tree/{COMMIT}"


@pytest.mark.parametrize("commit", [None, "", "main", COMMIT[:-1], COMMIT.upper(), f"{COMMIT}\n", f"{COMMIT}/../x"])
def test_what_is_no_commit_is_not_linked(commit):
    assert files_at("org/name", commit) is None


@pytest.mark.parametrize(
    "name",
    [None, "", "./org", "org/../name", "org/name@main", "//evil.example/x", "javascript:alert(1)", "org/name?x=1",
     "org/name#x", "org/na me", "org/<b>", "org/name\n"],
)  # fmt: skip
def test_what_is_no_name_on_the_hub_is_not_linked(name):
    assert files_at(name, COMMIT) is None


def test_letters_of_other_scripts_are_escaped_in_an_address():
    assert files_at("org/naïve", COMMIT) == f"https://huggingface.co/org/na%C3%AFve/tree/{COMMIT}"


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8000", "https://user:secret@mirror.example", "http://huggingface.co"]
)
def test_another_hub_is_never_linked(monkeypatch, endpoint):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    assert files_at("org/name", COMMIT) is None


def test_case_does_not_count_unless_two_folders_differ_in_nothing_else(tmp_path):
    for name in ("Acme/Base", "fern/Child", "fern/child"):
        (tmp_path / name).mkdir(parents=True)
    assert spelled(tmp_path, "acme/base") == "Acme/Base"
    assert spelled(tmp_path, "fern/child") == "fern/child"
    assert spelled(tmp_path, "fern/CHILD") is None
    assert spelled(tmp_path, "acme/none") is None
    assert spelled(tmp_path, "none/base") is None


def test_a_file_is_no_folder_of_a_model(tmp_path):
    (tmp_path / "Acme").write_text("")
    assert spelled(tmp_path, "acme/base") is None
