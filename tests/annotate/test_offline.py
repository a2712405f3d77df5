"""Without the Hub nothing that was verified is taken back."""

import shutil

import pytest

from tests.invoking import lineage


def files(hub):
    return {file: (hub / "fern/child" / file).read_bytes() for file in ("README.md", "lineage/claims.json")}


@pytest.fixture
def annotated(hub):
    assert lineage("annotate", "fern/child", "--local-hub", hub, "--write").code == 0
    return hub


def test_a_verified_base_that_cannot_be_read_for_want_of_the_hub_stays_verified(annotated):
    before = files(annotated)
    shutil.rmtree(annotated / "acme/base")
    refused = lineage("annotate", "fern/child", "--local-hub", annotated, "--write")
    assert (refused.code, files(annotated)) == (2, before)
    assert (
        "acme/base was verified before (lineage/claims.json records it), but cannot be read now because HF_HUB_OFFLINE"
        in refused.error
    )


def test_where_nothing_was_verified_the_card_says_that_there_is_nothing_to_compare(hub):
    shutil.rmtree(hub / "acme/base")
    written = lineage("annotate", "fern/child", "--local-hub", hub, "--write")
    assert written.code == 0
    assert b"UNVERIFIABLE" in files(hub)["README.md"]


def test_a_verified_base_that_the_hub_does_not_have_any_more_is_written_down(annotated, monkeypatch):
    shutil.rmtree(annotated / "acme/base")
    monkeypatch.setattr("hf_lineage.hub.client.offline", lambda: False)
    assert lineage("annotate", "fern/child", "--local-hub", annotated, "--write").code == 0
    assert b"UNVERIFIABLE" in files(annotated)["README.md"]
