"""The commit of a model: linked where the model is on the Hub, else the reason why there is none."""

from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage.hub.reference import RepoRef
from hf_lineage.report.page.commit import Commit, commit_of_base, commit_of_model
from hf_lineage.signature.sources.origin import Origin
from tests.pages import measured, report, row

A, B = "a" * 40, "b" * 40
WEIGHTS, FILE = (Origin(kind, None, {}, "") for kind in ("weights", "file"))


def test_a_commit_on_the_hub_has_an_address():
    on_hub = replace(report(commit=A), source=RepoRef("org/model", Path("/cache"), A, remote="org/model"))
    assert commit_of_model(on_hub).address == f"https://huggingface.co/org/model/tree/{A}"
    of_base = commit_of_base(replace(row(commit=B), base_origin=WEIGHTS))
    assert (of_base.name, of_base.address) == (B, f"https://huggingface.co/org/base/tree/{B}")


def test_a_folder_has_no_commit_and_says_why():
    local = replace(report(row(mlp=measured())), source=RepoRef("./x", Path("x")))
    assert commit_of_model(local) == Commit(None, None, "read from a folder")
    assert commit_of_model(replace(local, source=None)) == Commit(None, None, "given as a stored signature")
    assert commit_of_base(replace(row(), base_origin=WEIGHTS)).reason == "read from a folder"
    assert commit_of_base(row()).reason == "nothing of it was read"


def test_the_commit_that_a_stored_signature_names_is_not_linked():
    assert commit_of_model(replace(report(commit=A), source=None)).address is None
    stored = replace(row("base.lineage.safetensors", commit=B), base_origin=FILE)
    assert (commit_of_base(stored).name, commit_of_base(stored).address) == (B, None)


@pytest.mark.parametrize("name", ["javascript:alert(1)", "//evil.example", "a/b\"onclick='x'", "../../x", "<b>"])
def test_hostile_names_and_commits_are_never_addresses(name):
    hostile = replace(row(name, commit=name, mlp=measured()), base_origin=WEIGHTS)
    remote = RepoRef("org/model", Path("/cache"), A, remote="org/model")
    assert commit_of_base(hostile).address is None
    assert commit_of_model(replace(report(commit=name), source=remote)).address is None
